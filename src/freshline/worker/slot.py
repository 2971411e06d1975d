"""One slot of a worker: claims one run after another and executes it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import psycopg
import structlog

from freshline.errors import DatabaseError
from freshline.model.run import ClaimedRun
from freshline.services.service import Service
from freshline.store.runs.claim import Claimant
from freshline.worker.code_copies import CodeCopy
from freshline.worker.execution import Execution
from freshline.worker.lease import Lease
from freshline.worker.outcome import HandedBack, Outcome, OutcomeWriter, Succeeded, outcome_of
from freshline.worker.runner_pool import RunnerPool
from freshline.worker.runner_process import RunnerProcess

if TYPE_CHECKING:
    from freshline.worker.worker import Worker

log = structlog.get_logger("freshline.runs")
WARMING_S = 0.2
STOP_POLL_S = 0.1


class Slot(Service):
    """Executes one run at a time in its own runner processes."""

    def __init__(self, worker: Worker, number: int) -> None:
        super().__init__(worker.store)
        self.name = f"slot-{number}"
        self.runners = RunnerPool(worker.settings)
        self.current: str | None = None
        self._worker = worker
        self._outcomes = OutcomeWriter(worker)
        self._idle_s = self.poll_s
        self._hand_back_at: float | None = None

    def start(self) -> None:
        """Start the thread, and runners that warm up before the first run needs them."""
        self._warm_up()
        super().start()

    def _warm_up(self) -> None:
        engines = self.store.runs.engines(self._worker.project)
        self.runners.environment = self._worker.job_environment()
        code = self._worker.current_code()
        if code is not None:
            for spark in engines:
                self.runners.runner(spark=spark, code=code)

    def leave(self, deadline: float) -> None:
        """Claim no more runs; hand back a run that has not ended by this monotonic time."""
        self._hand_back_at = deadline
        self._stopping.set()

    def stop(self) -> None:
        """Stop the thread and close the runners."""
        super().stop()
        self.runners.close()

    def run_once(self) -> bool:
        """Claim and execute one run; return whether there was one."""
        worker = self._worker
        claimed_at = time.monotonic()
        code = worker.current_code()
        if code is None:
            return False
        runner = self._ensure_spark(code)
        ready = runner is not None and runner.ready
        self.poll_s = self._idle_s if runner is None or ready else min(WARMING_S, self._idle_s)
        # Until Spark is ready only other runs are claimed, so that they never wait for it.
        spark = ready and self._check_warehouse()
        run = self.store.runs.claim(Claimant(worker.heartbeat.id, worker.project, code.hash, spark=spark))
        if run is None:
            return False
        self._run(run, claimed_at, code)
        return True

    def _ensure_spark(self, code: CodeCopy) -> RunnerProcess | None:
        """Return the Spark runner, started or replaced if needed; None if Spark is unusable or no run waits for it."""
        worker, runner = self._worker, self.runners.spark()
        if not worker.may_use_spark():
            return None
        if runner is not None and runner.failure is not None:
            worker.record_engine(runner.failure)
            self.runners.close_spark()
            return None
        if runner is None and not self.store.runs.spark_waits(worker.project):
            return None
        runner = self.runners.runner(spark=True, code=code)
        if runner.ready:
            worker.report_class_archive(missing=runner.lacks_archive)
        return runner

    def _check_warehouse(self) -> bool:
        """Record whether the warehouse can be used, and return it. Full is usable: that is the workflow's failure."""
        error = self._worker.warehouse_error()
        self._worker.record_engine(error)
        return error is None

    def _run(self, run: ClaimedRun, claimed_at: float, code: CodeCopy) -> None:
        lease = self._worker.leases.hold(run, claimed_at)
        self.current = run.id
        with structlog.contextvars.bound_contextvars(run=run.id, attempt=run.attempt, workflow=run.slug):
            log.info("run_started", trigger=run.trigger["type"], reason=run.trigger.get("reason"))
            try:
                self.runners.environment = self._worker.job_environment()
                self.end(lease, self.execute(lease, code))
            finally:
                self.runners.close_large()
                self.current = None
                self._worker.leases.release(lease)

    def execute(self, lease: Lease, code: CodeCopy) -> Outcome:
        """Execute the run and return how it ended.

        Errors of the database are raised: the lease then expires and another worker takes the run over.
        """
        execution = Execution(
            store=self.store,
            settings=self._worker.settings,
            storage=self._worker.storage,
            runners=self.runners,
            leases=self._worker.leases,
            lease=lease,
            code=code,
            stop=lambda: self._stop_reason(lease),
            pause=lambda seconds: self._pause(lease, seconds),
            check_warehouse=self._worker.check_warehouse,
        )
        try:
            return Succeeded(execution.execute())
        except (psycopg.Error, DatabaseError):
            raise
        except Exception as error:  # noqa: BLE001 - every other error ends this run, and only this run
            return outcome_of(error, lease.run, execution.step, self._worker.warehouse_error)

    def end(self, lease: Lease, outcome: Outcome) -> None:
        """Write how the run ended. After a loss of Spark or the warehouse, claim no Spark runs for a while."""
        if isinstance(outcome, HandedBack) and outcome.engine_error is not None:
            self._worker.record_engine(outcome.engine_error)
        self._outcomes.write(lease, outcome)

    def _stop_reason(self, lease: Lease) -> str | None:
        late = self._hand_back_at is not None and time.monotonic() > self._hand_back_at
        return lease.stop_reason() or ("shutdown" if late else None)

    def _pause(self, lease: Lease, seconds: float) -> str | None:
        """Wait between two tries; return early, with the reason, when the run must stop."""
        deadline = time.monotonic() + seconds
        waiting = threading.Event()
        while time.monotonic() < deadline:
            reason = self._stop_reason(lease)
            if reason:
                return reason
            waiting.wait(min(STOP_POLL_S, seconds))
        return None
