"""The store: the only place with transactions. Each has a name, which is its failpoint, its counter and its log event.

Here are the operators' transactions (apply, report, expire, request_run, cancel, pause, resume, reset); those of the
materializer are in `materializing`, those of run workers in `executing`, those about versions of tables in
`versioning`, the doctor's in `mending`, those about tokens in `access`, those about webhooks in `webhooks` and
`delivering`, and all reading is in `reader`.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.types.json import Jsonb

from freshline.decide.decision import iso
from freshline.definitions.project import Project
from freshline.errors import ConflictError, NotFoundError, UsageError
from freshline.model.words import EventType, RunStatus, TriggerType
from freshline.settings import Settings
from freshline.store import audit, catalogue, migrate, publication
from freshline.store.access import Access
from freshline.store.database import Connection, Database, LostConnectionError, UnreachableError
from freshline.store.delivering import Delivering
from freshline.store.ending import end_canceled
from freshline.store.executing import Executing
from freshline.store.ids import new_id
from freshline.store.materializing import Materializing
from freshline.store.mending import Mending
from freshline.store.patience import Patience
from freshline.store.planning import ApplyPlan, make_plan, proposed_graph
from freshline.store.queries import load
from freshline.store.reader import Reader
from freshline.store.versioning import Versioning
from freshline.store.webhooks import Webhooks

if TYPE_CHECKING:
    from freshline.world.planning import Plan

SQL = load("catalogue")
RUNS = load("runs")
MANUAL_PRIORITY = 0
MOST_PAYLOAD = 256 * 1024
# To compare the definitions of thousands of workflows and make rows of them takes longer than other writers may idle.
UNHURRIED = "SET LOCAL idle_in_transaction_session_timeout = '60s'"
PATIENCE_S = 15.0
RETRY_S = 0.2
TRIES = 5
T = TypeVar("T")


class Store(Materializing, Executing, Versioning, Mending, Access, Webhooks, Delivering):
    """Everything that changes the state of an installation."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        self.settings = settings
        self.reader = Reader(database)

    @property
    def warehouse_id(self) -> str:
        """The id that the warehouse must carry (R12.3)."""
        with self.database.connection() as connection:
            row = connection.execute(SQL["epoch"]).fetchone()
        assert row is not None  # noqa: S101 - the migration inserted it
        return str(row["warehouse_id"])

    def plan(self, project: Project) -> ApplyPlan:
        """What `apply` would change. Among its warnings are those about ancestors that nobody waits long enough for."""
        with self.database.reading() as connection:
            connection.execute(UNHURRIED)
            stored = catalogue.read_stored(connection, project.name)
            plan = make_plan(project, stored)
            patience = Patience(project, proposed_graph(project, stored))
            plan.warnings.extend(patience.warnings(catalogue.read_durations(connection, patience)))
        return plan

    def apply(self, project: Project, *, baseline: bool = False) -> ApplyPlan:
        """Store the project's definitions and retire what it no longer has, in one transaction (R10.2)."""
        with (
            self.database.transaction("apply", whole=True) as connection,
            audit.changing(connection, "apply", project.name, "project_state", project.name) as noted,
        ):
            plan = _apply(connection, project, baseline=baseline)
            noted |= {name: audit.some(getattr(plan, name)) for name in ("added", "changed", "retired")}
        self.database.ring("events", "considerations", "runs")
        return plan

    def flood(self, project: Project, *, baseline: bool = False) -> Plan:
        """What would run because of `apply`, and what would not and why.

        It is `apply` itself, rolled back: what is told is what would be, and for that moment it holds the same locks.
        """
        from freshline.store import outlook  # noqa: PLC0415 - nothing else here looks ahead

        with self.database.rehearsing() as connection:
            plan = _apply(connection, project, baseline=baseline)
            touched = {*plan.added, *plan.changed}
            found = outlook.around(connection, touched, plan.assets_removed)
        return outlook.flood(found, self.settings, touched, plan.assets_removed)

    def report(
        self,
        asset_id: str,
        *,
        version: str | None = None,
        key: str | None = None,
        sequence: int | None = None,
        payload: Any = None,
        partition_key: str = "",
    ) -> dict[str, Any]:
        """The outside changed a source asset (R3.3). A duplicate `key` changes nothing."""
        _refuse_partition(partition_key)
        _check_payload(payload)
        report = {"version": version, "key": key, "sequence": sequence, "payload": payload, "event_id": new_id()}

        def write(again: bool) -> dict[str, Any]:
            with self.database.transaction("report") as connection:
                return self._report(connection, asset_id, partition_key, {**report, "again": again})

        result = _certain(lambda again: _repeated(lambda: write(again)))
        if not result["duplicate"]:
            self.database.ring("events")
        return result

    def _report(
        self, connection: Connection, asset_id: str, partition_key: str, report: Mapping[str, Any]
    ) -> dict[str, Any]:
        asset = self._source(connection, asset_id)
        where = {"asset": asset_id, "partition": partition_key}
        head = connection.execute(SQL["lock_head"], where).fetchone()
        if report["key"] is not None or report["again"]:
            query = SQL["reported_again" if report["again"] else "reported"]
            keys = {"key": report["key"], "event": report["event_id"]}
            known = connection.execute(query, {**where, **keys}).fetchone()
            if known:
                return _reported(asset_id, known, duplicate=known["event_id"] != report["event_id"])
        row = _report_row(connection, asset, partition_key, report, head)
        data = publication.produced_data(row, None, None, None)
        # A late report moves nothing, so nobody has to look.
        kind = None if row["late"] else ("changed" if row["changed"] else "unchanged")
        event = publication.asset_event(row["event_id"], EventType.ASSET_PRODUCED, data, kind)
        published = publication.Published(row, event, (), None)
        with audit.changing(connection, "report", asset_id, "head_state", asset_id):
            publication.append(connection, [published], late=row["late"])
        return _reported(asset_id, row, duplicate=False)

    def expire(self, asset_id: str, partition_key: str = "") -> dict[str, Any]:
        """As if the asset's freshness had run out."""
        _refuse_partition(partition_key)
        with self.database.transaction("expire") as connection:
            asset = _asset(connection, asset_id)
            if asset["producer_id"] is None:
                raise ConflictError(f"asset '{asset_id}' is a source and has no freshness; report it instead")
            with audit.changing(connection, "expire", asset_id, "timer_state", asset_id):
                row = connection.execute(SQL["expire_now"], {"asset": asset_id, "partition": partition_key}).fetchone()
        self.database.ring("timers")
        return {"assetId": asset_id, "partitionKey": partition_key, "expiresAt": iso(row["due_at"] if row else None)}

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
        _refuse_partition(partition_key)
        run_id = new_id()

        def write(again: bool) -> str:
            with self.database.transaction("request_run") as connection:
                workflow = _workflow(connection, slug)
                if again and connection.execute(RUNS["run_status"], {"run": run_id}).fetchone():
                    return run_id
                asked = {"partitionKey": partition_key, **({"fullRefresh": True} if full_refresh else {})}
                return _request(connection, workflow, run_id, parameters or {}, key=key, asked=asked)

        requested = _certain(write)
        if requested == run_id:
            self.database.ring("runs")
        return requested

    def cancel(self, run_id: str, reason: str = "canceled by a user") -> str:
        """End a run: at once if it is queued, through its worker if it is running. Returns the status."""
        with self.database.transaction("cancel") as connection:
            row = connection.execute(RUNS["lock_any_run"], {"run": run_id}).fetchone()
            if row is None:
                raise NotFoundError(f"there is no run {run_id}; `freshline runs` lists them")
            with audit.changing(connection, "cancel", run_id, "run_state", run_id):
                status = _cancel(connection, row, reason)
        self.database.ring("runs", "events")
        return status

    def pause(self, slug: str, until: datetime | None = None) -> None:
        """No automatic run of the workflow starts until then; queued ones end, what they were for stays pending."""
        with self.database.transaction("pause") as connection:
            workflow = _workflow(connection, slug, "workflow")
            # Like apply: a reconciler that is deciding about it is let finish, so that what it queues is seen here.
            connection.execute(SQL["consider"], {"workflows": [workflow["id"]]})
            ending = {"workflows": [workflow["id"]], "reason": "paused", "code_hash": None}
            connection.execute(SQL["cancel_queued"], ending)
            with audit.changing(connection, "pause", slug, "workflow_state", workflow["id"]):
                connection.execute(SQL["pause"], {"workflow": workflow["id"], "until": until})
            _touch(connection, workflow["id"])
        self.database.ring("events", "considerations")

    def resume(self, slug: str) -> None:
        """Automatic runs of the workflow start again."""
        with self.database.transaction("resume") as connection:
            workflow = _workflow(connection, slug)
            with audit.changing(connection, "resume", slug, "workflow_state", workflow["id"]):
                connection.execute(SQL["resume"], {"workflow": workflow["id"]})
            _touch(connection, workflow["id"])
        self.database.ring("events")

    def reset(self, slug: str) -> None:
        """Forget failures: ends the cooldown, closes the breaker, and lets a canceled run be asked for again."""
        with self.database.transaction("reset") as connection:
            workflow = _workflow(connection, slug)
            with audit.changing(connection, "reset", slug, "workflow_state", workflow["id"]):
                row = connection.execute(SQL["reset"], {"workflow": workflow["id"]}).fetchone()
            if row and row["closed"]:
                data = {"workflowSlug": slug, "workflowId": workflow["id"], "partitionKey": "", "by": "reset"}
                _tell(connection, EventType.BREAKER_CLOSED, slug, data)
            _touch(connection, workflow["id"])
        self.database.ring("events")

    def register_worker(
        self, worker_id: str, kind: str, *, project: str | None, code_hash: str | None, info: Mapping[str, Any]
    ) -> None:
        """A process shows that it is there."""
        with self.database.transaction("register_worker") as connection:
            values = {"id": worker_id, "kind": kind, "host": socket.gethostname(), "pid": os.getpid()}
            values |= {"project": project, "code_hash": code_hash, "info": Jsonb(dict(info))}
            connection.execute(SQL["register_worker"], values)

    def require_schema(self) -> None:
        """Refuse to go on with a schema that only a newer version understands."""
        with self.database.reading() as connection:
            migrate.require_no_newer(connection)

    def leave_worker(self, worker_id: str) -> None:
        """A process leaves cleanly."""
        with self.database.transaction("leave_worker") as connection:
            connection.execute(SQL["leave_worker"], {"id": worker_id})

    @staticmethod
    def _source(connection: Connection, asset_id: str) -> dict[str, Any]:
        asset = _asset(connection, asset_id)
        if asset["producer_id"] is not None:
            raise ConflictError(
                f"asset '{asset_id}' is produced by workflow '{asset['slug']}'; only sources are reported",
                hint=f"run it with `freshline run {asset['slug']}`",
            )
        return asset


