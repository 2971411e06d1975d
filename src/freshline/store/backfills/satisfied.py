"""For which backfills a success counts, found out in the transaction that publishes it (docs/semantics.md#R14.2)."""

from __future__ import annotations

from collections.abc import Iterable

from freshline.model.backfill import Demand, Only
from freshline.model.json import Json
from freshline.partitions import document
from freshline.partitions.selection import from_json
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.runs.publish import pinned

SQL = load("backfills")


def satisfy(connection: Connection, run_id: str, row: Row) -> None:
    """Record the open backfills that a success satisfies, for its partition and for what it published.

    `row`: the run as it was locked. Whoever made it, and for which cause, does not matter.
    """
    demands = connection.execute(SQL["demands_of"], {"workflow": row["workflow_id"]}).fetchall()
    if not demands:
        return
    run = connection.execute(SQL["run_and_outputs"], {"run": run_id}).fetchone()
    assert run is not None  # noqa: S101 - the caller holds its lock
    found = [one["id"] for one in demands if _satisfies(connection, run, one, row["pins"])]
    if found:
        where = {"workflow": row["workflow_id"], "partition": row["partition_key"]}
        connection.execute(SQL["satisfy"], {"ids": found, "run": run_id, **where})


def _satisfies(connection: Connection, run: Row, asked: Row, pins: Json) -> bool:
    """Return whether the run started after the request, with no older version, and read no undone part of it."""
    demand = Demand(asked["id"], asked["requested_at"], asked["version"], Only(asked["kind"]))
    if not demand.accepts(run["started_at"], run["version"]) or not _selects(asked["selection"], run):
        return False
    undone = connection.execute(SQL["pinned_parts"], {"id": asked["id"], **pinned(pins)}).fetchall()
    return not _any_selected(undone)


def _any_selected(rows: Iterable[Row]) -> bool:
    return any(_selects(row["selection"], row) for row in rows)


def _selects(selection: object, row: Row) -> bool:
    """Return whether a stored selection contains the partition of a row."""
    if row["partitioning"] is None:
        return not from_json(selection).is_empty
    return from_json(selection).contains(row["partition_key"], document.from_json(row["partitioning"]))
