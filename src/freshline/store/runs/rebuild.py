"""Whether the first run with changed code computes a table again: `onCodeChange: rebuild` (docs/semantics.md#R9.9)."""

from __future__ import annotations

from freshline.model.json import Json
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.operations.full_refresh import losses

SQL = load("runs")
INCREMENTAL = frozenset({"append", "merge"})


def rebuilt(connection: Connection, run: Row) -> str | None:
    """Return the table because of which a claimed run is a full refresh; None if it is none.

    Only the current code rebuilds, and only until it succeeds: a rollback to rows of older code is asked about. What
    would drop rows for ever does not happen by itself.
    """
    assets = [one["assetId"] for step in run["definition"]["steps"] for one in step.get("produces", ()) if _may(one)]
    if not assets:
        return None
    asked = {key: run[key] for key in ("workflow_id", "version", "partition_key")}
    due = connection.execute(SQL["rebuild_due"], {**asked, "assets": assets}).fetchone()
    if due is None or next(losses(connection, {"id": run["workflow_id"]}, run["partition_key"]), None) is not None:
        return None
    return str(due["asset_id"])


def _may(output: Json) -> bool:
    """Return whether the definition of an output says to rebuild. With partitions it need not say it."""
    table = output.get("table") or {}
    usual = "rebuild" if output.get("partitioning") else "ask"
    return table.get("mode") in INCREMENTAL and (table.get("onCodeChange") or usual) == "rebuild"
