"""The warehouse: where tables lie, what was staged, and whether it is still what was staged. No Spark in here.

    <warehouse>/freshline-warehouse.json                                the id that must match the database's (R12.3)
    <warehouse>/<asset>/data/<run>-<attempt>-<try>/part-*.parquet       one directory per try, written once

A directory is never written twice, so readers of an old snapshot are never disturbed and a late worker changes nothing.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from freshline.errors import WarehouseError

ID_FILE = "freshline-warehouse.json"
SHOWN = 3  # names in a message about files that differ


def check_warehouse(path: Path, expected_id: str, *, make: bool = True) -> None:
    """Create the warehouse with this id, or see that it has it; without `make` it has to be there."""
    try:
        found = read_id(path) or (_make(path, expected_id) if make else None)
    except OSError as error:
        raise WarehouseError(f"the warehouse {path} cannot be used: {error.strerror or error}") from None
    if found is None:  # an empty directory may be a place where something was mounted
        raise WarehouseError(
            f"the warehouse {path} is gone: it has no {ID_FILE}",
            hint="mount or restore it; a worker that is started where there is none begins an empty one",
        )
    if found != expected_id:
        raise WarehouseError(
            f"the warehouse {path} belongs to another database: its id is {found!r}, the database's is {expected_id!r}",
            hint="set FRESHLINE_WAREHOUSE or FRESHLINE_DATABASE_URL so that both belong together",
        )


def is_ours(path: Path, expected_id: str) -> bool:
    """Whether the warehouse is there and belongs to the database; nothing is made."""
    try:
        return read_id(path) == expected_id
    except (WarehouseError, OSError):
        return False


def read_id(path: Path) -> str | None:
    """The id that the warehouse carries; None: it is not there, or has none."""
    try:
        return str(json.loads((path / ID_FILE).read_text())["id"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise WarehouseError(f'{path / ID_FILE} is damaged; it must hold {{"id": ...}}; restore it') from None


def _make(path: Path, warehouse_id: str) -> str | None:
    """Write the id in one step; whoever comes second reads the first one's."""
    path.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path, prefix=".id-")
    with os.fdopen(handle, "w") as file:
        json.dump({"id": warehouse_id}, file)
        file.flush()
        os.fsync(file.fileno())
    with contextlib.suppress(FileExistsError):
        os.link(name, path / ID_FILE)
    Path(name).unlink()
    sync(path)
    return read_id(path)


def staging_directory(warehouse: Path, asset_id: str, run_id: str, attempt: int, try_: int) -> Path:
    """The directory of one try of one output (R9.4)."""
    return warehouse / asset_id / "data" / f"{run_id}-{attempt}-{try_}"


def seal(warehouse: Path, directory: Path) -> dict[str, Any]:
    """Make what was written durable and say what it is: the location of the staged output.

    Spark's own checksum and marker files go away: Parquet has checksums of its own, and the list has the sizes.
    """
    try:
        for file in [file for file in files_under(directory) if file.name.startswith((".", "_"))]:
            file.unlink()
        files = {str(file.relative_to(warehouse)): file.stat().st_size for file in files_under(directory)}
        for name in files:
            sync(warehouse / name)
        for folder in [*_folders(directory), *_between(directory, warehouse)]:
            sync(folder)
    except OSError as error:
        raise not_durable(directory, error) from None
    return {"format": "parquet", "paths": [str(directory.relative_to(warehouse))], "files": dict(sorted(files.items()))}


def not_durable(directory: Path, error: OSError) -> WarehouseError:
    """What the disk said, as an error of the warehouse."""
    return full_disk(error) or WarehouseError(f"{directory} cannot be made durable: {error}")


def sync(path: Path) -> None:
    """Have a file, or the names in a directory, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def verify_staged(warehouse: Path, location: Mapping[str, Any]) -> None:
    """Refuse a staged output whose directory is no longer what the step left (R9.4)."""
    differs = difference(warehouse, location)
    if differs:
        raise WarehouseError(
            f"the staged data in {warehouse / location['paths'][-1]} is not what the step wrote: {differs}; "
            "nothing is published"
        )


def difference(warehouse: Path, location: Mapping[str, Any]) -> str:
    """How a directory of ours differs from what was recorded when it was written; nothing if it does not."""
    if "files" not in location:  # data that a job wrote elsewhere
        return ""
    expected = dict(location["files"])
    try:
        there = [file for path in location["paths"] for file in files_under(warehouse / path)]
        found = {str(file.relative_to(warehouse)): file.stat().st_size for file in there}
    except OSError as error:
        return str(error)
    root = f"{location['paths'][-1]}/"
    expected, found = ({name.removeprefix(root): size for name, size in one.items()} for one in (expected, found))
    said = {
        "missing": sorted(expected.keys() - found.keys()),
        "unknown": sorted(found.keys() - expected.keys()),
        "other size": sorted(name for name in expected.keys() & found.keys() if expected[name] != found[name]),
    }
    return "; ".join(f"{len(names)} {what} ({', '.join(names[:SHOWN])})" for what, names in said.items() if names)


def discard(warehouse: Path, location: Mapping[str, Any]) -> None:
    """Delete a staged output that will never be published; what is gone already is fine."""
    if "files" in location:
        discard_directory(warehouse / location["paths"][-1])


def discard_directory(directory: Path) -> None:
    """Delete one staging directory."""
    shutil.rmtree(directory, ignore_errors=True)


def full_disk(error: BaseException) -> WarehouseError | None:
    """The error to tell when `error` says that a disk is full."""
    is_full = isinstance(error, OSError) and error.errno == errno.ENOSPC
    if not is_full and "No space left on device" not in str(error):
        return None
    return WarehouseError(
        "the disk of the warehouse, or of Spark's scratch directory, is full; nothing was published",
        hint="free space or set FRESHLINE_WAREHOUSE and TMPDIR to larger disks; the run can then be repeated",
    )


def files_under(directory: Path) -> Iterator[Path]:
    """Every file in it, however deep."""
    for folder, _, names in os.walk(directory):
        for name in names:
            yield Path(folder, name)


def _folders(directory: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(directory):
        yield Path(folder)


def _between(directory: Path, warehouse: Path) -> Iterator[Path]:
    """The directories above it that may be new, up to the warehouse."""
    for folder in directory.parents:
        if folder.is_relative_to(warehouse):
            yield folder