def _apply(connection: Connection, project: Project, *, baseline: bool) -> ApplyPlan:
    connection.execute("SET LOCAL lock_timeout = '30s'")
    connection.execute(UNHURRIED)
    connection.execute(SQL["lock_catalogue"], {"key": catalogue.LOCK})
    stored = catalogue.read_stored(connection, project.name)
    plan = make_plan(project, stored)
    catalogue.write(connection, project, plan, stored, baseline=baseline)
    return plan


def _asset(connection: Connection, asset_id: str) -> dict[str, Any]:
    row = connection.execute(SQL["asset"], {"asset": asset_id}).fetchone()
    if row is None:
        raise NotFoundError(f"there is no asset '{asset_id}'", hint=_hint(connection, "asset_names", asset_id))
    return row


def _workflow(connection: Connection, slug: str, query: str = "lock_workflow") -> dict[str, Any]:
    row = connection.execute(SQL[query], {"slug": slug}).fetchone()
    if row is None:
        raise NotFoundError(f"there is no workflow '{slug}'", hint=_hint(connection, "workflow_names", slug))
    return row


def _cancel(connection: Connection, run: Mapping[str, Any], reason: str) -> RunStatus:
    status = RunStatus(run["status"])
    if status is RunStatus.QUEUED:
        end_canceled(connection, run, run["attempt"], reason)
        return RunStatus.CANCELED
    if status is RunStatus.RUNNING:
        connection.execute(RUNS["request_cancel"], {"run": run["id"], "reason": reason})
    return status


