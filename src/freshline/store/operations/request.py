"""Runs by hand: request_run and cancel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg.types.json import Jsonb

from freshline.errors import ConflictError, NotFoundError
from freshline.model.enums import EventType, RunStatus, TriggerType
from freshline.store.db.commit_outcome import certain
from freshline.store.db.database import Connection, Database
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.operations import audit
from freshline.store.read.resolve import find_workflow, refuse_partition
from freshline.store.runs.finish import end_canceled
from freshline.store.runs.publish import tell

SQL = load("operations")
RUNS = load("runs")
MANUAL_PRIORITY = 0


class Requesting:
    """What people do to runs."""

    database: Database

    def request_run(
        self,
        slug: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        partition_key: str = "",
        full_refresh: bool = False,
    ) -> str:
        """Queue a manual run on the heads of this moment (R6.5). The same `key` returns the same run.

        `full_refresh`: its outputs are written anew from everything, also those that are appended to or merged (R9.5).
        """
        refuse_partition(partition_key)
        run_id = new_id()

        def write(again: bool) -> str:
            with self.database.transaction("request_run") as connection:
                workflow = find_workflow(connection, slug)
                if again and connection.execute(RUNS["run_status"], {"run": run_id}).fetchone():
                    return run_id
                asked = {"partitionKey": partition_key, **({"fullRefresh": True} if full_refresh else {})}
                return _request(connection, workflow, run_id, parameters or {}, key=key, asked=asked)

        requested = certain(write)
        if requested == run_id:
            self.database.ring("runs")
        return requested

    def cancel(self, run_id: str, reason: str = "canceled by a user") -> str:
        """End a run: at once if it is queued, through its worker if it is running. Returns the status."""
        with self.database.transaction("cancel") as connection:
            row = connection.execute(SQL["lock_any_run"], {"run": run_id}).fetchone()
            if row is None:
                raise NotFoundError(f"there is no run {run_id}; `freshline runs` lists them")
            with audit.changing(connection, "cancel", run_id, "run_state", run_id):
                status = _cancel(connection, row, reason)
        self.database.ring("runs", "events")
        return status


def _request(
    connection: Connection,
    workflow: Mapping[str, Any],
    run_id: str,
    parameters: Mapping[str, Any],
    *,
    key: str | None,
    asked: Mapping[str, Any],
) -> str:
    """The id of the new run, or of the one that was asked for with the same key."""
    slug = workflow["slug"]
    known = connection.execute(SQL["requested"], {"key": key}).fetchone() if key else None
    if known and known["slug"] != slug:
        raise ConflictError(f"the key {key!r} was used for a run of workflow '{known['slug']}'; choose another")
    if known:
        return str(known["id"])
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
    tell(connection, EventType.RUN_QUEUED, slug, {**data, "trigger": trigger})
    return run_id


def _pins(connection: Connection, workflow: Mapping[str, Any], partition_key: str) -> dict[str, Any]:
    where = {"workflow": workflow["id"], "partition": partition_key}
    heads = connection.execute(SQL["input_heads"], where).fetchall()
    missing = [head["asset_id"] for head in heads if head["sequence"] is None]
    if missing:
        raise ConflictError(
            f"workflow '{workflow['slug']}' cannot run: its input '{missing[0]}' has no data yet",
            hint=f"report it (`freshline report {missing[0]}`) or run its producer first",
        )
    return {head["asset_id"]: {"sequence": head["sequence"], "dataVersion": head["data_version"]} for head in heads}


def _cancel(connection: Connection, run: Mapping[str, Any], reason: str) -> RunStatus:
    status = RunStatus(run["status"])
    if status is RunStatus.QUEUED:
        end_canceled(connection, run, run["attempt"], reason)
        return RunStatus.CANCELED
    if status is RunStatus.RUNNING:
        connection.execute(SQL["request_cancel"], {"run": run["id"], "reason": reason})
    return status
