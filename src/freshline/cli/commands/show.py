"""`freshline show`: look at an asset's data with DuckDB, without a JVM."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from freshline.cli.app import App, json_option, limit_option, pass_app
from freshline.cli.command import command
from freshline.cli.render import output
from freshline.cli.render import table as tables
from freshline.cli.render.format import moment, size
from freshline.cli.render.run import check_lines, check_summary
from freshline.cli.render.table import Table
from freshline.errors import UsageError
from freshline.model.deliveries import DELIVERED
from freshline.model.documents.asset import Snapshot
from freshline.model.documents.run import Check
from freshline.model.json import Json
from freshline.model.state import reference
from freshline.plural import counted
from freshline.storage.snapshot_rows import Answer, columns_of, no_table, query

NARROW_CELL = 16  # values may be wrapped at spaces, down to this width


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
    output.message(
        f"{_name(snapshot)} version {_number(snapshot)} of {moment(snapshot['producedAt'])} ({_extent(snapshot)}): "
        f"{counted(len(answer.rows), 'row')} shown{more}"
    )


def _extent(snapshot: Snapshot) -> str:
    """Return how much a version holds, as far as it is known."""
    if snapshot["rows"] is not None:
        return f"{counted(snapshot['rows'], 'row')}, {size(snapshot['bytes'])}"
    return "the newest delivery of a source" if DELIVERED.fullmatch(snapshot["dataVersion"]) else "a source"


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
    columns = [[one["name"], json.dumps(one["type"])] for one in columns_of(snapshot)]
    output.show(Table.of(["COLUMN", tables.Column("TYPE", wraps=20)], columns))
    output.message(
        f"{_name(snapshot)} version {_number(snapshot)} of {moment(snapshot['producedAt'])}: "
        f"{counted(snapshot['rows'] or 0, 'row')}, {size(snapshot['bytes'])}; set FRESHLINE_WAREHOUSE to see them"
    )
    _print_checks(snapshot["checks"])


def _show_payload(snapshot: Snapshot, *, sql: str | None, as_json: bool) -> None:
    if sql is not None:
        raise no_table(snapshot)
    if as_json:
        output.print_json(_document(snapshot, Answer([], [], truncated=False)) | {"payload": snapshot["payload"]})
        return
    output.write_line(json.dumps(snapshot["payload"], indent=2, ensure_ascii=False), sys.stdout)
    output.message(f"{snapshot['assetId']} version {snapshot['version']} has no table; this is its payload")
