"""What Freshline asks of the place where a warehouse is: a directory, a part of a bucket, or HDFS (ADR 0015).

Names are relative to that place, with slashes. Whatever goes wrong is an `OSError`. No file of ours is written twice
but by `replace`, and nothing here needs renames, links or directories: object stores have none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from freshline.errors import WarehouseError

if TYPE_CHECKING:
    import duckdb

HADOOP = frozenset({"hdfs", "viewfs"})
TEMPORARY_PREFIX = ".freshline-"  # how the name of a file in the making begins
MAX_ERROR_CHARS = 500  # characters of an error
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


class StorageError(WarehouseError, OSError):
    """A store of others refuses, does not answer, or does not keep what Freshline relies on."""


class Storage(Protocol):
    """The files of one warehouse. As a text it is the address of the warehouse."""

    def at(self, name: str) -> str:
        """The whole address, as Spark and `deltalake` take it."""

    def probe(self) -> None:
        """Raise if a promise of the protocol is not kept here."""

    def read(self, name: str) -> bytes:
        """What is in a file; `FileNotFoundError` if it is not there."""

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that is not there: durable and whole, or not at all. False: somebody was first."""

    def replace(self, name: str, data: bytes) -> None:
        """Write a file, whether it is there or not: durable, and whole for whoever reads it meanwhile."""

    def remove(self, names: Iterable[str]) -> None:
        """Delete files, one after the other; what is gone already is fine."""

    def clear(self, directory: str) -> None:
        """Delete everything below, as far as that is possible."""

    def sizes(self, directory: str) -> dict[str, int]:
        """Every file below, however deep."""

    def children(self, directory: str) -> list[str]:
        """The last parts of the names right below, in order; none if it is not there."""

    def age(self, name: str) -> float:
        """Seconds since anything in it was made; 0 if that cannot be told."""

    def make_durable(self, directory: str) -> None:
        """Have all that others wrote below, and its name, durable."""

    def flushing(self, directory: str) -> AbstractContextManager[None]:
        """While others write there, have what is there already become durable. `WarehouseError`: it cannot be."""

    def attach(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Let DuckDB read here."""


def storage_at(where: str | Path) -> Storage:
    """The storage at a path or an address."""
    found = _ADDRESS.match(where) if isinstance(where, str) else None
    if found is None:
        from freshline.storage.local import LocalStorage  # noqa: PLC0415 - each imports what only it needs

        return LocalStorage(Path(where))
    if found[1] in HADOOP:
        from freshline.storage.hdfs import hdfs_storage_at  # noqa: PLC0415 - as above

        return hdfs_storage_at(str(where))
    from freshline.storage.object_store import object_storage_at  # noqa: PLC0415 - as above

    return object_storage_at(str(where))
