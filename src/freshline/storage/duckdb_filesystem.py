"""A read-only fsspec file system through which DuckDB reads remote storages, range by range.

DuckDB's own clients are extensions that it downloads, which `show` does not allow. obstore has an fsspec file system,
but it needs three to five times the requests and does not know HDFS (ADR 0017).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from freshline.model.json import Json


class FileInfo(NamedTuple):
    """A file in a listing. `etag`: changes with the content, if the storage has one."""

    name: str
    size: int
    modified: datetime
    etag: str | None = None


class Source(Protocol):
    """The part of `RemoteStorage` that is read here."""

    def files(self, directory: str) -> Iterable[FileInfo]:
        """Yield all files below a directory."""

    def read_range(self, name: str, start: int, end: int) -> bytes:
        """Return some bytes of a file."""


class DuckDBFilesystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The files below one address, and below others of the same protocol that are added."""

    cachable = False  # fsspec would share an instance between connections

    def __init__(self, address: str, source: Source) -> None:
        super().__init__()
        self.protocol = address.partition("://")[0]
        self._sources: dict[str, Source] = {}
        self._known: dict[str, Json] = {}  # never stale: files of a warehouse do not change
        self.add(address, source)

    def add(self, address: str, source: Source) -> None:
        """Read what is below this address from this source. The longest address of a file decides."""
        self._sources[f"{self._strip_protocol(address)}/"] = source

    def _strip_protocol(self, path: str) -> str:
        return path.removeprefix(f"{self.protocol}://").rstrip("/")

    def _place(self, path: str) -> str:
        """Return the address that a path is below, without the protocol and with a slash."""
        found = [place for place in self._sources if f"{self._strip_protocol(path)}/".startswith(place)]
        if not found:
            raise FileNotFoundError(path)
        return max(found, key=len)

    def _remember(self, place: str, file: FileInfo) -> Json:
        path = f"{place}{file.name}"
        info = {"name": path, "size": file.size, "type": "file", "created": file.modified}
        return self._known.setdefault(path, info)

    def info(self, path: str, **_: Any) -> Json:
        """Return the size and time of one file. A file that is not known yet is found by listing its directory."""
        name = self._strip_protocol(path)
        if name not in self._known:
            self.find(name.rpartition("/")[0])
        if name not in self._known:
            raise FileNotFoundError(path)
        return self._known[name]

    def modified(self, path: str) -> datetime:
        """Return when a file was written."""
        modified: datetime = self.info(path)["created"]
        return modified

    def find(self, path: str, **wanted: Any) -> Any:
        """Return all files below a path; fsspec matches them against a pattern."""
        place = self._place(path)
        files = self._sources[place].files(f"{self._strip_protocol(path)}/".removeprefix(place).rstrip("/"))
        found = {info["name"]: info for info in (self._remember(place, file) for file in files)}
        return found if wanted.get("detail") else sorted(found)

    def _open(self, path: str, mode: str = "rb", **_: Any) -> _RangeFile:
        return _RangeFile(self, path, mode, cache_type="readahead")

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return some bytes of a file."""
        place = self._place(path)
        return self._sources[place].read_range(self._strip_protocol(path).removeprefix(place), start, end)


class _RangeFile(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = self.fs.read_range(self.path, start, end)
        return data
