"""Executes one claimed run: its steps in order, each with its tries, then one publication of all outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import uuid4

import psycopg
import structlog

from freshline.definitions.retry import Failure
from freshline.definitions.schema.workflow import Retry, Spark, Step, Workflow
from freshline.definitions.steps import dependencies, internal_inputs, step_order
from freshline.errors import CheckError, DatabaseError, EngineError, FreshlineError, JobError
from freshline.model.deliveries import Delivery
from freshline.model.json import Json
from freshline.model.run import ClaimedRun, FinishedStep, PinnedInput, StagedOutput
from freshline.model.state import reference
from freshline.settings import Settings
from freshline.storage import layout
from freshline.storage.base import Storage, StorageError
from freshline.store.db.database import LostConnectionError, UnreachableError
from freshline.store.runs.events import bounded_checks
from freshline.store.store import Store
from freshline.worker.code_copies import CodeCopy
from freshline.worker.increments import reads_increments
from freshline.worker.lease import Lease, LeaseKeeper
from freshline.worker.protocol import ProgressValues, StepRequest, StepResult, StoreQueries
from freshline.worker.runner_pool import RunnerPool
from freshline.worker.runner_process import RunnerProcess
from freshline.worker.step_errors import RunnerDied, StepStopped, StepTimeout
from freshline.worker.step_request import RequestBuilder, full_refresh_requested

log = structlog.get_logger("freshline.runs")
RETRY_S = 0.5
WARMING_S = 0.1
T = TypeVar("T")


@dataclass(slots=True)
class Execution:
    """One attempt of a run.

    `stop` returns why the run must stop, or None. `pause` waits between two tries and returns the same.
    """

    store: Store
    settings: Settings
    storage: Storage
    runners: RunnerPool
    leases: LeaseKeeper
    lease: Lease
    code: CodeCopy
    stop: Callable[[], str | None]
    pause: Callable[[float], str | None]
    check_warehouse: Callable[[], None] = lambda: None
    step: str | None = None  # the id of the current step
    staged: dict[str, StagedOutput] = field(default_factory=dict)  # by asset; in a batch by reference
    metrics: dict[str, Json] = field(default_factory=dict)

    @property
    def run(self) -> ClaimedRun:
        """The run that is executed."""
        return self.lease.run

    def execute(self) -> list[str]:
        """Execute all steps that no earlier attempt has finished, publish, and return the published assets.

        A step whose files are gone is executed again, and so are all steps after it, so that all published outputs
        were computed from each other (docs/semantics.md#R9.1).
        """
        definition = Workflow.model_validate(self.run.definition)
        before, attempts = dependencies(definition), dict[str, int]()
        for step in step_order(definition):
            since = max((attempts[step_id] for step_id in before[step.id]), default=0)
            done = self._finished_earlier(step, since) or FinishedStep(self.run.attempt, self._step(definition, step))
            attempts[step.id] = done.attempt
            self.staged |= {self._name(output): output for output in done.outputs}
            self.step = None
        return self._publish(definition)

    def _name(self, output: StagedOutput) -> str:
        """Return the asset of an output; in a batch its reference."""
        return reference(output.asset_id, output.partition_key) if self.run.batch else output.asset_id

    def _finished_earlier(self, step: Step, since: int) -> FinishedStep | None:
        """Return the work of an earlier attempt, unless a later attempt executed a step that comes before it."""
        done = self.run.finished_steps.get(step.id)
        return done if done and done.attempt >= since and self._still_there(done.outputs) else None

    def _still_there(self, outputs: tuple[StagedOutput, ...]) -> bool:
        """Return whether the files of an earlier attempt are unchanged."""
        try:
            for output in outputs:
                if output.location:
                    layout.verify_staged(self.storage, output.location)
        except StorageError:  # the answer is unknown
            raise
        except FreshlineError:
            return False
        return True

    def _step(self, definition: Workflow, step: Step) -> tuple[StagedOutput, ...]:
        retry = step.retry or Retry()
        self.step = step.id
        for try_ in range(1, retry.max_attempts + 1):
            try:
                return self._try(definition, step, try_)
            except (JobError, RunnerDied) as error:
                last = try_ == retry.max_attempts or not self._tried_again(step, retry, error)
                log.warning("step_failed", run=self.run.id, step=step.id, attempt=try_, error=error.message, last=last)
                if last:
                    raise
                reason = self.pause(retry.pause_ms(try_) / 1000)
                if reason:
                    raise StepStopped(reason) from error
        raise AssertionError("the last try returns or raises")

    def _tried_again(self, step: Step, retry: Retry, error: JobError | RunnerDied) -> bool:
        """Return whether the step has another try after this error (docs/semantics.md#R7.5), and log why not."""
        if isinstance(error, (RunnerDied, CheckError)):
            return isinstance(error, RunnerDied)
        again = Failure(error.raised, error.permanent).tried_again(retry.on)
        if not again:
            self._log(step.id, "log", f"INFO not tried again after {error.raised[0]}: 'retry.on' is {shown_on(retry)}")
        return again

    def _try(self, definition: Workflow, step: Step, try_: int) -> tuple[StagedOutput, ...]:
        run, session = self.run, self._new_session_id(step)
        self.lease.progress = {"step": step.id}  # drops the progress of an earlier step or try
        self._persist(lambda: self.store.runs.begin_step(run.id, run.attempt, step.id, try_, session=session))
        try:
            result = self._run_step(definition, step, try_, session)
        except StepStopped:
            raise
        except FreshlineError as error:
            if isinstance(error, CheckError):
                kept = _where_kept(error, self.storage, self.settings.keep_failed_hours)
                error.hint = "; ".join(text for text in (kept, error.hint) if text) or None
            failure = describe(error, step.id)
            self._persist(lambda: self.store.runs.finish_step(run.id, run.attempt, step.id, try_, error=failure))
            raise
        outputs, metrics = result.outputs, result.metrics
        self._persist(
            lambda: self.store.runs.finish_step(run.id, run.attempt, step.id, try_, outputs=outputs, metrics=metrics)
        )
        self.metrics[step.id] = dict(metrics)
        return outputs

    def _new_session_id(self, step: Step) -> str | None:
        """Choose the id of the step's session on a Connect server before it exists: it outlives its runner."""
        return str(uuid4()) if self.settings.spark_remote and step.job.kind != "python" else None

    def _run_step(self, definition: Workflow, step: Step, try_: int, session: str | None) -> StepResult:
        request = self._request(definition, step, try_, session)
        with self._tracking(session):
            return self._runner(definition, step).run_step(
                request,
                on_log=lambda stream, text: self._log(step.id, stream, text),
                on_progress=lambda values: self._progress(step.id, values),
                queries=StoreQueries(self._version, self._deliveries),
                stop=self.stop,
            )

    def _version(self, asset_id: str, partition_key: str, version: int) -> PinnedInput:
        return self._persist(lambda: self.store.runs.table_at(asset_id, partition_key, version))

    def _deliveries(self, asset_id: str, first: int, last: int) -> list[Delivery]:
        # A source with deliveries has no partitions, also if the run has one.
        return self._persist(lambda: self.store.runs.deliveries(asset_id, "", first, last))

    def _request(self, definition: Workflow, step: Step, try_: int, session: str | None) -> StepRequest:
        builder = RequestBuilder(self.run, definition, self.storage, self.staged)
        reading = builder.reading(step)
        if reading.full_refresh_reason and reads_increments(step):
            self._log(step.id, "log", f"INFO everything is read again: {reading.full_refresh_reason}")
        orphans = {*self.run.sessions, *self.runners.orphans}
        return builder.build(step, try_, reading, session=session, orphans=orphans)

    @contextmanager
    def _tracking(self, session: str | None) -> Iterator[None]:
        """Remember a session whose runner did not report an end: it may still compute, and the next step closes it.

        See docs/semantics.md#R12.1.
        """
        try:
            yield
        except (RunnerDied, StepStopped, StepTimeout, EngineError):
            if session:
                self.runners.orphans.append(session)
            raise
        if session:  # the step has closed those before it
            self.runners.orphans.clear()

    def _runner(self, definition: Workflow, step: Step) -> RunnerProcess:
        wanted = definition.spark or Spark()
        spark = step.job.kind != "python"
        # A Connect server has one size for all.
        if not spark or wanted.size == "small" or self.settings.spark_remote:
            return self.runners.runner(spark=spark, code=self.code, secrets=definition.secrets)
        runner, warm = self.runners.large(wanted.conf, self.code), self.runners.spark()
        failure = self._wait_until_ready(runner)
        if failure and warm is not None and warm.ready:
            # Spark starts on this machine, but not with these settings: the workflow's own mistake.
            raise JobError(f"Spark cannot be started with the workflow's spark.conf: {failure.message}")
        return runner

    def _wait_until_ready(self, runner: RunnerProcess) -> FreshlineError | None:
        """Wait for a new runner; return why it cannot become ready, if so."""
        while runner.alive and not runner.ready:
            if reason := self.pause(WARMING_S):
                raise StepStopped(reason)
        return runner.failure

    def _log(self, step_id: str, stream: str, text: str) -> None:
        self.lease.lines.append({"step_id": step_id, "stream": stream, "text": text})

    def _progress(self, step_id: str, values: ProgressValues) -> None:
        self.lease.progress = {"step": step_id, **values}

    def _publish(self, definition: Workflow) -> list[str]:
        located = [output.location for output in self.staged.values() if output.location]
        for location in located:
            layout.verify_staged(self.storage, location)
        if located:
            self.check_warehouse()  # an unmounted warehouse leaves an empty directory that files can be written to
        reason = self.stop()
        if reason:
            raise StepStopped(reason)
        damaged = self._damaged_heads()
        self._persist(lambda: self.leases.flush(self.lease))  # after the publication this attempt may not write
        return self._persist(
            lambda: self.store.runs.publish(
                self.run,
                list(self.staged.values()),
                metrics=self.metrics,
                publish_parameters=definition.publish_parameters,
                damaged=damaged,
                internal=internal_inputs(definition),
            )
        )

    def _damaged_heads(self) -> set[str]:
        """Return directories that an equal output must replace: their files differ from the published ones (ADR 0008).

        A requested full refresh also replaces files that have other encodings (ADR 0013).
        """
        heads = [(self.run.inputs[one], output) for one, output in self.staged.items() if one in self.run.inputs]
        located = [(head.location, output.location or {}) for head, output in heads if head.location]
        forced = full_refresh_requested(self.run)
        return {
            old["paths"][-1]
            for old, new in located
            if layout.difference(self.storage, old) or (forced and old.get("parquet") != new.get("parquet"))
        }

    def _persist(self, write: Callable[[], T]) -> T:
        return persist(write, lambda: self.pause(RETRY_S))


def persist(write: Callable[[], T], pause: Callable[[], str | None]) -> T:
    """Repeat a write while the database is away, until `pause` returns a reason to stop."""
    while True:
        try:
            return write()
        except (psycopg.OperationalError, psycopg.InterfaceError, DatabaseError) as error:
            if not isinstance(error, (LostConnectionError, UnreachableError)):  # the connections log those once
                log.warning("database_trouble", error=str(error).strip())
            reason = pause()
            if reason:
                raise StepStopped(reason) from error


def shown_on(retry: Retry) -> str:
    """Return `retry.on` as it is written."""
    return retry.on if isinstance(retry.on, str) else f"[{', '.join(retry.on)}]"


def describe(error: FreshlineError, step_id: str | None = None) -> Json:
    """Return an error as a run stores and shows it."""
    described = {
        "code": error.code,
        "message": str(error),
        "step": step_id,
        "traceback": getattr(error, "traceback", "") or None,
    }
    return {**described, "checks": bounded_checks(error.checks)} if isinstance(error, CheckError) else described


def _where_kept(error: CheckError, storage: Storage, hours: int) -> str | None:
    """Return where data that failed a check is kept, and for how long."""
    if error.staged is None:
        return None
    if hours == 0:
        return "the data was removed; FRESHLINE_KEEP_FAILED_HOURS would keep it"
    return f"the data is in {storage.at(error.staged)} for {hours} h"


def clean_up(storage: Storage, run: ClaimedRun, outputs: list[str], keep: set[str]) -> None:
    """Remove what the run staged and did not publish, of all attempts; the vacuum removes what this misses.

    Of a batch only this attempt: its runs may be queued again, and executed by another worker by now.
    """
    own = f"{run.id}-{run.attempt}-" if run.batch else f"{run.id}-"
    kept = {layout.attempt_directory(path) for path in keep}
    try:
        found = [f"{data}/{name}" for data in map(layout.data_directory, outputs) for name in storage.children(data)]
    except OSError as error:
        log.warning("leftovers_unknown", run=run.id, error=str(error))
        return
    for directory in found:
        if directory.rpartition("/")[2].startswith(own) and directory not in kept:
            storage.clear(directory)
