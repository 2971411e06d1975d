"""Probes a remote storage for the guarantees that Freshline needs, before using it."""

from __future__ import annotations

from contextlib import suppress
from uuid import uuid4

from freshline.storage.base import Storage, StorageError

CREATE_OVERWRITES = (
    "it writes over a file that it was asked to create, so that two writers would not notice each other; "
    "Freshline needs a store that honours `If-None-Match: *`, as S3, Google Cloud Storage, Azure, MinIO and R2 do"
)
READS_DIFFER = "it does not return what was written to it a moment ago"


def probe(storage: Storage) -> None:
    """Create a file twice, replace, list and remove it; raise `StorageError` if a result is unexpected."""
    directory = f".freshline-proof-{uuid4()}"
    name = f"{directory}/file"
    try:
        storage.create(name, b"1")  # its answer may get lost, so only the second call is checked
        if storage.create(name, b"2") or storage.read(name) != b"1":
            raise StorageError(CREATE_OVERWRITES)
        storage.replace(name, b"three")
        if storage.sizes(directory) != {name: 5} or storage.children(directory) != ["file"]:
            raise StorageError(READS_DIFFER)
        storage.remove([name])
        if storage.sizes(directory):
            raise StorageError(READS_DIFFER)
    finally:
        with suppress(OSError):
            storage.clear(directory)
