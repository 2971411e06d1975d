"""Runs with their steps, pinned inputs and outputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from freshline.model.json import Json
from freshline.store.read.session import ReadSession

NO_FILTER = dict.fromkeys(("status", "workflow", "trigger", "since", "until", "after"))


def list_runs(session: ReadSession, *, ids: Sequence[Any] | None = None, **filters: Any) -> list[Json]:
    """Return the selected runs with their inputs and steps, newest first."""
    rows = session.json_rows("runs", **{**NO_FILTER, "ids": ids, **filters})
    steps: dict[str, list[Json]] = defaultdict(list)
    for step in session.json_rows("steps", ids=[row["id"] for row in rows]):
        steps[step.pop("runId")].append(step)
    return [_run(row, steps[row["id"]]) for row in rows]


def find_run(session: ReadSession, run_id: str) -> Json:
    """Return an existing run with its inputs, steps and outputs."""
    outputs = session.json_rows("run_outputs", id=run_id)
    return list_runs(session, ids=[run_id], limit=1)[0] | {"outputs": outputs}


def lineage(session: ReadSession, run_id: str) -> Json | None:
    """Return `{queued_at, inputs, outputs}` of a run as database values; None if the run was pruned."""
    found = session.rows("lineage_run", id=run_id)
    if not found:
        return None
    outputs = session.rows("lineage_outputs", id=run_id, workflow=found[0]["workflow_id"])
    return {**found[0], "inputs": session.rows("lineage_inputs", id=run_id), "outputs": outputs}


def _run(row: Json, steps: list[Json]) -> Json:
    pins: Json = row.pop("pins")
    inputs = [
        {"assetId": asset_id, "dataVersion": pin["dataVersion"], "version": pin["sequence"]}
        for asset_id, pin in sorted(pins.items())
    ]
    return {**row, "inputs": inputs, "steps": steps}
