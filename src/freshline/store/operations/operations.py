"""The transactions that people and other systems ask for: reports, manual runs, pauses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from freshline.errors import ConflictError, NotFoundError
from freshline.model.documents.asset import Delivery
from freshline.model.enums import EventType
from freshline.model.moment import iso
from freshline.model.reports import SourceReport
from freshline.model.state import reference
from freshline.partitions import document
from freshline.settings import Settings
from freshline.storage.base import Storage
from freshline.store.apply.stored_graph import GraphCache
from freshline.store.db import locks
from freshline.store.db.commit_outcome import resolved
from freshline.store.db.database import Connection, Database
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.operations import accept, audit, deliveries, forget, report, request, together
from freshline.store.operations.accept import Accepted
from freshline.store.operations.forget import Forgotten
from freshline.store.operations.full_refresh import refuse_losses
from freshline.store.operations.report import Report, Reported
from freshline.store.operations.targets import (
    existing_partition,
    find_asset,
    find_workflow,
    find_workflow_id,
    workflow_partition,
)
from freshline.store.operations.together import ReportedTogether
from freshline.store.read import declarations
from freshline.store.runs.events import append_event

SQL = load("operations")
APPLY = load("apply")
RUNS = load("runs")
DB = load("db")
# Deleting the files of many versions takes longer than the idle timeout of other transactions.
LONG_IDLE_TIMEOUT = "SET LOCAL idle_in_transaction_session_timeout = '60s'"


class Operations:
    """Reports about assets, and manual control of workflows and runs."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._graphs = GraphCache()

    def report(
        self,
        asset_id: str,
        *,
        version: str | None = None,
        key: str | None = None,
        sequence: int | None = None,
        payload: Any = None,
        partition_key: str = "",
    ) -> Reported:
        """Record that a source asset changed (docs/semantics.md#R3.3).

        The same report again with the same `key` changes nothing. Another one with that key is an error.
        """
        report.check_payload(payload)
        root = self._settings.known_root
        given = Report(asset_id, partition_key, version, key, sequence, payload, event_id=new_id(), root=root)

        def write(again: bool) -> Reported:
            with self._database.transaction("report") as connection:
                return report.record(connection, given, again=again)

        result = resolved(lambda again: report.retried(lambda: write(again)))
        if not result["duplicate"]:
            self._database.notify("events")
        return result

    def report_together(self, reports: Sequence[SourceReport]) -> ReportedTogether:
        """Record that several sources changed as one generation: all or none of it (docs/semantics.md#R4.7).

        The same call again with the same keys changes nothing.
        """
        given = together.prepare(reports, self._settings.known_root)
        group_id = new_id()

        def write(again: bool) -> ReportedTogether:
            with self._database.transaction("report_together") as connection:
                return together.record(connection, group_id, given, again=again)

        result = resolved(lambda again: report.retried(lambda: write(again)))
        if not result["duplicate"]:
            self._database.notify("events")
        return result

    def expire(self, asset_id: str, partition_key: str = "") -> dict[str, str | None]:
        """Expire an asset now, as if its freshness had run out."""
        with self._database.transaction("expire") as connection:
            asset = find_asset(connection, asset_id)
            if asset["producer_id"] is None:
                raise ConflictError(f"asset '{asset_id}' is a source and has no freshness; report it instead")
            partitioning = document.from_json(asset["partitioning"])
            key = existing_partition(connection, f"asset '{asset_id}'", asset_id, partitioning, partition_key)
            with audit.changing(connection, "expire", asset_id, "timer_state", reference(asset_id, key)):
                row = connection.execute(SQL["expire_now"], {"asset": asset_id, "partition": key}).fetchone()
        self._database.notify("timers")
        return {"assetId": asset_id, "partitionKey": key, "expiresAt": iso(row["due_at"] if row else None)}

    def accept(self, asset_id: str) -> Accepted:
        """Accept the rows of older code of an asset as they are (docs/semantics.md#R9.9)."""
        with self._database.transaction("accept_code") as connection:
            asset = find_asset(connection, asset_id)
            with audit.changing(connection, "accept_code", asset_id, "code_state", asset_id):
                accepted = accept.accept(connection, asset)
            append_event(connection, EventType.CODE_ACCEPTED, asset_id, accept.event_data(asset, accepted))
        self._database.notify("events")
        return accepted

    def skip_delivery(self, asset_id: str, number: int, reason: str) -> Delivery:
        """Leave a delivery of an append source out for all consumers that have not read it (docs/semantics.md#R3.4)."""
        with self._database.transaction("skip_delivery") as connection:
            asset = find_asset(connection, asset_id)
            if not deliveries.is_append(asset["declaration"]):
                raise ConflictError(f"asset '{asset_id}' has no deliveries: it is not a source with 'mode: append'")
            if "skipped" not in deliveries.locked(connection, asset_id, "", number):
                deliveries.skip(connection, asset_id, "", number, reason)
                for consumer in connection.execute(SQL["consumers"], {"asset": asset_id}).fetchall():
                    _clear_failures(connection, consumer["id"], consumer["slug"])
            skipped = deliveries.locked(connection, asset_id, "", number)
        self._database.notify("events")
        return declarations.delivery(skipped)

    def forgettable(self, asset_id: str, *, reported: bool = False) -> Forgotten:
        """Return what `forget` would drop, with its errors."""
        with self._database.rehearsing() as connection:
            return forget.examine(connection, asset_id, reported=reported)

    def forget(self, asset_id: str, *, reported: bool = False, storage: Storage | None = None) -> Forgotten:
        """Remove a retired asset and its files in `storage` (docs/semantics.md#R5.6).

        Files go while applies wait, so that nobody produces the asset again meanwhile. A crash between the files and
        the commit leaves a retired asset without files, which can be forgotten again.
        """
        with self._database.transaction("forget_asset") as connection:
            connection.execute(LONG_IDLE_TIMEOUT)
            connection.execute(DB["lock"], {"key": locks.APPLY})
            connection.execute(SQL["lock_forgotten"], {"asset": asset_id})
            dropped = forget.examine(connection, asset_id, reported=reported)
            with audit.changing(connection, "forget_asset", asset_id, "head_state", asset_id) as noted:
                forget.drop(connection, asset_id)
                noted |= {"dropped": dropped}
            if storage is not None:
                storage.clear(asset_id)
        return dropped

    def request_run(
        self,
        slug: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        partition_key: str = "",
        full_refresh: bool = False,
        confirm: bool = False,
    ) -> str:
        """Queue a manual run on the current heads and return its id (docs/semantics.md#R6.5).

        The same request with the same `key` returns the same run; another request with it is an error. With
        `full_refresh` all outputs are written again from all input rows, also those in append and merge mode
        (docs/semantics.md#R9.5). Rows that cannot be computed again are an error without `confirm`.
        """
        run_id = new_id()

        def write(again: bool) -> str:
            with self._database.transaction("request_run") as connection:
                workflow = find_workflow(connection, slug)
                if again and connection.execute(RUNS["run_status"], {"run": run_id}).fetchone():
                    return run_id
                unit = workflow_partition(connection, workflow, partition_key)
                asked = {"partitionKey": unit, **({"fullRefresh": True} if full_refresh else {})}
                known = request.find(connection, slug, parameters or {}, key, asked)
                if known:
                    return known
                if full_refresh and not confirm:
                    refuse_losses(connection, workflow, unit)
                return request.queue(connection, self._graphs, workflow, run_id, parameters or {}, key=key, asked=asked)

        requested = resolved(lambda again: report.retried(lambda: write(again)))
        if requested == run_id:
            self._database.notify("runs")
        return requested

    def cancel(self, run_id: str, reason: str = "canceled by a user") -> str:
        """Cancel a run and return its status. A queued run ends at once, a running one through its worker."""
        with self._database.transaction("cancel") as connection:
            row = connection.execute(SQL["lock_any_run"], {"run": run_id}).fetchone()
            if row is None:
                raise NotFoundError(f"run {run_id} does not exist; `freshline runs` lists them")
            with audit.changing(connection, "cancel", run_id, "run_state", run_id):
                status = request.cancel(connection, row, reason)
        self._database.notify("runs", "events")
        return status

    def pause(self, slug: str, until: datetime | None = None) -> None:
        """Pause a workflow. Queued automatic runs end; the changes that caused them stay pending."""
        with self._database.transaction("pause") as connection:
            workflow_id = find_workflow_id(connection, slug)
            # Like apply: wait for a reconciler that is evaluating the workflow, so that a run it queues is seen here.
            connection.execute(APPLY["consider"], {"workflows": [workflow_id]})
            ending = {"workflows": [workflow_id], "retired": [], "reason": "paused", "code_hash": None}
            connection.execute(APPLY["cancel_queued"], ending)
            with audit.changing(connection, "pause", slug, "workflow_state", workflow_id):
                connection.execute(SQL["pause"], {"workflow": workflow_id, "until": until})
            _request_evaluation(connection, workflow_id)
        self._database.notify("events", "considerations")

    def resume(self, slug: str) -> None:
        """End the pause of a workflow."""
        with self._database.transaction("resume") as connection:
            workflow = find_workflow(connection, slug)
            with audit.changing(connection, "resume", slug, "workflow_state", workflow["id"]):
                connection.execute(SQL["resume"], {"workflow": workflow["id"]})
            _request_evaluation(connection, workflow["id"])
        self._database.notify("events")

    def reset(self, slug: str) -> None:
        """Clear failures: end the cooldown, close the breaker, and allow a canceled run again."""
        with self._database.transaction("reset") as connection:
            workflow = find_workflow(connection, slug)
            with audit.changing(connection, "reset", slug, "workflow_state", workflow["id"]):
                _clear_failures(connection, workflow["id"], slug)
        self._database.notify("events")


def _clear_failures(connection: Connection, workflow_id: int, slug: str) -> None:
    """End the cooldown, close the breaker and say so, and let the workflow be evaluated."""
    row = connection.execute(SQL["reset"], {"workflow": workflow_id}).fetchone()
    if row and row["closed"]:
        data = {"workflowSlug": slug, "workflowId": workflow_id, "partitionKey": "", "by": "reset"}
        append_event(connection, EventType.BREAKER_CLOSED, slug, data)
    _request_evaluation(connection, workflow_id)


def _request_evaluation(connection: Connection, workflow_id: int) -> None:
    """Append an inbox row, so that the workflow is evaluated."""
    connection.execute(SQL["touch"], {"id": new_id(), "workflow": workflow_id, "partition": ""})
