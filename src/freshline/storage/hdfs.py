"""A warehouse in HDFS, through the client that is also inside `deltalake` (ADR 0015).

Where the NameNodes are and how to log in comes from HADOOP_CONF_DIR, as for Spark. No test of ours has met a NameNode,
so a worker tries at its start what it relies on.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import uuid4

from freshline.errors import WarehouseError
from freshline.storage.base import MAX_ERROR_CHARS, TEMPORARY_PREFIX, StorageError
from freshline.storage.duckdb_filesystem import FileInfo
from freshline.storage.remote import RemoteStorage

if TYPE_CHECKING:
    from hdfs_native import Client


class HdfsStorage(RemoteStorage):
    """`Storage` under one address of HDFS."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        place = urlsplit(self._address)
        self._root = place.path
        with _told():
            self._client = connect(f"{place.scheme}://{place.netloc}")

    def read(self, name: str) -> bytes:
        """All of a file."""
        with _told():
            return self._client.read(self._path(name)).read()

    def create(self, name: str, data: bytes) -> bool:
        """A rename fails where there is a file already."""
        try:
            self._move(name, data, overwrite=False)
        except FileExistsError:
            return False
        return True

    def replace(self, name: str, data: bytes) -> None:
        """A rename puts it in place."""
        self._move(name, data, overwrite=True)

    def remove(self, names: Iterable[str]) -> None:
        """In the order of the names."""
        for name in names:
            with suppress(FileNotFoundError), _told():
                self._client.delete(self._path(name), recursive=False)

    def clear(self, directory: str) -> None:
        """The directory too."""
        with suppress(OSError), _told():
            self._client.delete(self._path(directory), recursive=True)

    def children(self, directory: str) -> list[str]:
        """Files and directories."""
        with suppress(FileNotFoundError), _told():
            return sorted(posixpath.basename(one.path) for one in self._client.list_status(self._path(directory)))
        return []

    def age(self, name: str) -> float:
        """By the newest file below; of a directory without any, by its own time."""
        with suppress(OSError), _told():
            own = self._client.get_file_info(self._path(name)).modification_time / 1000
            return time.time() - max([own, *(fact.made.timestamp() for fact in self.facts(name))])
        return 0.0

    def facts(self, directory: str) -> Iterator[FileInfo]:
        """Of all files below."""
        with suppress(FileNotFoundError), _told():
            for one in self._client.list_status(self._path(directory), recursive=True):
                if not one.isdir:
                    made = datetime.fromtimestamp(one.modification_time / 1000, UTC)
                    yield FileInfo(one.path.removeprefix(f"{self._root}/"), one.length, made)

    def part(self, name: str, start: int, end: int) -> bytes:
        """Some bytes of a file."""
        with _told():
            return self._client.read(self._path(name)).read_range(start, end - start)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/") or "/"

    def _move(self, name: str, data: bytes, *, overwrite: bool) -> None:
        target = self._path(name)
        made = posixpath.join(posixpath.dirname(target), f"{TEMPORARY_PREFIX}{uuid4()}")
        with _told():
            try:
                with self._client.create(made) as file:
                    file.write(data)
                self._client.rename(made, target, overwrite=overwrite)
            finally:
                with suppress(Exception):  # it is gone if it was renamed
                    self._client.delete(made)


def connect(place: str) -> Client:
    """A client for the NameNodes of one address."""
    try:
        from hdfs_native import Client  # noqa: PLC0415 - it comes with an extra
    except ImportError:
        raise WarehouseError(
            "a warehouse in HDFS needs the package hdfs-native, which is not installed",
            hint="pip install 'freshline[hdfs]'",
        ) from None
    return Client(place)


@cache
def hdfs_storage_at(address: str) -> HdfsStorage:
    """One client per address and process."""
    return HdfsStorage(address)


@contextmanager
def _told() -> Iterator[None]:
    """What the library raises, as the errors that a file system would raise."""
    try:
        yield
    except (FileExistsError, FileNotFoundError, StorageError):
        raise
    except (OSError, RuntimeError) as error:
        raise StorageError(" ".join(str(error).split())[:MAX_ERROR_CHARS]) from None
