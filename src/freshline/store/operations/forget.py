"""Removes a retired asset: its versions, its deliveries and its row (docs/semantics.md#R5.6)."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict, cast

from freshline.errors import ConflictError
from freshline.model.moment import iso
from freshline.store.db.database import Connection
from freshline.store.db.queries import load
from freshline.store.operations.targets import find_asset

SQL = load("operations")
# Rows refer to each other in this order.
TABLES = ("inbox", "timers", "partition_keys", "table_commits", "heads", "deliveries", "snapshots", "asset")


class Forgotten(TypedDict):
    """What is dropped with an asset. `rows` and `bytes` are those of the current version, if they are known."""

    assetId: str
    versions: int
    deliveries: int
    rows: int | None
    bytes: int | None
    table: bool


class _Facts(TypedDict):
    producer: str | None
    consumer: str | None
    project: str | None
    unused_since: datetime | None
    reported_at: datetime | None
    run: str | None
    versions: int
    deliveries: int
    rows: int | None
    bytes: int | None
    has_table: bool


def examine(connection: Connection, asset_id: str, *, reported: bool) -> Forgotten:
    """Return what would be dropped. Raise `ConflictError` if the asset is in use.

    `reported`: reports since nobody uses it do not count.
    """
    find_asset(connection, asset_id)
    found = cast("_Facts", connection.execute(SQL["forgettable"], {"asset": asset_id}).fetchone())
    _refuse_used(asset_id, found)
    _refuse_reported(asset_id, found, reported=reported)
    return {
        "assetId": asset_id,
        "versions": found["versions"],
        "deliveries": found["deliveries"],
        "rows": found["rows"],
        "bytes": found["bytes"],
        "table": found["has_table"],
    }


def drop(connection: Connection, asset_id: str) -> None:
    """Delete the rows of an asset. Events, decisions, runs and the audit stay."""
    for table in TABLES:
        connection.execute(SQL[f"forget_{table}"], {"asset": asset_id})


def _refuse_used(asset_id: str, found: _Facts) -> None:
    apply = "and apply the project; then it can be forgotten"
    if found["producer"]:
        raise ConflictError(
            f"asset '{asset_id}' is produced by workflow '{found['producer']}'", hint=f"remove it there {apply}"
        )
    if found["consumer"]:
        raise ConflictError(
            f"asset '{asset_id}' is read by workflow '{found['consumer']}'", hint=f"remove it from 'consumes' {apply}"
        )
    if found["project"]:
        raise ConflictError(
            f"asset '{asset_id}' is declared as a source of project '{found['project']}'",
            hint=f"remove it from sources/ {apply}",
        )
    if found["run"]:
        raise ConflictError(
            f"run {found['run']} still uses data of '{asset_id}'",
            hint=f"wait for its end, or `freshline cancel {found['run']}`",
        )


def _refuse_reported(asset_id: str, found: _Facts, *, reported: bool) -> None:
    since, last = found["unused_since"], found["reported_at"]
    if not reported and last is not None and (since is None or last > since):
        raise ConflictError(
            f"asset '{asset_id}' was reported at {iso(last)}, when no workflow used it any more",
            hint=f"if nobody reports it any more, use `freshline forget {asset_id} --reported`",
        )
