"""The run worker: claims runs, holds their leases, executes them in runner processes and publishes the results.

Only this process talks to the database. User code and Spark live in the runners, which end with it
(docs/semantics.md#R12.1).
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace

import psycopg
import structlog

from freshline.credentials import own_credentials
from freshline.definitions.loading.manifest import read_manifest
from freshline.errors import DatabaseError, FreshlineError, WarehouseError
from freshline.masking import Secrets
from freshline.model.json import Json
from freshline.redis_bus import open_bus
from freshline.services.heartbeat import Heartbeat
from freshline.services.notifier import Notifier
from freshline.settings import Settings
from freshline.storage import layout
from freshline.storage.base import storage_at
from freshline.store.store import Store
from freshline.worker.code_copies import CodeCopies, CodeCopy
from freshline.worker.function_watcher import FunctionWatcher
from freshline.worker.lease import LeaseKeeper
from freshline.worker.runner_environment import JobEnvironment
from freshline.worker.slot import Slot

log = structlog.get_logger("freshline.runs")
ENGINE_RETRY_S = 15.0
NAMES_S = 5.0  # between two reads of the names of secrets; before its `apply` a name was an ordinary variable
BUILD_ARCHIVE = "python -m freshline.spark.jvm_cds"


class Worker:
    """Executes up to `slots` runs at a time."""

    def __init__(self, store: Store, settings: Settings, slots: int = 1) -> None:
        self.store = store
        self.settings = settings
        manifest = read_manifest(settings.project)
        self.project = manifest.name
        self.code = CodeCopies(settings)
        self._code_error: str | None = None
        self.leases = LeaseKeeper(store)
        self.heartbeat = Heartbeat(store, "worker", project=self.project, code_hash=self._code_hash, info=self._info)
        self.slots = [Slot(self, number) for number in range(slots)]
        self.engine_error: str | None = None
        self._secrets = Secrets(own_credentials(os.environ, settings))
        self.storage = storage_at(settings.warehouse_at)
        self._warehouse_id = ""
        self._engine_retry_at = 0.0
        self._archive_reported = False
        self._environment = JobEnvironment(manifest.job_environment, warehouse=settings.warehouse_at)
        self._environment_at = -math.inf
        self._renamed_to: str | None = None
        self.bus = open_bus(settings)
        self.watcher = FunctionWatcher(self)
        self._notifier = Notifier(store.database, {"runs": self._wake, "watches": self.watcher.wake}, self.bus)

    def start(self) -> None:
        """Start all services and return at once. Raise `WarehouseError` for the warehouse of another database."""
        self._warehouse_id = self.store.warehouse_id
        self.check_warehouse(make=True)
        for service in (self.heartbeat, self.leases, *self.slots, self.watcher):
            service.start()
        self._notifier.start()

    def stop(self, grace: float = 10.0) -> None:
        """Claim no more runs; after `grace` seconds hand back those that still run. May be called twice."""
        self._notifier.stop()
        deadline = time.monotonic() + grace
        for slot in self.slots:
            slot.leave(deadline)
        self.watcher.stop()
        for slot in self.slots:
            slot.stop()
        self.leases.stop()
        self.heartbeat.stop()
        if self.bus is not None:
            self.bus.close()

    def check_warehouse(self, *, make: bool = False) -> None:
        """Raise `WarehouseError` if the warehouse is unreachable or another database's (docs/semantics.md#R12.3)."""
        layout.check_warehouse(self.storage, self._warehouse_id, make=make)

    def warehouse_error(self) -> WarehouseError | None:
        """Return why the warehouse cannot be used; None if it can."""
        try:
            self.check_warehouse()
        except WarehouseError as error:
            return error
        return None

    def job_environment(self) -> JobEnvironment:
        """Return which variables runners get. Names of secrets are read again from time to time: `apply` adds some."""
        now = time.monotonic()
        if now - self._environment_at >= NAMES_S:
            try:
                names = frozenset(self.store.runs.secret_names())
            except (psycopg.OperationalError, psycopg.InterfaceError, DatabaseError):
                if self._environment_at < 0:  # never read
                    raise
            else:
                self._environment, self._environment_at = replace(self._environment, secrets=names), now
        return self._environment

    def may_use_spark(self) -> bool:
        """Return whether Spark runs may be claimed: not for a while after Spark or the warehouse was unreachable."""
        return self.engine_error is None or time.monotonic() >= self._engine_retry_at

    def record_engine(self, error: FreshlineError | None) -> None:
        """Record why Spark cannot be used; None if it can."""
        self.engine_error = self._secrets.hide(str(error)) if error else None
        if error is not None:
            log.warning("engine_unreachable", error=self.engine_error, retry_in_s=ENGINE_RETRY_S)
            self._engine_retry_at = time.monotonic() + ENGINE_RETRY_S

    def current_code(self) -> CodeCopy | None:
        """Return the project's code with its copy; None, and one line in the log, if it cannot be read or copied."""
        try:
            code = self.code.current()
        except FreshlineError as error:
            if str(error) != self._code_error:
                log.error("code_unusable", error=str(error))  # noqa: TRY400 - a sentence, not a traceback
            self._code_error = str(error)
            return None
        self._code_error = None
        return code

    def _code_hash(self) -> str | None:
        code = self.current_code()
        return code.hash if code else None

    def report_class_archive(self, *, missing: bool) -> None:
        """Log once that Spark starts slower than it could, and the command that builds the class archive."""
        if missing and not self._archive_reported:
            self._archive_reported = True
            log.info("spark_class_archive_missing", effect="Spark starts slower", build_it_with=BUILD_ARCHIVE)

    def _wake(self) -> None:
        self.leases.wake()
        for slot in self.slots:
            slot.wake()

    def _new_name(self) -> str | None:
        """Return the new name of this worker's project if it was renamed; log it once."""
        name = self.store.apply.renamed_to(self.project)
        if name is not None and name != self._renamed_to:
            advice = f'write `name = "{name}"` in freshline.toml, and restart this worker'
            log.warning("project_renamed", project=self.project, renamed_to=name, effect="no more runs", advice=advice)
        self._renamed_to = name
        return name

    def _info(self) -> Json:
        renamed_to = self._new_name()
        return {
            "slots": len(self.slots),
            "running": [slot.current for slot in self.slots if slot.current],
            "runners": [slot.runners.pids() for slot in self.slots],
            "engine": self.engine_error or "ok",
            **({"renamedTo": renamed_to} if renamed_to else {}),
            **({"bus": self.bus.trouble or "ok"} if self.bus else {}),
        }
