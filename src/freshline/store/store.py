"""The store: the only place with transactions. Each has a name, which is its failpoint, its counter and its log event.

Here are the operators' transactions about definitions and workflows (apply, pause, resume, reset); what the outside
says about assets is in `reporting`, runs by hand are in `requesting`; those of the materializer are in
`materializing`, those of run workers in `executing`, those about versions of tables in `versioning`, about webhooks in
`webhooks` and `delivering`, the doctor's in `mending`, those about tokens in `access`, those that forget in `history`;
all reading is in `reader`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from freshline.definitions.loading.project import Project
from freshline.model.enums import EventType
from freshline.settings import Settings
from freshline.store.apply import write as catalogue
from freshline.store.apply.diff import ApplyPlan, make_plan, proposed_graph
from freshline.store.apply.wait_warnings import Patience
from freshline.store.db import locks, migrate
from freshline.store.db.database import Connection, Database
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.doctor.repair import Mending
from freshline.store.evaluation.evaluation import Materializing
from freshline.store.operations import audit
from freshline.store.operations.report import Reporting
from freshline.store.operations.request import Requesting
from freshline.store.operations.tokens import Access
from freshline.store.read.reader import Reader
from freshline.store.read.resolve import find_workflow
from freshline.store.retention.prune import History
from freshline.store.runs.publish import tell
from freshline.store.runs.steps import Executing
from freshline.store.tables.versions import Versioning
from freshline.store.webhooks.delivery import Delivering
from freshline.store.webhooks.subscriptions import Webhooks

if TYPE_CHECKING:
    from freshline.simulation.plan import Plan

SQL = load("operations")
APPLY = load("apply")
DB = load("db")
# To compare the definitions of thousands of workflows and make rows of them takes longer than other writers may idle.
UNHURRIED = "SET LOCAL idle_in_transaction_session_timeout = '60s'"


class Store(
    Reporting, Requesting, Materializing, Executing, Versioning, Mending, Access, Webhooks, Delivering, History
):
    """Everything that changes the state of an installation."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        self.settings = settings
        self.reader = Reader(database)

    @property
    def warehouse_id(self) -> str:
        """The id that the warehouse must carry (R12.3)."""
        with self.database.connection() as connection:
            row = connection.execute(APPLY["epoch"]).fetchone()
        assert row is not None  # noqa: S101 - the migration inserted it
        return str(row["warehouse_id"])

    def plan(self, project: Project) -> ApplyPlan:
        """What `apply` would change. Among its warnings are those about ancestors that nobody waits long enough for."""
        with self.database.reading(unhurried=True) as connection:
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
        from freshline.store.apply import preview  # noqa: PLC0415 - nothing else here looks ahead

        with self.database.rehearsing() as connection:
            plan = _apply(connection, project, baseline=baseline)
            touched = {*plan.added, *plan.changed}
            found = preview.around(connection, touched, plan.assets_removed)
        return preview.flood(found, self.settings, touched, plan.assets_removed)

    def pause(self, slug: str, until: datetime | None = None) -> None:
        """No automatic run of the workflow starts until then; queued ones end, what they were for stays pending."""
        with self.database.transaction("pause") as connection:
            workflow = find_workflow(connection, slug, "workflow")
            # Like apply: a reconciler that is deciding about it is let finish, so that what it queues is seen here.
            connection.execute(APPLY["consider"], {"workflows": [workflow["id"]]})
            ending = {"workflows": [workflow["id"]], "reason": "paused", "code_hash": None}
            connection.execute(APPLY["cancel_queued"], ending)
            with audit.changing(connection, "pause", slug, "workflow_state", workflow["id"]):
                connection.execute(SQL["pause"], {"workflow": workflow["id"], "until": until})
            _touch(connection, workflow["id"])
        self.database.ring("events", "considerations")

    def resume(self, slug: str) -> None:
        """Automatic runs of the workflow start again."""
        with self.database.transaction("resume") as connection:
            workflow = find_workflow(connection, slug)
            with audit.changing(connection, "resume", slug, "workflow_state", workflow["id"]):
                connection.execute(SQL["resume"], {"workflow": workflow["id"]})
            _touch(connection, workflow["id"])
        self.database.ring("events")

    def reset(self, slug: str) -> None:
        """Forget failures: ends the cooldown, closes the breaker, and lets a canceled run be asked for again."""
        with self.database.transaction("reset") as connection:
            workflow = find_workflow(connection, slug)
            with audit.changing(connection, "reset", slug, "workflow_state", workflow["id"]):
                row = connection.execute(SQL["reset"], {"workflow": workflow["id"]}).fetchone()
            if row and row["closed"]:
                data = {"workflowSlug": slug, "workflowId": workflow["id"], "partitionKey": "", "by": "reset"}
                tell(connection, EventType.BREAKER_CLOSED, slug, data)
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


def _apply(connection: Connection, project: Project, *, baseline: bool) -> ApplyPlan:
    connection.execute("SET LOCAL lock_timeout = '30s'")
    connection.execute(UNHURRIED)
    connection.execute(DB["lock"], {"key": locks.APPLY})
    stored = catalogue.read_stored(connection, project.name)
    plan = make_plan(project, stored)
    catalogue.write(connection, project, plan, stored, baseline=baseline)
    return plan


def _touch(connection: Connection, workflow_id: int) -> None:
    """Have the workflow looked at."""
    connection.execute(SQL["touch"], {"id": new_id(), "workflow": workflow_id, "partition": ""})
