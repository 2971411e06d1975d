"""A warehouse in an object store: S3 and what speaks like it, Google Cloud Storage, Azure (ADR 0015).

Credentials and endpoints come from the environment, by the names that `deltalake` knows too: AWS_*, GOOGLE_*, AZURE_*.
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

PATIENCE: RetryConfig = {"max_retries": 4, "retry_timeout": timedelta(seconds=20)}


class ObjectStorage(RemoteStorage):
    """`Storage` under one address of an object store."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        with _told():
            self._store = from_url(self._address, retry_config=PATIENCE)

    def read(self, name: str) -> bytes:
        """All of an object."""
        with _told():
            return bytes(obstore.get(self._store, name).bytes())

    def create(self, name: str, data: bytes) -> bool:
        """On the condition that there is none."""
        try:
            with _told():
                obstore.put(self._store, name, data, mode="create")
        except FileExistsError:
            return False
        return True

    def replace(self, name: str, data: bytes) -> None:
        """An object is there as a whole when the request is answered."""
        with _told():
            obstore.put(self._store, name, data)

    def remove(self, names: Iterable[str]) -> None:
        """One by one: readers rely on the order."""
        for name in names:
            with suppress(FileNotFoundError), _told():
                obstore.delete(self._store, name)

    def clear(self, directory: str) -> None:
        """Many in a request."""
        with suppress(OSError), _told():
            if names := [fact.name for fact in self._objects(directory)]:
                obstore.delete(self._store, names)

    def children(self, directory: str) -> list[str]:
        """By the slashes in the names of objects."""
        with _told():
            found = obstore.list_with_delimiter(self._store, directory or None)
        names = chain(found["common_prefixes"], (one["path"] for one in found["objects"] if one["path"] != directory))
        return sorted(name.rsplit("/", 1)[-1] for name in names)

    def age(self, name: str) -> float:
        """By the newest object below, or the one of that name. Hadoop's marks alone are nothing that has an age."""
        with suppress(OSError), _told():
            times = [fact.made for fact in self.facts(name)] or [obstore.head(self._store, name)["last_modified"]]
            return time.time() - max(times).timestamp()
        return 0.0

    def facts(self, directory: str) -> Iterator[FileInfo]:
        """Of all objects, but those by which Hadoop marks directories: they are empty, and no file of a table is."""
        with _told():
            yield from (fact for fact in self._objects(directory) if fact.size)

    def part(self, name: str, start: int, end: int) -> bytes:
        """Some bytes of an object."""
        with _told():
            return bytes(obstore.get_range(self._store, name, start=start, end=end))

    def _objects(self, directory: str) -> Iterator[FileInfo]:
        for one in chain.from_iterable(obstore.list(self._store, directory or None)):
            yield FileInfo(one["path"], one["size"], one["last_modified"])


@cache
def object_storage_at(address: str) -> ObjectStorage:
    """One client per address and process: it keeps connections and credentials."""
    return ObjectStorage(address)


@contextmanager
def _told() -> Iterator[None]:
    """What the library raises, as the errors that a file system would raise, without what may be a signature."""
    try:
        yield
    except (AlreadyExistsError, PreconditionError) as error:
        raise FileExistsError(_sentence(error)) from None
    except FileNotFoundError as error:
        raise FileNotFoundError(_sentence(error)) from None
    except (BaseError, OSError, ValueError) as error:
        raise StorageError(_sentence(error)) from None


def _sentence(error: Exception) -> str:
    """Without the library's own notes, and of addresses and of the answer only what carries no secret."""
    text = re.split(r"\n\s*Debug source:", str(error), maxsplit=1)[0]
    said = re.findall(r"<(?:Code|Message)>([^<]*)<", text)
    plain = re.sub(r"(https?://[^\s?]+)\?\S+", r"\1?…", text.split("<", 1)[0])
    return " ".join(" ".join([plain, *said]).split())[:MAX_ERROR_CHARS]
