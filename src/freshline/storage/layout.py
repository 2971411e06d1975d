"""The layout of a warehouse, and the check that staged files are unchanged (docs/semantics.md#R9.4).

    <warehouse>/freshline-warehouse.json                            the id, which must match the database's
    <warehouse>/<asset>/data/<run>-<attempt>-<try>/part-*.parquet   one directory per try, written once
    <warehouse>/<asset>/data/<run>-<attempt>-<try>/day=2024-01-31/part-*.parquet   the same of a partition

Of a batch, the location of each partition names its own directory, so that each is read and removed by itself.

A directory is never written twice, so readers of an old snapshot are not disturbed and a late worker changes nothing.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from freshline.errors import WarehouseError
from freshline.model.json import Json
from freshline.partitions.keys import encode_for_path
from freshline.storage.base import Storage, StorageError

Location = Mapping[str, Any]  # the JSON document `location` of an output
ID_FILE = "freshline-warehouse.json"
TRY_STEP = 1_000  # more than a step has tries
SHOWN = 3  # names in a message about files that differ


def check_warehouse(storage: Storage, expected_id: str, *, make: bool = True) -> None:
    """Check that the warehouse has this id. With `make`, probe the storage and create a missing warehouse."""
    try:
        found = read_id(storage)
        if make and found in {None, expected_id}:
            storage.probe()
            found = found or _make(storage, expected_id)
    except OSError as error:
        raise WarehouseError(f"the warehouse {storage} cannot be used: {error.strerror or error}") from None
    if found is None:  # an empty directory may be a mount point whose disk is missing
        raise WarehouseError(
            f"the warehouse {storage} is gone: it has no {ID_FILE}",
            hint="mount or restore it; a worker that is started where there is none begins an empty one",
        )
    if found != expected_id:
        raise WarehouseError(
            f"the warehouse {storage} belongs to another database: its id is {found!r}, the database's is "
            f"{expected_id!r}",
            hint="set FRESHLINE_WAREHOUSE or FRESHLINE_DATABASE_URL so that both belong together",
        )


def is_ours(storage: Storage, expected_id: str) -> bool:
    """Return whether the warehouse exists and belongs to the database."""
    try:
        return read_id(storage) == expected_id
    except (WarehouseError, OSError):
        return False


def read_id(storage: Storage) -> str | None:
    """Return the id of the warehouse; None if it does not exist or has none."""
    try:
        return str(json.loads(storage.read(ID_FILE))["id"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise WarehouseError(f'{storage.at(ID_FILE)} is damaged; it must hold {{"id": ...}}; restore it') from None


def _make(storage: Storage, warehouse_id: str) -> str | None:
    """Write the id atomically; the second of two writers gets the first one's."""
    storage.create(ID_FILE, json.dumps({"id": warehouse_id}).encode())
    return read_id(storage)


def staging_directory(asset_id: str, run_id: str, attempt: int, try_: int) -> str:
    """Return the directory of one try of one output."""
    return f"{data_directory(asset_id)}/{run_id}-{attempt}-{try_}"


def unused_staging_directory(storage: Storage, asset_id: str, run_id: str, attempt: int, try_: int) -> str:
    """Return the directory of one try, or one with a higher number if that exists.

    It exists only after a restore of the database: the run was queued at the time of the backup, and what it wrote
    afterwards may be all that is left of it. A failed try removes its directory, so it must not be that one.
    """
    directory = staging_directory(asset_id, run_id, attempt, try_)
    while _exists(storage, directory):
        try_ += TRY_STEP
        directory = staging_directory(asset_id, run_id, attempt, try_)
    return directory


def _exists(storage: Storage, directory: str) -> bool:
    try:
        return bool(storage.children(directory))
    except OSError as error:
        raise WarehouseError(f"{storage.at(directory)} cannot be read: {error}") from None


def data_directory(asset_id: str) -> str:
    """Return the directory that holds all versions of a table."""
    return f"{asset_id}/data"


def partition_directory(columns: Mapping[str, str]) -> str:
    """Return the directory of a partition below that of a try: `day=2024-01-31/region=eu`. Values are encoded."""
    return "/".join(f"{encode_for_path(name)}={encode_for_path(value)}" for name, value in columns.items())


def rows_at(location: Location, directory: str) -> str:
    """Return where the files are in a directory of a table: in it, or in that of its partition below."""
    partition = location.get("partition")
    return f"{directory}/{partition['directory']}" if partition and partition["directory"] else directory


def attempt_directory(path: str) -> str:
    """Return the directory of a try of an output to which a directory of a table belongs: that of a batch is below."""
    return "/".join(path.split("/")[:3])


def seal(storage: Storage, directory: str) -> Json:
    """Make a written directory durable and return its location, which lists the files with their sizes.

    Spark's checksum and marker files are deleted: Parquet has its own checksums, and the list has the sizes.
    """
    try:
        sizes = storage.sizes(directory)
        needless = [name for name in sizes if PurePosixPath(name).name.startswith((".", "_"))]
        storage.remove(needless)
        storage.make_durable(directory)
    except OSError as error:
        raise full_disk(error) or WarehouseError(f"{storage.at(directory)} cannot be made durable: {error}") from None
    files = {name: sizes[name] for name in sorted(sizes.keys() - set(needless))}
    return {"format": "parquet", "paths": [directory], "files": files}


def verify_staged(storage: Storage, location: Location) -> None:
    """Raise `WarehouseError` if a staged directory differs from what the step wrote."""
    differs = difference(storage, location)
    if differs:
        raise WarehouseError(
            f"the staged data in {storage.at(location['paths'][-1])} is not what the step wrote: {differs}; "
            "nothing is published"
        )


def difference(storage: Storage, location: Location) -> str:
    """Describe how a directory differs from its recorded file list; empty if it does not.

    Raise `StorageError` if a remote storage does not answer.
    """
    if "files" not in location:  # a job wrote it outside of the warehouse
        return ""
    try:
        listed = {name: size for path in location["paths"] for name, size in storage.sizes(path).items()}
    except StorageError:  # unknown is not the same as damaged
        raise
    except OSError as error:
        return str(error)
    root = f"{location['paths'][-1]}/"
    expected, found = (
        {name.removeprefix(root): size for name, size in one.items()} for one in (location["files"], listed)
    )
    differences = {
        "missing": sorted(expected.keys() - found.keys()),
        "unknown": sorted(found.keys() - expected.keys()),
        "other size": sorted(name for name in expected.keys() & found.keys() if expected[name] != found[name]),
    }
    return "; ".join(
        f"{len(names)} {what} ({', '.join(names[:SHOWN])})" for what, names in differences.items() if names
    )


def full_disk(error: BaseException) -> WarehouseError | None:
    """Return the error to raise if `error` means that a disk is full, else None."""
    is_full = isinstance(error, OSError) and error.errno == errno.ENOSPC
    if not is_full and "No space left on device" not in str(error):
        return None
    return WarehouseError(
        "the disk of the warehouse, or of Spark's scratch directory, is full; nothing was published",
        hint="free space or set FRESHLINE_WAREHOUSE and TMPDIR to larger disks; the run can then be repeated",
    )
