"""Lets DuckDB read a warehouse in an object store: through our client, and only the parts of files that it asks for.

DuckDB's own way would be an extension that it downloads; `show` allows it none.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import obstore
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem
from obstore.store import ObjectStore

if TYPE_CHECKING:
    from obstore import ObjectMeta

Info = dict[str, Any]


class Scanned(AbstractFileSystem):  # type: ignore[misc]  # it has no types
    """The objects below one address, for reading."""

    cachable = False  # instances that are equal are not the same: each belongs to its connection

    def __init__(self, address: str, store: ObjectStore) -> None:
        super().__init__()
        self.protocol, _, place = address.partition("://")
        self._place = f"{place}/"
        self._store = store
        self._known: dict[str, Info] = {}  # they do not change

    def _strip_protocol(self, path: str) -> str:
        return path.removeprefix(f"{self.protocol}://").rstrip("/")

    def _name(self, path: str) -> str:
        return self._strip_protocol(path).removeprefix(self._place)

    def _told(self, found: ObjectMeta) -> Info:
        path, size, made = found["path"], found["size"], found["last_modified"]
        return self._known.setdefault(
            path, {"name": f"{self._place}{path}", "size": size, "type": "file", "created": made}
        )

    def info(self, path: str, **_: Any) -> Info:
        """Size and time of one object."""
        name = self._name(path)
        return self._known.get(name) or self._told(obstore.head(self._store, name))

    def modified(self, path: str) -> datetime:
        """When it was written."""
        made: datetime = self.info(path)["created"]
        return made

    def find(self, path: str, **wanted: Any) -> Any:
        """All objects below; what is matched against a pattern."""
        pages = obstore.list(self._store, self._name(path))
        found = {one["name"]: one for page in pages for one in map(self._told, page)}
        return found if wanted.get("detail") else sorted(found)

    def _open(self, path: str, mode: str = "rb", **_: Any) -> _Range:
        return _Range(self, path, mode, cache_type="readahead")

    def between(self, path: str, start: int, end: int) -> bytes:
        """A part of one object."""
        return bytes(obstore.get_range(self._store, self._name(path), start=start, end=end))


class _Range(AbstractBufferedFile):  # type: ignore[misc]  # as above
    def _fetch_range(self, start: int, end: int) -> bytes:
        part: bytes = self.fs.between(self.path, start, end)
        return part
