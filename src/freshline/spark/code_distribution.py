"""Sends the project's code to Spark's machines, and checks that their files arrive on this one."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path

import duckdb

from freshline.definitions.code import Code
from freshline.errors import WarehouseError
from freshline.model.run import Location
from freshline.storage.base import Storage

ARCHIVE = "freshline-project.zip"
SHARED = (
    "every machine of Spark and this one must see the same directory under FRESHLINE_WAREHOUSE; check how it is mounted"
)


def pack(code: Code, scratch: Path) -> Path | None:
    """Pack Python files into a zip file that Python can import from; return None if there are none.

    Spark receives functions of the project by name, so its Python processes must be able to import them.
    """
    if not code.files:
        return None
    path = scratch / ARCHIVE
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        # Packages without __init__.py are found only if the zip file lists their directories.
        for folder in sorted(code.folders()):
            archive.writestr(f"{folder}/", b"")
        for file, content in sorted(code.files.items()):
            archive.writestr(file, content)
    return path


def check_arrived(storage: Storage, location: Location, rows: int) -> None:
    """Raise WarehouseError if this machine does not see all rows that other machines wrote."""
    seen = _rows(storage, location["files"]) if location["files"] else 0
    if seen != rows:
        directory = storage.at(location["paths"][-1])
        raise WarehouseError(f"Spark wrote {rows} rows to {directory}, but this machine sees {seen}", hint=SHARED)


def _rows(storage: Storage, files: Iterable[str]) -> int:
    """Return the number of rows in Parquet files, from their footers."""
    with duckdb.connect() as connection:
        storage.attach(connection)
        query = "SELECT sum(num_rows) FROM parquet_file_metadata($files)"
        (total,) = connection.execute(query, {"files": [storage.at(name) for name in files]}).fetchone() or (0,)
    return int(total or 0)
