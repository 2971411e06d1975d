"""The run worker: claims runs, holds their leases, executes them in runner processes, publishes.

Only this process talks to the database; user code and Spark live in the runners and die with it (R12.1).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import structlog

from freshline.definitions.loading.manifest import read_manifest
from freshline.definitions.schema.workflow import Workflow
from freshline.definitions.steps import produced
from freshline.errors import (
    CheckError,
    DatabaseError,
    EngineError,
    EngineLostError,
    FencedError,
    FreshlineError,
    WarehouseError,
)
from freshline.model.run import ClaimedRun
from freshline.redis_bus import open_bus
from freshline.services.heartbeat import Heartbeat
from freshline.services.notifier import Notifier
from freshline.services.service import Service
from freshline.settings import Settings
from freshline.storage import layout
from freshline.storage.base import StorageError, storage_at
from freshline.store.runs.runs import Claimant
from freshline.store.store import Store
from freshline.worker.cds_builder import Archivist
from freshline.worker.code_version import Code
from freshline.worker.execution import RETRY_S, Execution, clean_up, describe, persist
from freshline.worker.lease import Heart, Lease
from freshline.worker.protocol import StepStopped
from freshline.worker.slot import Slot

log = structlog.get_logger("freshline.runs")
ENGINE_RETRY_S = 15.0
WARMING_S = 0.2


class Worker:
    """`slots` runs at a time. `stop(grace)` lets them finish for that long and hands the rest back."""

    def __init__(self, store: Store, settings: Settings, slots: int = 1) -> None:
        self.store = store
        self.settings = settings
        self.project = read_manifest(settings.project).name
        self.code = Code(settings.project)
        self.heart = Heart(store)
        self.heartbeat = Heartbeat(store, "worker", project=self.project, code_hash=self.code.current, info=self._info)
        self.slots = [SlotService(self, number) for number in range(slots)]
        self.archivist = Archivist()
        self.engine_trouble: str | None = None
        self.storage = storage_at(settings.warehouse_at)
        self._warehouse_id = ""
        self._engine_retry_at = 0.0
        self.bus = open_bus(settings)
        self._doorbell = Notifier(store.database, {"runs": self._ring}, self.bus)

    def start(self) -> None:
        """Begin; returns at once. A warehouse of another database is refused."""
        self._warehouse_id = self.store.warehouse_id
        self.check_warehouse(make=True)
        for service in (self.heartbeat, self.heart, *self.slots):
            service.start()
        self._doorbell.start()

    def stop(self, grace: float = 10.0) -> None:
        """Claim no more, wait for what runs, hand back what does not end in time; may be called twice."""
        self._doorbell.stop()
        deadline = time.monotonic() + grace
        for slot in self.slots:
            slot.leave(deadline)
        for slot in self.slots:
            slot.stop()
        self.archivist.stop()
        self.heart.stop()
        self.heartbeat.stop()
        if self.bus is not None:
            self.bus.close()

    def check_warehouse(self, *, make: bool = False) -> None:
        """Refuse a warehouse that cannot be reached or belongs to another database (R12.3)."""
        layout.check_warehouse(self.storage, self._warehouse_id, make=make)

    def may_use_spark(self) -> bool:
        """Whether Spark runs may be claimed: not while the engine is known to be unreachable (R7.1)."""
        return self.engine_trouble is None or time.monotonic() >= self._engine_retry_at

    def note_engine(self, error: FreshlineError | None) -> None:
        """Remember whether Spark works."""
        self.engine_trouble = str(error) if error else None
        if error is not None:
            log.warning("engine_unreachable", error=self.engine_trouble, retry_in_s=ENGINE_RETRY_S)
            self._engine_retry_at = time.monotonic() + ENGINE_RETRY_S

    def _ring(self) -> None:
        self.heart.wake()
        for slot in self.slots:
            slot.wake()

    def _info(self) -> dict[str, Any]:
        return {
            "slots": len(self.slots),
            "running": [slot.current for slot in self.slots if slot.current],
            "runners": [slot.slot.pids() for slot in self.slots],
            "engine": self.engine_trouble or "ok",
            **({"bus": self.bus.trouble or "ok"} if self.bus else {}),
        }


class SlotService(Service):
    """Claims one run after another and executes it."""

    def __init__(self, worker: Worker, number: int) -> None:
        super().__init__(worker.store)
        self.name = f"slot-{number}"
        self.slot = Slot(worker.settings)
        self.current: str | None = None
        self._worker = worker
        self._idle_s = self.poll_s
        self._hand_back_at: float | None = None

    def start(self) -> None:
        """Begin, with runners that warm up before the first run asks for them."""
        self._warm_up()
        super().start()

    def _warm_up(self) -> None:
        engines = self.store.runs.engines(self._worker.project)
        code_hash = self._worker.code.current()
        for spark in engines:
            self.slot.runner(spark=spark, code_hash=code_hash)

    def leave(self, deadline: float) -> None:
        """Claim no more; hand back what has not ended by this monotonic time."""
        self._hand_back_at = deadline
        self._stopping.set()

    def stop(self) -> None:
        """End the slot and its runners."""
        super().stop()
        self.slot.close()

    def run_once(self) -> bool:
        """One run, if there is one for this worker."""
        worker = self._worker
        claimed_at = time.monotonic()
        code_hash = worker.code.current()
        spark = self._spark_ready(code_hash)
        run = self.store.runs.claim(Claimant(worker.heartbeat.id, worker.project, code_hash, spark=spark))
        if run is None:
            return False
        self._run(run, claimed_at, code_hash)
        return True

    def _spark_ready(self, code_hash: str) -> bool:
        """Whether a Spark run could begin at once. Until then only others are claimed, so they never wait for Spark."""
        worker = self._worker
        self.poll_s = self._idle_s
        if not worker.may_use_spark():
            return False
        runner = self.slot.spark()
        if runner is not None and runner.failure is not None:
            worker.note_engine(runner.failure)
            self.slot.forget_spark()
            return False
        if runner is None and not self.store.runs.spark_waits(worker.project):
            return False
        runner = self.slot.runner(spark=True, code_hash=code_hash)
        if not runner.ready:
            self.poll_s = min(WARMING_S, self._idle_s)
            return False
        if runner.lacks_archive:
            worker.archivist.begin()
        away = self._away()
        worker.note_engine(away)  # away, not full: no fault of the workflows (R7.1)
        return away is None

    def _run(self, run: ClaimedRun, claimed_at: float, code_hash: str) -> None:
        lease = self._worker.heart.hold(run, claimed_at)
        self.current = run.id
        with structlog.contextvars.bound_contextvars(run=run.id, attempt=run.attempt, workflow=run.slug):
            log.info("run_started", trigger=run.trigger["type"], reason=run.trigger.get("reason"))
            try:
                self._execute(lease, code_hash)
            finally:
                self.slot.end_large()
                self.current = None
                self._worker.heart.release(lease)

    def _execute(self, lease: Lease, code_hash: str) -> None:
        execution = Execution(
            store=self.store,
            settings=self._worker.settings,
            storage=self._worker.storage,
            slot=self.slot,
            heart=self._worker.heart,
            lease=lease,
            code_hash=code_hash,
            stop=lambda: self._stop_reason(lease),
            pause=lambda seconds: self._pause(lease, seconds),
            check_warehouse=self._worker.check_warehouse,
        )
        run = lease.run
        try:
            published = execution.execute()
        except FencedError as error:
            log.warning("run_fenced", error=error.message)
        except StepStopped as stopped:
            self._stopped(lease, stopped.reason)
        except EngineError as error:
            # Not the workflow's fault: the run goes back, and this worker takes no Spark runs for a while (R7.1).
            self._worker.note_engine(error)
            self._give_back(lease, crashed=isinstance(error, EngineLostError))
        except (psycopg.Error, DatabaseError):
            raise  # the database stayed away: the lease ends, and the run is taken over
        except FreshlineError as error:
            self._broke(lease, error, execution.step)
        except Exception as error:
            log.exception("run_broke")
            told = FreshlineError(f"Freshline itself failed: {type(error).__name__}: {error}")
            self._broke(lease, told, execution.step)
        else:
            lease.over = True
            self.store.database.ring("events")  # before the rest: the next ones of the wave wait for it
            log.info("run_succeeded", assets=published)
            self._clean_up(run, {path for one in self.store.runs.locations(run.id) for path in one.get("paths", ())})

    def _stop_reason(self, lease: Lease) -> str | None:
        late = self._hand_back_at is not None and time.monotonic() > self._hand_back_at
        return lease.stop_reason() or ("shutdown" if late else None)

    def _pause(self, lease: Lease, seconds: float) -> str | None:
        """Wait between two tries; ends early when the run must stop."""
        deadline = time.monotonic() + seconds
        waiting = threading.Event()
        while time.monotonic() < deadline:
            reason = self._stop_reason(lease)
            if reason:
                return reason
            waiting.wait(min(0.1, seconds))
        return None

    def _stopped(self, lease: Lease, reason: str) -> None:
        run = lease.run
        log.info("run_stopped", reason=reason)
        if reason == "canceled":
            self._flush(lease)
            if self._finish(lease, lambda: self.store.runs.cancel(run.id, run.attempt)):
                self._clean_up(run, set())
        elif reason == "shutdown":
            self._give_back(lease)

    def _give_back(self, lease: Lease, *, crashed: bool = False) -> None:
        run = lease.run
        self._finish(lease, lambda: self.store.runs.hand_back(run.id, run.attempt, crashed=crashed))

    def _broke(self, lease: Lease, error: FreshlineError, step: str | None) -> None:
        """The run failed, unless the warehouse got lost under it: then it goes back as with a lost engine (R7.1)."""
        unsaid = error if isinstance(error, StorageError) else None  # it may answer again by now
        away = unsaid or (self._away() if _needs_warehouse(lease.run, error, step) else None)
        if away is None:
            self._failed(lease, error, step)
            return
        log.warning("warehouse_lost", error=error.message)
        self._worker.note_engine(away)
        self._give_back(lease, crashed=True)

    def _away(self) -> WarehouseError | None:
        try:
            self._worker.check_warehouse()
        except WarehouseError as error:
            return error
        return None

    def _failed(self, lease: Lease, error: FreshlineError, step: str | None = None) -> None:
        run = lease.run
        log.warning("run_failed", code=error.code, error=error.message)
        self._flush(lease)
        if self._finish(lease, lambda: self.store.runs.fail(run.id, run.attempt, describe(error, step))):
            self._clean_up(run, self._inspected(error))

    def _inspected(self, error: FreshlineError) -> set[str]:
        """Data that failed a check stays for a while, to be looked at."""
        settings = self._worker.settings
        if not isinstance(error, CheckError) or error.staged is None or settings.keep_failed_hours == 0:
            return set()
        return {error.staged}

    def _flush(self, lease: Lease) -> None:
        self._written(lease, lambda: self._worker.heart.flush(lease))

    def _finish(self, lease: Lease, write: Callable[[], None]) -> bool:
        """Whether the end of the run could be written."""
        lease.over = self._written(lease, write)
        if lease.over:
            self.store.database.ring("events")
        return lease.over

    def _written(self, lease: Lease, write: Callable[[], None]) -> bool:
        """Whether the run was still ours to write to. Outlasts a database that is away, but not the lease.

        If it was not, its files are not ours either: another attempt may be using them.
        """
        try:
            persist(write, lambda: self._waited(lease))
        except FencedError as error:
            log.warning("run_fenced", error=error.message)
        except StepStopped:
            log.warning("run_left", reason="the database stayed away until the lease ended")
        else:
            return True
        return False

    def _waited(self, lease: Lease) -> str | None:
        threading.Event().wait(RETRY_S)
        return "lease-lost" if lease.stop_reason() == "lease-lost" else None

    def _clean_up(self, run: ClaimedRun, keep: set[str]) -> None:
        outputs = list(produced(Workflow.model_validate(run.definition)))
        clean_up(self._worker.storage, run.id, outputs, keep)


def _needs_warehouse(run: ClaimedRun, error: FreshlineError, step_id: str | None) -> bool:
    """Whether an error can be due to a warehouse that is away: a `python` step does not use it, a check has used it."""
    spark = any(
        step.id == step_id and step.job.kind != "python" for step in Workflow.model_validate(run.definition).steps
    )
    return isinstance(error, WarehouseError) or (spark and not isinstance(error, CheckError))
