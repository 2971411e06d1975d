"""A warehouse in HDFS, through `hdfs-native`, the client that `deltalake` contains too (ADR 0015).

NameNodes and credentials come from HADOOP_CONF_DIR, as for Spark. The tests use a stand-in and no real NameNode, so a
worker probes the storage when it starts.
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
        with _translated_errors():
            self._client = connect(f"{place.scheme}://{place.netloc}")

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with _translated_errors():
            return self._client.read(self._path(name)).read()

    def create(self, name: str, data: bytes) -> bool:
        """Write a temporary file and rename it, which fails if the target exists."""
        try:
            self._move(name, data, overwrite=False)
        except FileExistsError:
            return False
        return True

    def replace(self, name: str, data: bytes) -> None:
        """Write a temporary file and rename it over the target."""
        self._move(name, data, overwrite=True)

    def remove(self, names: Iterable[str]) -> None:
        """Delete files in this order."""
        for name in names:
            with suppress(FileNotFoundError), _translated_errors():
                self._client.delete(self._path(name), recursive=False)

    def clear(self, directory: str) -> None:
        """Delete the directory too."""
        with suppress(OSError), _translated_errors():
            self._client.delete(self._path(directory), recursive=True)

    def move(self, directory: str, target: str) -> None:
        """Rename the directory."""
        with _translated_errors():
            self._client.mkdirs(posixpath.dirname(self._path(target)), create_parent=True)
            self._client.rename(self._path(directory), self._path(target))

    def children(self, directory: str) -> list[str]:
        """Return the names of files and directories."""
        with suppress(FileNotFoundError), _translated_errors():
            return sorted(posixpath.basename(one.path) for one in self._client.list_status(self._path(directory)))
        return []

    def age(self, name: str) -> float:
        """Return the age of the newest file below, or of the directory if it has none."""
        with suppress(OSError), _translated_errors():
            own = self._client.get_file_info(self._path(name)).modification_time / 1000
            return time.time() - max([own, *(file.modified.timestamp() for file in self.files(name))])
        return 0.0

    def files(self, directory: str) -> Iterator[FileInfo]:
        """Yield all files below."""
        with suppress(FileNotFoundError), _translated_errors():
            for one in self._client.list_status(self._path(directory), recursive=True):
                if not one.isdir:
                    modified = datetime.fromtimestamp(one.modification_time / 1000, UTC)
                    yield FileInfo(one.path.removeprefix(f"{self._root}/"), one.length, modified)

    def objects(self, directory: str) -> Iterator[FileInfo]:
        """Yield all files below, which may be empty here too."""
        return self.files(directory)

    def read_range(self, name: str, start: int, end: int) -> bytes:
        """Return some bytes of a file."""
        with _translated_errors():
            return self._client.read(self._path(name)).read_range(start, end - start)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/") or "/"

    def _move(self, name: str, data: bytes, *, overwrite: bool) -> None:
        target = self._path(name)
        temporary = posixpath.join(posixpath.dirname(target), f"{TEMPORARY_PREFIX}{uuid4()}")
        with _translated_errors():
            try:
                with self._client.create(temporary) as file:
                    file.write(data)
                self._client.rename(temporary, target, overwrite=overwrite)
            finally:
                with suppress(Exception):  # it does not exist any more if it was renamed
                    self._client.delete(temporary)


def connect(place: str) -> Client:
    """Return a client for the NameNodes of an address."""
    try:
        from hdfs_native import Client  # noqa: PLC0415 - the package is an extra
    except ImportError:
        raise WarehouseError(
            "a warehouse in HDFS needs the package hdfs-native, which is not installed",
            hint="pip install 'freshline[hdfs]'",
        ) from None
    return Client(place)


@cache
def hdfs_storage_at(address: str) -> HdfsStorage:
    """Return the storage of an address: one client per process."""
    return HdfsStorage(address)


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Convert hdfs-native's errors to those of a file system."""
    try:
        yield
    except (FileExistsError, FileNotFoundError, StorageError):
        raise
    except (OSError, RuntimeError) as error:
        raise StorageError(" ".join(str(error).split())[:MAX_ERROR_CHARS]) from None
