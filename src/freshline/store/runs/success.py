"""Publishes the outputs of one run and records its success; of a batch, one of its runs after the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from freshline.model.enums import EventType, RunStatus
from freshline.model.json import Json
from freshline.model.run import ClaimedRun, StagedOutput
from freshline.store.backfills.satisfied import satisfy
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.runs import publish
from freshline.store.runs.column_sets import note_reads, read_sets, with_columns
from freshline.store.runs.events import append_events, breaker_event, run_event
from freshline.store.runs.finish import end_run, record_dropped, record_success, runs_avoided

SQL = load("runs")


@dataclass(frozen=True, slots=True)
class Publishing:
    """What is published by one attempt. `table_versions`: those that it has given out, one per table."""

    run: ClaimedRun
    outputs: Sequence[StagedOutput]
    metrics: Json
    publish_parameters: bool
    damaged: Collection[str]
    internal: Mapping[str, Collection[str]]
    table_versions: dict[str, int] = field(default_factory=dict)


class Succeeded(NamedTuple):
    """What one run has published, how many runs it avoided, and how long the first change that it consumed waited."""

    assets: list[str]
    avoided: int
    waited: float | None


def succeed(connection: Connection, one: Publishing, row: Row) -> Succeeded:
    """Publish the outputs of a locked run, record its success, and end it.

    The metrics are those of the run that leads a batch: its steps computed all partitions together.
    """
    run = one.run
    outputs = [output for output in one.outputs if not run.batch or output.partition_key == row["partition_key"]]
    # Partitions are compared by whole rows.
    reads = {} if row["partition_key"] else read_sets(run.definition, outputs)
    row = {**row, "pins": with_columns(connection, run, row, reads)}
    done = publish.publish(connection, _publisher(one, row), outputs)
    published = done.outputs
    unchanged = [output.row["asset_id"] for output in published if not output.row["changed"]]
    avoided = runs_avoided(connection, unchanged)
    success: Row = {"closed_breaker": None, "waited": None}
    if outputs and not published and not done.left_out:
        record_dropped(connection, row)
    else:
        success = record_success(connection, run, row, avoided=avoided, left_out=done.left_out)
        satisfy(connection, str(row["id"]), row)
    names = [output.row["asset_id"] for output in published]
    metrics = _metrics(connection, run, one.metrics) if str(row["id"]) == run.id else {}
    result = {"assets": names, "unchanged": unchanged, "metrics": metrics}
    end_run(connection, row, RunStatus.SUCCEEDED, result=result)
    events = [run_event(row, row["attempt"], EventType.RUN_SUCCEEDED, result=result)]
    if success["closed_breaker"]:
        events.append(breaker_event(row, EventType.BREAKER_CLOSED))
    append_events(connection, events)
    if not row["partition_key"]:
        note_reads(connection, run, row, reads)
    return Succeeded(names, avoided, success["waited"])


def _metrics(connection: Connection, run: ClaimedRun, metrics: Json) -> Json:
    """Return the metrics of this attempt, and of the finished steps of earlier attempts."""
    if not run.finished_steps:
        return dict(metrics)
    found = connection.execute(SQL["finished_steps"], {"run": run.id}).fetchall()
    return {one["step_id"]: one["metrics"] for one in found if one["metrics"]} | dict(metrics)


def _publisher(one: Publishing, row: Row) -> publish.Publisher:
    return publish.Publisher(
        run_id=str(row["id"]),
        attempt=row["attempt"],
        workflow_id=row["workflow_id"],
        version=one.run.version,
        slug=row["slug"],
        partition_key=row["partition_key"],
        pins=row["pins"],
        parameters=row["parameters"] if one.publish_parameters else None,
        now=row["now"],
        mixed=row["mixed"],
        origin=row["origin"],
        declared=[output["assetId"] for step in one.run.definition["steps"] for output in step.get("produces", ())],
        damaged=one.damaged,
        internal=one.internal,
        table_versions=one.table_versions,
    )