def _touch(connection: Connection, workflow_id: int) -> None:
    """Have the workflow looked at."""
    connection.execute(SQL["touch"], {"id": new_id(), "workflow": workflow_id, "partition": ""})


def _hint(connection: Connection, query: str, wrong: str) -> str:
    names = [row["name"] for row in connection.execute(SQL[query])]
    close = get_close_matches(wrong, names, n=1)
    if close:
        return f"did you mean '{close[0]}'?"
    return "nothing is applied yet; run `freshline apply`" if not names else f"known are {', '.join(names[:5])}, …"


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


def _report_row(
    connection: Connection,
    asset: Mapping[str, Any],
    partition_key: str,
    report: Mapping[str, Any],
    head: Mapping[str, Any] | None,
) -> dict[str, Any]:
    moment = connection.execute(SQL["now"]).fetchone()
    assert moment is not None  # noqa: S101 - it is one value
    sequence = (head["last_sequence"] if head else 0) + 1
    data_version = report["version"] or f"seq:{sequence}"
    given, last = report["sequence"], head["report_sequence"] if head else None
    late = given is not None and last is not None and given < last
    return {
        "asset_id": asset["id"],
        "partition_key": partition_key,
        "sequence": sequence,
        "data_version": data_version,
        # A late report moves no head: it must not count as a change that is pending (R4.5, R5.4).
        "changed": not late and (head is None or head["data_version"] != data_version),
        "late": late,
        "location": _location(asset["declaration"].get("location"), report["payload"]),
        "produced_at": moment["now"].isoformat(),
        "payload": report["payload"],
        "event_id": report["event_id"],
        "report_key": report["key"],
        "report_sequence": given,
    }


