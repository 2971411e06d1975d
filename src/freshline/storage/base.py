"""The interface to the place where a warehouse is stored: a directory, an object store, or HDFS (ADR 0015).

File names are relative to the warehouse and use slashes. Every failure is an `OSError`. A file is written once, except
by `replace`. The interface needs no atomic renames, links or directories, because object stores have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from freshline.errors import WarehouseError

if TYPE_CHECKING:
    import duckdb

HADOOP = frozenset({"hdfs", "viewfs"})
TEMPORARY_PREFIX = ".freshline-"  # of names of files that are still being written
MAX_ERROR_CHARS = 500
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


class StorageError(WarehouseError, OSError):
    """A remote storage refuses, does not answer, or lacks a guarantee that Freshline needs."""


class Storage(Protocol):
    """The files of one warehouse. `str()` gives the address of the warehouse."""

    def at(self, name: str) -> str:
        """Return the full address of a file, as Spark and `deltalake` take it."""

    def probe(self) -> None:
        """Raise `StorageError` if this storage lacks a guarantee of this interface."""

    def read(self, name: str) -> bytes:
        """Return the content of a file; raise `FileNotFoundError` if it does not exist."""

    def create(self, name: str, data: bytes) -> bool:
        """Write a file if it does not exist: durable and whole, or not at all. Return False if it exists."""

    def replace(self, name: str, data: bytes) -> None:
        """Write a file whether it exists or not. It is durable, and concurrent readers see the old or the new one."""

    def remove(self, names: Iterable[str]) -> None:
        """Delete files one after the other, in this order; missing files are ignored."""

    def clear(self, directory: str) -> None:
        """Delete everything below a directory, ignoring failures."""

    def move(self, directory: str, target: str) -> None:
        """Give all files below a directory, which nobody else uses, names below another one. It is not atomic."""

    def sizes(self, directory: str) -> dict[str, int]:
        """Return the sizes of all files below a directory, at any depth, by name."""

    def children(self, directory: str) -> list[str]:
        """Return the sorted last parts of the names directly below a directory; empty if it does not exist."""

    def age(self, name: str) -> float:
        """Return the seconds since the newest change of a file or below a directory; 0 if unknown."""

    def make_durable(self, directory: str) -> None:
        """Make all files below a directory, which others wrote, and their names durable."""

    def attach(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Let a DuckDB connection read from this storage."""


def storage_at(where: str | Path) -> Storage:
    """Return the storage at a path or an address."""
    found = _ADDRESS.match(where) if isinstance(where, str) else None
    # obstore and fsspec take 100 ms of processor time to import; a command on a directory does not need them.
    if found is None:
        from freshline.storage.local import LocalStorage  # noqa: PLC0415

        return LocalStorage(Path(where))
    if found[1] in HADOOP:
        from freshline.storage.hdfs import hdfs_storage_at  # noqa: PLC0415

        return hdfs_storage_at(str(where))
    from freshline.storage.object_store import object_storage_at  # noqa: PLC0415

    return object_storage_at(str(where))
