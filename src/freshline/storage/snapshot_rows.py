"""The rows of a snapshot, read with DuckDB: for `freshline show` and the preview of the page.

A query may only read: a single SELECT is accepted, the connection's file access is limited to the snapshot's own
directories, extensions are neither installed nor loaded, and the configuration is locked before the query runs. So it
can neither write, nor read other files, nor reach the network.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from freshline.errors import NotFoundError, UsageError, WarehouseError
from freshline.model.documents.asset import Column, Location, Snapshot
from freshline.storage.base import Storage, storage_at
from freshline.storage.duckdb_tables import READERS, TableFiles, is_file, store_error, table_query, text_list
from freshline.storage.layout import rows_at

if TYPE_CHECKING:
    import duckdb


class Answer(NamedTuple):
    """Columns with their types, rows, and whether there were more."""

    columns: list[Column]
    rows: list[list[Any]]
    truncated: bool


def query(warehouse: str, snapshot: Snapshot, sql: str | None, limit: int) -> Answer:
    """At most `limit` rows of the snapshot, or of a SELECT over it."""
    if snapshot["goneAt"] is not None:
        raise NotFoundError(
            f"version {snapshot['version']} of {snapshot['assetId']!r} was collected at {snapshot['goneAt']}"
        )
    from freshline.definitions.names import view_of  # noqa: PLC0415 - it loads the definitions

    location = location_of(snapshot)
    view = view_of(snapshot["assetId"])
    text = _one_select(sql) if sql is not None else f'FROM "{view}"'
    with connect(storage_at(warehouse), snapshot, location, view) as connection:
        return _answer(connection, text, limit)


def location_of(snapshot: Snapshot) -> Location:
    """Return the location of the rows: a table that was appended to has several directories."""
    location = snapshot["location"]
    if location is None:
        raise no_table(snapshot)
    parts = snapshot.get("parts")
    return {**location, "paths": [path for _, path in parts]} if parts else location


def _one_select(sql: str) -> str:
    import duckdb  # noqa: PLC0415 - imported on demand

    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise UsageError(f"--sql is not a query: {error}") from None
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise UsageError("--sql takes one SELECT; it can only read")
    return sql


def connect(
    storage: Storage, snapshot: Snapshot, location: Location, view: str, *, settings: Sequence[str] = ()
) -> duckdb.DuckDBPyConnection:
    """Open a connection that can read these rows, as a view, and nothing else. `settings`: what to set before."""
    import duckdb  # noqa: PLC0415 - imported on demand

    if location["format"] not in READERS:
        raise UsageError(f"data in the format {location['format']!r} cannot be shown; known are {', '.join(READERS)}")
    paths = _paths(storage, location)
    table = TableFiles.of(location, columns_of(snapshot), snapshot["rows"])
    connection = duckdb.connect(
        ":memory:", config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    )
    storage.attach(connection)
    for setting in settings:
        connection.execute(setting)
    files = [path for path in paths if is_file(path)]
    connection.execute(f"SET allowed_directories = {text_list(f'{path}/' for path in paths if path not in files)}")
    connection.execute(f"SET allowed_paths = {text_list(files)}")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    try:
        connection.execute(f'CREATE VIEW "{view}" AS {table_query(connection, storage, table, paths)}')
    except (duckdb.Error, WarehouseError) as error:
        connection.close()
        raise WarehouseError(f"the data at {', '.join(paths)} cannot be read: {store_error(error) or error}") from None
    return connection


def _paths(storage: Storage, location: Location) -> list[str]:
    """Table paths are relative to the warehouse, those of sources are not."""
    if "paths" in location:
        return [storage.at(rows_at(location, path)) for path in location["paths"]]
    if "://" in location["path"]:
        raise UsageError(f"{location['path']} is not on this machine; `show` reads remote data only from the warehouse")
    return [str(Path(location["path"]).resolve())]


def _answer(connection: duckdb.DuckDBPyConnection, text: str, limit: int) -> Answer:
    import duckdb  # noqa: PLC0415 - imported on demand

    try:
        result = connection.execute(text)
        rows = result.fetchmany(limit + 1)
    except duckdb.Error as error:
        if found := store_error(error):
            raise WarehouseError(f"the data cannot be read: {found}") from None
        raise UsageError(f"the query failed: {error}") from None
    columns: list[Column] = [{"name": column[0], "type": str(column[1])} for column in result.description or ()]
    return Answer(columns, [[_plain(value) for value in row] for row in rows[:limit]], len(rows) > limit)


def _plain(value: Any) -> Any:
    """Return a value as JSON data: other types become text, and not-a-number becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def columns_of(snapshot: Snapshot) -> list[Column]:
    """Return the columns of a snapshot; none if they are not known."""
    schema = snapshot["schema"]
    return schema.get("fields", []) if schema else []


def no_table(snapshot: Snapshot) -> UsageError:
    """Return the error about a version without rows."""
    return UsageError(f"version {snapshot['version']} of {snapshot['assetId']!r} has no table to query, only a payload")
