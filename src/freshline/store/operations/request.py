"""Writes of manual runs: queue one, cancel one."""

from __future__ import annotations

from psycopg.types.json import Jsonb

from freshline.errors import ConflictError, KeyReusedError
from freshline.model.enums import EventType, RunStatus, TriggerType
from freshline.model.json import Json
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.operations import audit
from freshline.store.runs.events import append_event
from freshline.store.runs.finish import end_canceled

SQL = load("operations")
MANUAL_PRIORITY = 0


def queue(
    connection: Connection,
    workflow: Row,
    run_id: str,
    parameters: Row,
    *,
    key: str | None,
    asked: Row,
) -> str:
    """Queue a manual run and return its id, or the id of the run that was requested with the same key."""
    slug = workflow["slug"]
    known = _requested(connection, slug, parameters, key, asked) if key else None
    if known:
        return known
    partition_key = asked["partitionKey"]
    trigger = {"type": TriggerType.MANUAL, **asked, "parameters": sorted(parameters)}
    values = {
        "id": run_id,
        "workflow": workflow["id"],
        "partition": partition_key,
        "trigger": Jsonb(trigger),
        "priority": MANUAL_PRIORITY,
        "pins": Jsonb(_pins(connection, workflow, partition_key)),
        "parameters": Jsonb(dict(parameters)),
        "key": key,
    }
    with audit.changing(connection, "request_run", slug, "run_state", run_id):
        connection.execute(SQL["request_run"], values)
    data = {"workflowSlug": slug, "workflowId": workflow["id"], "runId": run_id, "partitionKey": partition_key}
    append_event(connection, EventType.RUN_QUEUED, slug, {**data, "trigger": trigger})
    return run_id


def _requested(connection: Connection, slug: str, parameters: Row, key: str, asked: Row) -> str | None:
    """Return the run that was requested with this key. Raise an error if it was another request."""
    asking = {
        "key": key,
        "partition": asked["partitionKey"],
        "parameters": Jsonb(dict(parameters)),
        "full_refresh": asked.get("fullRefresh", False),
    }
    known = connection.execute(SQL["requested"], asking).fetchone()
    if known is None:
        return None
    if known["slug"] != slug:
        raise KeyReusedError(f"the key {key!r} was used for a run of workflow '{known['slug']}'; choose another")
    same = {
        "other parameters": known["same_parameters"],
        "another full refresh": known["same_refresh"],
        "another partition": known["same_partition"],
    }
    differs = [name for name, equal in same.items() if not equal]
    if differs:
        raise KeyReusedError(
            f"the key {key!r} was used for run {known['id']} with {' and '.join(differs)}",
            hint="a repeated request must be equal to the first; give a new request another key",
        )
    return str(known["id"])


def _pins(connection: Connection, workflow: Row, partition_key: str) -> Json:
    where = {"workflow": workflow["id"], "partition": partition_key}
    heads = connection.execute(SQL["input_heads"], where).fetchall()
    missing = [head["asset_id"] for head in heads if head["sequence"] is None]
    if missing:
        raise ConflictError(
            f"workflow '{workflow['slug']}' cannot run: its input '{missing[0]}' has no data yet",
            hint=f"report it (`freshline report {missing[0]}`) or run its producer first",
        )
    return {head["asset_id"]: {"sequence": head["sequence"], "dataVersion": head["data_version"]} for head in heads}


def cancel(connection: Connection, run: Row, reason: str) -> RunStatus:
    """End a queued run, or ask the worker of a running one to stop. Return the status."""
    status = RunStatus(run["status"])
    if status is RunStatus.QUEUED:
        end_canceled(connection, run, run["attempt"], reason)
        return RunStatus.CANCELED
    if status is RunStatus.RUNNING:
        connection.execute(SQL["request_cancel"], {"run": run["id"], "reason": reason})
    return status
