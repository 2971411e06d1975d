"""Runs with their steps, pinned inputs and outputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, cast

from freshline.model.documents.lineage import RunLineage
from freshline.model.documents.run import Run, RunDetail, RunInput, RunOutput, Step
from freshline.model.json import Json
from freshline.model.state import split_reference
from freshline.store.read.session import ReadSession

NO_FILTER = dict.fromkeys(("status", "workflows", "partition", "trigger", "since", "until", "after"))


def list_runs(session: ReadSession, *, ids: Sequence[Any] | None = None, **filters: Any) -> list[Run]:
    """Return the selected runs with their inputs and steps, newest first."""
    rows = session.json_rows("runs", **{**NO_FILTER, "ids": ids, **filters})
    steps: dict[str, list[Step]] = defaultdict(list)
    for step in session.json_rows("steps", ids=[row["id"] for row in rows]):
        steps[step.pop("runId")].append(cast("Step", step))
    return [_run(row, steps[row["id"]]) for row in rows]


def find_run(session: ReadSession, run_id: str) -> RunDetail:
    """Return an existing run with its inputs, steps and outputs."""
    outputs = session.documents(RunOutput, "run_outputs", id=run_id)
    return {**list_runs(session, ids=[run_id], limit=1)[0], "outputs": outputs}


def lineage(session: ReadSession, run_id: str) -> RunLineage | None:
    """Return `{queued_at, inputs, outputs}` of a run as database values; None if the run was pruned."""
    found = session.rows("lineage_run", id=run_id)
    if not found:
        return None
    outputs = session.rows("lineage_outputs", id=run_id, workflow=found[0]["workflow_id"])
    inputs = session.rows("lineage_inputs", id=run_id)
    return cast("RunLineage", {**found[0], "inputs": inputs, "outputs": outputs})


def _input(name: str, pin: Json) -> RunInput:
    asset_id, partition_key = split_reference(name)
    return {
        "assetId": asset_id,
        "partitionKey": partition_key,
        "dataVersion": pin["dataVersion"],
        "version": pin["sequence"],
    }


def _run(row: Json, steps: list[Step]) -> Run:
    pins = row.pop("pins")
    inputs = [_input(name, pin) for name, pin in sorted(pins.items())]
    return cast("Run", {**row, "inputs": inputs, "steps": steps})
