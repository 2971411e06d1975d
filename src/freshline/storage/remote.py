"""The base class of remote storages: object stores and HDFS."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from freshline.storage.base import Storage
from freshline.storage.duckdb_filesystem import DuckDBFilesystem, FileInfo
from freshline.storage.probe import probe

if TYPE_CHECKING:
    import duckdb


class RemoteStorage(Storage):
    """`Storage` under one address. A file is durable once the storage has acknowledged it."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")

    def __str__(self) -> str:
        return self._address

    @abstractmethod
    def files(self, directory: str) -> Iterator[FileInfo]:
        """Yield all files below a directory, at any depth."""

    @abstractmethod
    def objects(self, directory: str) -> Iterator[FileInfo]:
        """Yield the same, with empty files."""

    @abstractmethod
    def read_range(self, name: str, start: int, end: int) -> bytes:
        """Return the bytes of a file from `start` up to, but not including, `end`."""

    def at(self, name: str) -> str:
        """Return the full address."""
        return f"{self._address}/{name}"

    def probe(self) -> None:
        """Try the guarantees: some object stores ignore the condition that `create` relies on."""
        probe(self)

    def sizes(self, directory: str) -> dict[str, int]:
        """Return the sizes that the storage lists."""
        return {file.name: file.size for file in self.files(directory)}

    def make_durable(self, directory: str) -> None:
        """Do nothing: acknowledged files are durable."""

    def attach(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Register a file system for this address, so that DuckDB reads through this client."""
        connection.register_filesystem(DuckDBFilesystem(self._address, self))
