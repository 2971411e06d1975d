"""The store: every transaction of an installation, grouped by concern.

Each transaction has a name, which is also its failpoint, its counter and its log event. Each attribute of `Store` is an
instance of the class of the same name; docs/architecture.md lists them with their transactions.
"""

from __future__ import annotations

from freshline.settings import Settings
from freshline.store.alerts.evaluation import AlertEvaluation
from freshline.store.alerts.messages import AlertMessages
from freshline.store.alerts.rules import Alerts
from freshline.store.apply.apply import Apply
from freshline.store.backfills.backfills import Backfills
from freshline.store.db import migrate
from freshline.store.db.database import Database
from freshline.store.db.queries import load
from freshline.store.doctor.repair import Doctor
from freshline.store.evaluation.evaluation import Evaluation
from freshline.store.events import Events
from freshline.store.operations.operations import Operations
from freshline.store.operations.tokens import Tokens
from freshline.store.processes import Processes
from freshline.store.read.reader import Reader
from freshline.store.retention.prune import Retention
from freshline.store.retention.retirement import Retirement
from freshline.store.runs.runs import Runs
from freshline.store.tables.versions import Tables
from freshline.store.watches.watches import Watches
from freshline.store.webhooks.delivery import Deliveries
from freshline.store.webhooks.subscriptions import Webhooks

SQL = load("apply")


class Store:
    """Everything that reads or changes the state of an installation."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        self.settings = settings
        self.reader = Reader(database)
        self.apply = Apply(database, settings)
        self.operations = Operations(database, settings)
        self.evaluation = Evaluation(database)
        self.retirement = Retirement(database)
        self.backfills = Backfills(database)
        self.events = Events(database)
        self.runs = Runs(database, settings)
        self.tables = Tables(database, settings)
        self.webhooks = Webhooks(database)
        self.deliveries = Deliveries(database, settings)
        self.watches = Watches(database, settings)
        self.alerts = Alerts(database)
        self.alert_evaluation = AlertEvaluation(database)
        self.alert_messages = AlertMessages(database, settings)
        self.tokens = Tokens(database)
        self.processes = Processes(database)
        self.retention = Retention(database)
        self.doctor = Doctor(database)

    @property
    def warehouse_id(self) -> str:
        """The id that the warehouse must carry (docs/semantics.md#R12.3)."""
        with self.database.connection() as connection:
            row = connection.execute(SQL["epoch"]).fetchone()
        assert row is not None  # noqa: S101 - the migration inserted it
        return str(row["warehouse_id"])

    def require_schema(self) -> None:
        """Raise an error if only a newer version understands the schema."""
        with self.database.reading() as connection:
            migrate.require_no_newer(connection)
