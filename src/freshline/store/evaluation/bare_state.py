"""Reads what a failed decision needs of workflows whose state cannot be read or evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from freshline.model.policy import Policy
from freshline.model.state import State
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.evaluation.load_state import Key, LoadedWorkflow

SQL = load("evaluation")


def read(connection: Connection, keys: Mapping[Key, int]) -> tuple[datetime, list[LoadedWorkflow]]:
    """Return the time, and what a failed decision needs. It parses nothing that could be unreadable."""
    arrays = {"workflows": [workflow for workflow, _ in keys], "partitions": [partition for _, partition in keys]}
    rows = connection.execute(SQL["load_bare"], arrays).fetchall()
    return rows[0]["now"], [_bare(row, keys) for row in rows]


def _bare(row: Row, keys: Mapping[Key, int]) -> LoadedWorkflow:
    state = State(
        workflow_id=row["workflow_id"],
        slug=row["slug"],
        partition_key=row["partition_key"],
        version=row["version"],
        job_fingerprint=row["job_fingerprint"],
        applied_at=row["applied_at"],
        evaluations=keys[row["workflow_id"], row["partition_key"]],
    )
    decision = row["last_decision"]
    return LoadedWorkflow(
        policy=Policy(declared=False, automatic=False),
        state=state,
        project=row["project"],
        code_hash=None,
        needs_spark=False,
        retired=False,
        last_decision=(decision["id"], decision["digest"]) if decision else None,
    )
