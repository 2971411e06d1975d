"""Lets DuckDB read a warehouse that is elsewhere: through our client, and only the parts of files that it asks for.

DuckDB's own way would be an extension that it downloads; `show` allows it none.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

Info = dict[str, Any]


class FileInfo(NamedTuple):
    """What is known of a file."""

    name: str
    size: int
    made: datetime


class Source(Protocol):
    """Where the files are."""

    def facts(self, directory: str) -> Iterable[FileInfo]:
        """Of all files below."""

    def part(self, name: str, start: int, end: int) -> bytes:
        """Some bytes of a file."""


class Scanned(AbstractFileSystem):  # type: ignore[misc]  # it has no types
    """The files below one address, for reading."""

    cachable = False  # instances that are equal are not the same: each belongs to its connection

    def __init__(self, address: str, source: Source) -> None:
        super().__init__()
        self.protocol, _, place = address.partition("://")
        self._place = f"{place}/"
        self._source = source
        self._known: dict[str, Info] = {}  # they do not change

    def _strip_protocol(self, path: str) -> str:
        return path.removeprefix(f"{self.protocol}://").rstrip("/")

    def _name(self, path: str) -> str:
        return self._strip_protocol(path).removeprefix(self._place)

    def _told(self, fact: FileInfo) -> Info:
        told = {"name": f"{self._place}{fact.name}", "size": fact.size, "type": "file", "created": fact.made}
        return self._known.setdefault(fact.name, told)

    def info(self, path: str, **_: Any) -> Info:
        """Size and time of one file."""
        name = self._name(path)
        if name not in self._known:
            directory = name.rpartition("/")[0]
            self.find(f"{self._place}{directory}")
        if name not in self._known:
            raise FileNotFoundError(path)
        return self._known[name]

    def modified(self, path: str) -> datetime:
        """When it was written."""
        made: datetime = self.info(path)["created"]
        return made

    def find(self, path: str, **wanted: Any) -> Any:
        """All files below; what is matched against a pattern."""
        found = {one["name"]: one for one in map(self._told, self._source.facts(self._name(path)))}
        return found if wanted.get("detail") else sorted(found)

    def _open(self, path: str, mode: str = "rb", **_: Any) -> _Range:
        return _Range(self, path, mode, cache_type="readahead")

    def between(self, path: str, start: int, end: int) -> bytes:
        """A part of one file."""
        return self._source.part(self._name(path), start, end)


class _Range(AbstractBufferedFile):  # type: ignore[misc]  # as above
    def _fetch_range(self, start: int, end: int) -> bytes:
        part: bytes = self.fs.between(self.path, start, end)
        return part
