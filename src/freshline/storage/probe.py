"""Tries what Freshline relies on, where it cannot be sure of it: in a store of others, before anything is at stake."""

from __future__ import annotations

from contextlib import suppress
from uuid import uuid4

from freshline.storage.base import Storage, StorageError

PUT_ONCE = (
    "it writes over a file that it was asked to create, so that two writers would not notice each other; "
    "Freshline needs a store that honours `If-None-Match: *`, as S3, Google Cloud Storage, Azure, MinIO and R2 do"
)
UNEQUAL = "it does not tell what was written to it a moment ago"


def probe(storage: Storage) -> None:
    """Create a file twice, replace it, list and remove it. What comes back must be what was done."""
    directory = f".freshline-proof-{uuid4()}"
    name = f"{directory}/file"
    try:
        storage.create(name, b"1")  # whose answer may get lost: what counts is the second time
        if storage.create(name, b"2") or storage.read(name) != b"1":
            raise StorageError(PUT_ONCE)
        storage.replace(name, b"three")
        if storage.sizes(directory) != {name: 5} or storage.children(directory) != ["file"]:
            raise StorageError(UNEQUAL)
        storage.remove([name])
        if storage.sizes(directory):
            raise StorageError(UNEQUAL)
    finally:
        with suppress(OSError):
            storage.clear(directory)
