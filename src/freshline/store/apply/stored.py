"""Reads the stored catalogue for a comparison: workflows, assets, edges, and how long runs took."""

from __future__ import annotations

from typing import cast

from freshline.store.alerts import rules
from freshline.store.apply.diff import Stored, StoredAsset, StoredWorkflow
from freshline.store.apply.wait_warnings import Duration, WaitWarnings
from freshline.store.db.database import Connection
from freshline.store.db.queries import load

SQL = load("apply")
# Runs per workflow for its duration. Older runs had other jobs and other data.
MOST_RUNS = 200


def read_stored(connection: Connection, project: str) -> Stored:
    """Return the catalogue that a project is compared with."""
    files = connection.execute(SQL["stored_code_files"], {"project": project}).fetchone()
    return Stored(
        code_files=files["code_files"] if files else {},
        workflows={row["slug"]: cast("StoredWorkflow", row) for row in connection.execute(SQL["stored_workflows"])},
        assets={row["id"]: cast("StoredAsset", row) for row in connection.execute(SQL["stored_assets"])},
        edges=[(row["asset_id"], row["slug"]) for row in connection.execute(SQL["stored_edges"])],
        pools={row["name"]: row["slots"] for row in connection.execute(SQL["stored_pools"], {"project": project})},
        alerts=rules.stored(connection),
    )


def read_durations(connection: Connection, waits: WaitWarnings) -> list[Duration]:
    """Return the run durations of awaited workflows, where they exceed the shortest wait."""
    if not waits.awaited:
        return []
    values = {"slugs": waits.awaited, "longer_ms": waits.shortest_ms, "most": MOST_RUNS}
    return [Duration(**row) for row in connection.execute(SQL["durations"], values)]
