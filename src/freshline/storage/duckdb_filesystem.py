"""A read-only fsspec file system through which DuckDB reads a remote storage, range by range.

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
    """A file in a listing."""

    name: str
    size: int
    modified: datetime


class Source(Protocol):
    """The part of `RemoteStorage` that is read here."""

    def files(self, directory: str) -> Iterable[FileInfo]:
        """Yield all files below a directory."""

    def read_range(self, name: str, start: int, end: int) -> bytes:
        """Return some bytes of a file."""


class DuckDBFilesystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The files below one address."""

    cachable = False  # fsspec would share an instance between connections

    def __init__(self, address: str, source: Source) -> None:
        super().__init__()
        self.protocol, _, place = address.partition("://")
        self._place = f"{place}/"
        self._source = source
        self._known: dict[str, Json] = {}  # never stale: files of a warehouse do not change

    def _strip_protocol(self, path: str) -> str:
        return path.removeprefix(f"{self.protocol}://").rstrip("/")

    def _name(self, path: str) -> str:
        return self._strip_protocol(path).removeprefix(self._place)

    def _remember(self, file: FileInfo) -> Json:
        info = {"name": f"{self._place}{file.name}", "size": file.size, "type": "file", "created": file.modified}
        return self._known.setdefault(file.name, info)

    def info(self, path: str, **_: Any) -> Json:
        """Return the size and time of one file. A file that is not known yet is found by listing its directory."""
        name = self._name(path)
        if name not in self._known:
            directory = name.rpartition("/")[0]
            self.find(f"{self._place}{directory}")
        if name not in self._known:
            raise FileNotFoundError(path)
        return self._known[name]

    def modified(self, path: str) -> datetime:
        """Return when a file was written."""
        modified: datetime = self.info(path)["created"]
        return modified

    def find(self, path: str, **wanted: Any) -> Any:
        """Return all files below a path; fsspec matches them against a pattern."""
        found = {info["name"]: info for info in map(self._remember, self._source.files(self._name(path)))}
        return found if wanted.get("detail") else sorted(found)

    def _open(self, path: str, mode: str = "rb", **_: Any) -> _RangeFile:
        return _RangeFile(self, path, mode, cache_type="readahead")

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return some bytes of a file."""
        return self._source.read_range(self._name(path), start, end)


class _RangeFile(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = self.fs.read_range(self.path, start, end)
        return data
