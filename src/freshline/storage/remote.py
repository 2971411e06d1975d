"""What storages have in common that are not on a disk of this machine: an object store and HDFS."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from freshline.storage.base import Storage
from freshline.storage.duckdb_filesystem import FileInfo, Scanned
from freshline.storage.probe import probe

if TYPE_CHECKING:
    import duckdb


class RemoteStorage(Storage):
    """`Storage` under one address. What such a place has answered for is durable."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")

    def __str__(self) -> str:
        return self._address

    @abstractmethod
    def facts(self, directory: str) -> Iterator[FileInfo]:
        """Of all files below."""

    @abstractmethod
    def part(self, name: str, start: int, end: int) -> bytes:
        """Some bytes of a file."""

    def at(self, name: str) -> str:
        """The address."""
        return f"{self._address}/{name}"

    def probe(self) -> None:
        """It is others' and may do otherwise: what it was asked to create, it may write over without a word."""
        probe(self)

    def sizes(self, directory: str) -> dict[str, int]:
        """As its lists tell them."""
        return {fact.name: fact.size for fact in self.facts(directory)}

    def make_durable(self, directory: str) -> None:
        """It is already."""

    def flushing(self, directory: str) -> AbstractContextManager[None]:  # noqa: ARG002 - as the protocol has it
        """There is nothing to do."""
        return nullcontext()

    def attach(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Under our address DuckDB reads through us."""
        connection.register_filesystem(Scanned(self._address, self))
