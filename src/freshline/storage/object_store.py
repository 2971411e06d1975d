"""A warehouse in an object store: S3 and compatible stores, Google Cloud Storage, Azure (ADR 0015).

Credentials and endpoints come from the environment variables that `deltalake` reads too: AWS_*, GOOGLE_*, AZURE_*.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import from_url

from freshline.storage.base import MAX_ERROR_CHARS, StorageError
from freshline.storage.duckdb_filesystem import FileInfo
from freshline.storage.remote import RemoteStorage

if TYPE_CHECKING:
    from obstore.store import RetryConfig

RETRIES: RetryConfig = {"max_retries": 4, "retry_timeout": timedelta(seconds=20)}


class ObjectStorage(RemoteStorage):
    """`Storage` under one address of an object store."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        with _translated_errors():
            self._store = from_url(self._address, retry_config=RETRIES)

    def read(self, name: str) -> bytes:
        """Return the content of an object."""
        with _translated_errors():
            return bytes(obstore.get(self._store, name).bytes())

    def create(self, name: str, data: bytes) -> bool:
        """Put an object on the condition that it does not exist."""
        try:
            with _translated_errors():
                obstore.put(self._store, name, data, mode="create")
        except FileExistsError:
            return False
        return True

    def replace(self, name: str, data: bytes) -> None:
        """Put an object: it becomes visible as a whole."""
        with _translated_errors():
            obstore.put(self._store, name, data)

    def remove(self, names: Iterable[str]) -> None:
        """Delete objects one by one: readers of a Delta log rely on the order."""
        for name in names:
            with suppress(FileNotFoundError), _translated_errors():
                obstore.delete(self._store, name)

    def clear(self, directory: str) -> None:
        """Delete the objects below, many per request."""
        with suppress(OSError), _translated_errors():
            if names := [file.name for file in self._listed(directory)]:
                obstore.delete(self._store, names)

    def move(self, directory: str, target: str) -> None:
        """Copy and delete each object."""
        with _translated_errors():
            for file in list(self._listed(directory)):
                obstore.rename(self._store, file.name, f"{target}{file.name.removeprefix(directory)}")

    def children(self, directory: str) -> list[str]:
        """Return the next parts of the names, up to a slash."""
        with _translated_errors():
            found = obstore.list_with_delimiter(self._store, directory or None)
        names = chain(found["common_prefixes"], (one["path"] for one in found["objects"] if one["path"] != directory))
        return sorted(name.rsplit("/", 1)[-1] for name in names)

    def age(self, name: str) -> float:
        """Return the age of the newest object below, or of the object itself; directory markers do not count."""
        with suppress(OSError), _translated_errors():
            times = [file.modified for file in self.files(name)] or [obstore.head(self._store, name)["last_modified"]]
            return time.time() - max(times).timestamp()
        return 0.0

    def files(self, directory: str) -> Iterator[FileInfo]:
        """Yield all objects below except empty ones: those are Hadoop's directory markers, and no file is empty."""
        with _translated_errors():
            yield from (file for file in self._listed(directory) if file.size)

    def objects(self, directory: str) -> Iterator[FileInfo]:
        """Yield all objects below."""
        with _translated_errors():
            yield from self._listed(directory)

    def read_range(self, name: str, start: int, end: int) -> bytes:
        """Return some bytes of an object."""
        with _translated_errors():
            return bytes(obstore.get_range(self._store, name, start=start, end=end))

    def _listed(self, directory: str) -> Iterator[FileInfo]:
        for one in chain.from_iterable(obstore.list(self._store, directory or None)):
            yield FileInfo(one["path"], one["size"], one["last_modified"], one["e_tag"])


@cache
def object_storage_at(address: str) -> ObjectStorage:
    """Return the storage of an address: one client per process, as it keeps connections and credentials."""
    return ObjectStorage(address)


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Convert obstore's errors to those of a file system, without signatures."""
    try:
        yield
    except (AlreadyExistsError, PreconditionError) as error:
        raise FileExistsError(_sentence(error)) from None
    except FileNotFoundError as error:
        raise FileNotFoundError(_sentence(error)) from None
    except (BaseError, OSError, ValueError) as error:
        raise StorageError(_sentence(error)) from None


def _sentence(error: Exception) -> str:
    """Return the error text without debug output, and without the parts of URLs and replies that may hold secrets."""
    text = re.split(r"\n\s*Debug source:", str(error), maxsplit=1)[0]
    reply = re.findall(r"<(?:Code|Message)>([^<]*)<", text)
    plain = re.sub(r"(https?://[^\s?]+)\?\S+", r"\1?…", text.split("<", 1)[0])
    return " ".join(" ".join([plain, *reply]).split())[:MAX_ERROR_CHARS]