def _location(declared: Mapping[str, Any] | None, payload: Any) -> dict[str, Any] | None:
    """Where the data of this version is: `payload.path` wins over the declared path (R3.1)."""
    path = payload.get("path") if isinstance(payload, dict) else None
    if not path:
        return dict(declared) if declared else None
    return {"format": "parquet", **(declared or {}), "path": str(path)}


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
        connection.execute(RUNS["request_run"], values)
    data = {"workflowSlug": slug, "workflowId": workflow["id"], "runId": run_id, "partitionKey": partition_key}
    _tell(connection, EventType.RUN_QUEUED, slug, {**data, "trigger": trigger})
    return run_id


def _certain(write: Callable[[bool], T]) -> T:
    """What `write` returns, although the answer to its commit may get lost: then it is asked again, with True.

    `write(True)` first looks, under its locks, for what the first try did. Gives up when the database stays away.
    """
    lost: LostConnectionError | None = None
    deadline = 0.0
    while True:
        try:
            return write(lost is not None)
        except LostConnectionError as error:
            if lost is None and not error.unknown:
                raise
            if lost is None:
                lost, deadline = error, time.monotonic() + PATIENCE_S
        except UnreachableError:
            if lost is None:
                raise
        if time.monotonic() > deadline:
            raise lost
        time.sleep(RETRY_S)


def _repeated(write: Callable[[], T]) -> T:
    for _ in range(TRIES):
        # Two first reports at once: the second one finds the first one's rows when it looks again.
        with suppress(psycopg.errors.UniqueViolation):
            return write()
    return write()


def _refuse_partition(partition_key: str) -> None:
    if partition_key:
        raise UsageError(f"partition key {partition_key!r} is refused: partitions are not built yet; leave it out")


def _check_payload(payload: Any) -> None:
    size = len(json.dumps(payload))
    if size > MOST_PAYLOAD:
        raise UsageError(f"the payload has {size} bytes; allowed are {MOST_PAYLOAD}; put the data into a file")


def _reported(asset_id: str, row: Mapping[str, Any], *, duplicate: bool) -> dict[str, Any]:
    return {
        "assetId": asset_id,
        "sequence": row["sequence"],
        "dataVersion": row["data_version"],
        "changed": row["changed"],
        "duplicate": duplicate,
        "movedHead": not duplicate and not row["late"],
        "eventId": row["event_id"],
    }


def _tell(connection: Connection, type_: EventType, subject: str, data: Mapping[str, Any]) -> None:
    event = {"id": new_id(), "type": type_, "subject": subject, "data": dict(data)}
    connection.execute(RUNS["append_events"], {"events": Jsonb([event])})
