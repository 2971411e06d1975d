"""`freshline show`: look at an asset's data with DuckDB, without a JVM.

The query may only read: a single SELECT is accepted, the connection's file access is limited to the snapshot's own
directories, extensions are neither installed nor loaded, and the configuration is locked before the query runs. So it
can neither write, nor read other files, nor reach the network.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from freshline.cli.app import App, json_option, limit_option, pass_app
from freshline.cli.command import command
from freshline.cli.render import output
from freshline.cli.render import table as tables
from freshline.cli.render.format import moment, size
from freshline.cli.render.run import check_lines, check_summary
from freshline.cli.render.table import Table
from freshline.errors import NotFoundError, UsageError, WarehouseError
from freshline.model.documents.asset import Column, Location, Snapshot
from freshline.model.documents.run import Check
from freshline.model.json import Json
from freshline.model.state import reference
from freshline.plural import counted
from freshline.storage.duckdb_tables import READERS, TableFiles, is_file, store_error, table_query, text_list
from freshline.storage.layout import rows_at

if TYPE_CHECKING:
    import duckdb

    from freshline.storage.base import Storage

NARROW_CELL = 16  # values may be wrapped at spaces, down to this width


class Answer(NamedTuple):
    """Columns with their types, rows, and whether there were more."""

    columns: list[Column]
    rows: list[list[Any]]
    truncated: bool


@command(
    "show",
    examples=[
        "freshline show flights.delay.hourly",
        "freshline show flights.delay.hourly --version 3 --limit 100",
        "freshline show flights.delay.hourly \\",
        "    --sql 'SELECT origin, max(delay) FROM flights_delay_hourly GROUP BY ALL'",
        "freshline show sales.daily --partition 2024-01-31",
        "freshline show flights.delay.hourly --json",
    ],
)
@click.argument("asset")
@click.option(
    "--version",
    metavar="N",
    type=click.IntRange(0),
    help="Default: the current one; `status` shows it. With partitions: of the table; `table versions` shows it.",
)
@click.option("--partition", metavar="KEY", help="Only this partition. Default: all of them, with their column.")
@click.option("--sql", metavar="QUERY", help="One SELECT in DuckDB's SQL; the asset is a view, dots are underscores.")
@limit_option(20)
@json_option
@pass_app
def show(
    app: App, *, asset: str, version: int | None, partition: str | None, sql: str | None, limit: int, as_json: bool
) -> None:
    """Show an asset's data. The query can only read this one version, nothing else on the machine.

    For an asset without a table (a report, or data stored outside the warehouse) it shows the payload. Through an API,
    without FRESHLINE_WAREHOUSE, the data is not available: then it shows the metadata of the version.
    """
    settings = app.settings
    with app.read_backend() as reader:
        snapshot = reader.snapshot(asset, version, partition=partition)
    if snapshot["location"] is None:
        _show_payload(snapshot, sql=sql, as_json=as_json)
        return
    if settings.api_url is not None and settings.warehouse is None:
        _show_facts(snapshot, sql=sql, as_json=as_json)
        return
    answer = query(settings.warehouse_at, snapshot, sql, limit)
    if as_json:
        output.print_json(_document(snapshot, answer))
    else:
        _show_table(snapshot, answer)
        _print_checks(snapshot["checks"])


def query(warehouse: str, snapshot: Snapshot, sql: str | None, limit: int) -> Answer:
    """At most `limit` rows of the snapshot, or of a SELECT over it."""
    from freshline.definitions.names import view_of  # noqa: PLC0415 - imported on demand
    from freshline.storage.base import storage_at  # noqa: PLC0415 - imported on demand

    if snapshot["goneAt"] is not None:
        raise NotFoundError(
            f"version {snapshot['version']} of {snapshot['assetId']!r} was collected at {snapshot['goneAt']}"
        )
    location = _location(snapshot)
    view = view_of(snapshot["assetId"])
    text = _one_select(sql) if sql is not None else f'FROM "{view}"'
    with _connect(storage_at(warehouse), snapshot, location, view) as connection:
        return _answer(connection, text, limit)


def _location(snapshot: Snapshot) -> Location:
    """Return the location of the rows: a table that was appended to has several directories."""
    location = snapshot["location"]
    if location is None:
        raise _no_table(snapshot)
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


def _connect(storage: Storage, snapshot: Snapshot, location: Location, view: str) -> duckdb.DuckDBPyConnection:
    import duckdb  # noqa: PLC0415 - imported on demand

    if location["format"] not in READERS:
        raise UsageError(f"data in the format {location['format']!r} cannot be shown; known are {', '.join(READERS)}")
    paths = _paths(storage, location)
    table = TableFiles.of(location, _columns(snapshot), snapshot["rows"])
    connection = duckdb.connect(
        ":memory:", config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    )
    storage.attach(connection)
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


def _document(snapshot: Snapshot, answer: Answer) -> Json:
    names = [column["name"] for column in answer.columns]
    return {
        "assetId": snapshot["assetId"],
        **({"partitionKey": snapshot["partitionKey"]} if snapshot["partitionKey"] else {}),
        "version": _number(snapshot),
        "dataVersion": snapshot["dataVersion"],
        "producedAt": snapshot["producedAt"],
        "columns": answer.columns,
        "rows": [dict(zip(names, row, strict=True)) for row in answer.rows],
        "truncated": answer.truncated,
        "checks": snapshot["checks"],
    }


def _show_table(snapshot: Snapshot, answer: Answer) -> None:
    names = [column["name"] for column in answer.columns]
    rows = [[_cell(value) for value in row] for row in answer.rows]
    output.show(Table.of([tables.Column(name, wraps=NARROW_CELL) for name in names], rows))
    more = "; there are more, see --limit" if answer.truncated else ""
    whole = (
        f"{counted(snapshot['rows'], 'row')}, {size(snapshot['bytes'])}" if snapshot["rows"] is not None else "a source"
    )
    output.message(
        f"{_name(snapshot)} version {_number(snapshot)} of {moment(snapshot['producedAt'])} ({whole}): "
        f"{counted(len(answer.rows), 'row')} shown{more}"
    )


def _name(snapshot: Snapshot) -> str:
    return reference(snapshot["assetId"], snapshot["partitionKey"])


def _number(snapshot: Snapshot) -> int:
    """Return the version: of a partition, that of the table."""
    number = snapshot["tableVersion"] if snapshot["partitionKey"] else None
    return snapshot["version"] if number is None else number


def _print_checks(checks: list[Check] | None) -> None:
    if checks:
        output.message(check_summary(checks))
        for line in check_lines(checks):
            output.message(line.plain)


def _cell(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _show_facts(snapshot: Snapshot, *, sql: str | None, as_json: bool) -> None:
    """Print the metadata of a version."""
    if sql is not None:
        raise UsageError("--sql reads the data: set FRESHLINE_WAREHOUSE to where the tables are")
    if as_json:
        output.print_json(snapshot)
        return
    columns = [[one["name"], json.dumps(one["type"])] for one in _columns(snapshot)]
    output.show(Table.of(["COLUMN", tables.Column("TYPE", wraps=20)], columns))
    output.message(
        f"{_name(snapshot)} version {_number(snapshot)} of {moment(snapshot['producedAt'])}: "
        f"{counted(snapshot['rows'] or 0, 'row')}, {size(snapshot['bytes'])}; set FRESHLINE_WAREHOUSE to see them"
    )
    _print_checks(snapshot["checks"])


def _columns(snapshot: Snapshot) -> list[Column]:
    schema = snapshot["schema"]
    return schema.get("fields", []) if schema else []


def _no_table(snapshot: Snapshot) -> UsageError:
    return UsageError(f"version {snapshot['version']} of {snapshot['assetId']!r} has no table to query, only a payload")


def _show_payload(snapshot: Snapshot, *, sql: str | None, as_json: bool) -> None:
    if sql is not None:
        raise _no_table(snapshot)
    if as_json:
        output.print_json(_document(snapshot, Answer([], [], truncated=False)) | {"payload": snapshot["payload"]})
        return
    output.write_line(json.dumps(snapshot["payload"], indent=2, ensure_ascii=False), sys.stdout)
    output.message(f"{snapshot['assetId']} version {snapshot['version']} has no table; this is its payload")
