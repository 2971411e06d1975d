"""The warehouse: where tables lie, what was staged, and whether it is still what was staged. No Spark in here.

    <warehouse>/freshline-warehouse.json                                the id that must match the database's (R12.3)
    <warehouse>/<asset>/data/<run>-<attempt>-<try>/part-*.parquet       one directory per try, written once

A directory is never written twice, so readers of an old snapshot are never disturbed and a late worker changes nothing.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from freshline.errors import WarehouseError
from freshline.storage.base import Storage, StorageError

ID_FILE = "freshline-warehouse.json"
SHOWN = 3  # names in a message about files that differ


def check_warehouse(storage: Storage, expected_id: str, *, make: bool = True) -> None:
    """Create the warehouse with this id, or see that it has it; without `make` it has to be there."""
    try:
        found = read_id(storage)
        if make and found in {None, expected_id}:
            storage.probe()
            found = found or _make(storage, expected_id)
    except OSError as error:
        raise WarehouseError(f"the warehouse {storage} cannot be used: {error.strerror or error}") from None
    if found is None:  # an empty directory may be a place where something was mounted
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
    """Whether the warehouse is there and belongs to the database; nothing is made."""
    try:
        return read_id(storage) == expected_id
    except (WarehouseError, OSError):
        return False


def read_id(storage: Storage) -> str | None:
    """The id that the warehouse carries; None: it is not there, or has none."""
    try:
        return str(json.loads(storage.read(ID_FILE))["id"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise WarehouseError(f'{storage.at(ID_FILE)} is damaged; it must hold {{"id": ...}}; restore it') from None


def _make(storage: Storage, warehouse_id: str) -> str | None:
    """Write the id in one step; whoever comes second reads the first one's."""
    storage.create(ID_FILE, json.dumps({"id": warehouse_id}).encode())
    return read_id(storage)


def staging_directory(asset_id: str, run_id: str, attempt: int, try_: int) -> str:
    """The directory of one try of one output (R9.4)."""
    return f"{data_directory(asset_id)}/{run_id}-{attempt}-{try_}"


def data_directory(asset_id: str) -> str:
    """Where all versions of a table have their directories."""
    return f"{asset_id}/data"


def seal(storage: Storage, directory: str) -> dict[str, Any]:
    """Make what was written durable and say what it is: the location of the staged output.

    Spark's own checksum and marker files go away: Parquet has checksums of its own, and the list has the sizes.
    """
    try:
        there = storage.sizes(directory)
        needless = [name for name in there if PurePosixPath(name).name.startswith((".", "_"))]
        storage.remove(needless)
        storage.make_durable(directory)
    except OSError as error:
        raise not_durable(storage.at(directory), error) from None
    files = {name: there[name] for name in sorted(there.keys() - set(needless))}
    return {"format": "parquet", "paths": [directory], "files": files}


def not_durable(where: str, error: OSError) -> WarehouseError:
    """What the disk or the store said, as an error of the warehouse."""
    return full_disk(error) or WarehouseError(f"{where} cannot be made durable: {error}")


def verify_staged(storage: Storage, location: Mapping[str, Any]) -> None:
    """Refuse a staged output whose directory is no longer what the step left (R9.4)."""
    differs = difference(storage, location)
    if differs:
        raise WarehouseError(
            f"the staged data in {storage.at(location['paths'][-1])} is not what the step wrote: {differs}; "
            "nothing is published"
        )


def difference(storage: Storage, location: Mapping[str, Any]) -> str:
    """How a directory of ours differs from what was recorded when it was written; nothing if it does not.

    `StorageError`: a store of others does not say.
    """
    if "files" not in location:  # data that a job wrote elsewhere
        return ""
    try:
        there = {name: size for path in location["paths"] for name, size in storage.sizes(path).items()}
    except StorageError:  # nothing is known: that is not the same as damage
        raise
    except OSError as error:
        return str(error)
    root = f"{location['paths'][-1]}/"
    expected, found = (
        {name.removeprefix(root): size for name, size in one.items()} for one in (location["files"], there)
    )
    said = {
        "missing": sorted(expected.keys() - found.keys()),
        "unknown": sorted(found.keys() - expected.keys()),
        "other size": sorted(name for name in expected.keys() & found.keys() if expected[name] != found[name]),
    }
    return "; ".join(f"{len(names)} {what} ({', '.join(names[:SHOWN])})" for what, names in said.items() if names)


def full_disk(error: BaseException) -> WarehouseError | None:
    """The error to tell when `error` says that a disk is full."""
    is_full = isinstance(error, OSError) and error.errno == errno.ENOSPC
    if not is_full and "No space left on device" not in str(error):
        return None
    return WarehouseError(
        "the disk of the warehouse, or of Spark's scratch directory, is full; nothing was published",
        hint="free space or set FRESHLINE_WAREHOUSE and TMPDIR to larger disks; the run can then be repeated",
    )
