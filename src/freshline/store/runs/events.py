"""Builds the events of publications, run ends and breakers, and appends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NotRequired, TypedDict

from psycopg.types.json import Jsonb

from freshline.model.enums import EventType
from freshline.model.json import Json
from freshline.model.moment import iso
from freshline.store.db.database import Connection, Row
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load

DB = load("db")
MOST_CHECKS = 50  # in an event or in the error of a run
CHECK_FIELDS = ("check", "severity", "passed", "observed")  # of a check's result, in an event


class EventRow(TypedDict):
    """A row of `events`. With a `kind` it also gets a row in the inbox, which says what to evaluate.

    Without a type it has only the row in the inbox. `since`: of partitions that came to exist.
    """

    id: str
    type: EventType | None
    subject: str
    data: Json
    kind: NotRequired[str | None]
    asset_id: NotRequired[str]
    workflow_id: NotRequired[int]
    partition_key: NotRequired[str]
    since: NotRequired[str]


def append_events(connection: Connection, events: Sequence[EventRow]) -> None:
    """Append events, and inbox rows for those with a kind."""
    connection.execute(DB["append_events"], {"events": Jsonb(events)})


def append_event(connection: Connection, type_: EventType, subject: str, data: Mapping[str, Any]) -> None:
    """Append one event that causes no evaluation."""
    append_events(connection, [{"id": new_id(), "type": type_, "subject": subject, "data": dict(data)}])


def asset_event(event_id: str, type_: EventType, data: Mapping[str, Any], kind: str | None) -> EventRow:
    """Return an event about an asset."""
    return {
        "id": event_id,
        "type": type_,
        "subject": data["assetId"],
        "data": dict(data),
        "kind": kind,
        "asset_id": data["assetId"],
        "partition_key": data["partitionKey"],
    }


def produced_data(row: Row, slug: str | None, freshness: Any, parameters: Mapping[str, Any] | None) -> Json:
    """Return the data of `asset.produced` for a row of `snapshots`."""
    data = {
        "assetId": row["asset_id"],
        "partitionKey": row["partition_key"],
        "workflowSlug": slug,
        "workflowId": row.get("workflow_id"),
        "runId": row.get("run_id"),
        "stepId": row.get("step_id"),
        "producedAt": iso(datetime.fromisoformat(row["produced_at"])),
        "freshness": freshness,
        "dataVersion": row["data_version"],
        "changed": row["changed"],
        "rows": row.get("rows"),
        "bytes": row.get("bytes"),
        "payload": row.get("payload"),
    }
    if row.get("group") is not None:
        data["group"] = row["group"]
    if row.get("checks") is not None:
        data["checks"] = [{name: one.get(name) for name in CHECK_FIELDS} for one in bounded_checks(row["checks"])]
    return data if parameters is None else {**data, "parameters": dict(parameters)}


def bounded_checks(results: Sequence[Row]) -> list[Row]:
    """Return the check results that events and errors carry: failed ones first, at most `MOST_CHECKS`."""
    return sorted(results, key=lambda one: bool(one["passed"]))[:MOST_CHECKS]


def run_event(row: Row, attempt: int, type_: EventType, **more: Any) -> EventRow:
    """Return the event of a run's end. It causes an evaluation of the workflow and of those that wait for it."""
    data = {
        "workflowSlug": row["slug"],
        "workflowId": row["workflow_id"],
        "runId": str(row["id"]),
        "partitionKey": row["partition_key"],
        "attempt": attempt,
        "trigger": row["trigger"],
        **more,
    }
    return {
        "id": new_id(),
        "type": type_,
        "subject": row["slug"],
        "data": data,
        "kind": "ended",
        "workflow_id": row["workflow_id"],
        "partition_key": row["partition_key"],
    }


def breaker_event(row: Row, type_: EventType) -> EventRow:
    """Return the event of a breaker that opened or closed. It causes no evaluation."""
    data = {"workflowSlug": row["slug"], "workflowId": row["workflow_id"], "partitionKey": row["partition_key"]}
    return {"id": new_id(), "type": type_, "subject": row["slug"], "data": data}
