"""Executes one claimed run: its steps in order, each with its tries, then one publication of everything (R9.1)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar
from uuid import uuid4

import psycopg
import structlog

from freshline.definitions.schema.workflow import Produces, Retry, Spark, Step, Table, Workflow
from freshline.definitions.steps import dependencies, internal_inputs, step_order
from freshline.errors import CheckError, DatabaseError, EngineError, FreshlineError, JobError
from freshline.model.run import ClaimedRun, FinishedStep, PinnedInput, Position, StagedOutput
from freshline.settings import Settings
from freshline.storage import layout
from freshline.storage.base import Storage, StorageError
from freshline.store.db.database import LostConnectionError, UnreachableError
from freshline.store.runs.publish import told_checks
from freshline.store.store import Store
from freshline.worker.increments import Reading, reading, reads_increments
from freshline.worker.lease import Heart, Lease
from freshline.worker.process import RunnerProcess
from freshline.worker.protocol import RunnerDied, StepRequest, StepResult, StepStopped, StepTimeout
from freshline.worker.slot import Slot

log = structlog.get_logger("freshline.runs")
RETRY_S = 0.5
WARMING_S = 0.1
T = TypeVar("T")


@dataclass(slots=True)
class Execution:
    """One attempt of a run. `pause` waits between two tries and says why the run must stop, if it must."""

    store: Store
    settings: Settings
    storage: Storage
    slot: Slot
    heart: Heart
    lease: Lease
    code_hash: str
    stop: Callable[[], str | None]
    pause: Callable[[float], str | None]
    check_warehouse: Callable[[], None] = lambda: None
    step: str | None = None  # the one that runs
    staged: dict[str, StagedOutput] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)

    @property
    def run(self) -> ClaimedRun:
        """The run that is executed."""
        return self.lease.run

    def execute(self) -> list[str]:
        """All steps that no earlier attempt has finished, then the publication. Returns what was published.

        A step whose files are gone is done anew, and so is every step that comes after it: what is published together
        fits together.
        """
        definition = Workflow.model_validate(self.run.definition)
        before, attempts = dependencies(definition), dict[str, int]()
        for step in step_order(definition):
            since = max((attempts[step_id] for step_id in before[step.id]), default=0)
            done = self._kept(step, since) or FinishedStep(self.run.attempt, self._step(definition, step))
            attempts[step.id] = done.attempt
            self.staged |= {output.asset_id: output for output in done.outputs}
            self.step = None
        return self._publish(definition)

    def _kept(self, step: Step, since: int) -> FinishedStep | None:
        """The work of an earlier attempt, but of none before the one that did what comes before the step."""
        done = self.run.finished_steps.get(step.id)
        return done if done and done.attempt >= since and self._still_there(done.outputs) else None

    def _still_there(self, outputs: tuple[StagedOutput, ...]) -> bool:
        """An earlier attempt's work is used only if its files are what it left."""
        try:
            for output in outputs:
                if output.location:
                    layout.verify_staged(self.storage, output.location)
        except StorageError:  # nothing is known
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
                last = try_ == retry.max_attempts or isinstance(error, CheckError)
                log.warning("step_failed", run=self.run.id, step=step.id, attempt=try_, error=error.message, last=last)
                if last:
                    raise
                reason = self.pause(retry.pause_ms(try_) / 1000)
                if reason:
                    raise StepStopped(reason) from error
        raise AssertionError("the last try returns or raises")

    def _try(self, definition: Workflow, step: Step, try_: int) -> tuple[StagedOutput, ...]:
        run, session = self.run, self._session(step)
        self.lease.progress = {"step": step.id}  # what an earlier step or try said is over
        self._persist(lambda: self.store.runs.begin_step(run.id, run.attempt, step.id, try_, session=session))
        try:
            result = self._execute(definition, step, try_, session)
        except StepStopped:
            raise
        except FreshlineError as error:
            if isinstance(error, CheckError):
                error.hint = _whereabouts(error, self.storage, self.settings.keep_failed_hours) or error.hint
            failure = describe(error, step.id)
            self._persist(lambda: self.store.runs.finish_step(run.id, run.attempt, step.id, try_, error=failure))
            raise
        outputs, metrics = result.outputs, result.metrics
        self._persist(
            lambda: self.store.runs.finish_step(run.id, run.attempt, step.id, try_, outputs=outputs, metrics=metrics)
        )
        self.metrics[step.id] = dict(metrics)
        return outputs

    def _session(self, step: Step) -> str | None:
        """The id of the step's session on a Connect server, known before there is one: it outlives its runner."""
        return str(uuid4()) if self.settings.spark_remote and step.job.kind != "python" else None

    def _execute(self, definition: Workflow, step: Step, try_: int, session: str | None) -> StepResult:
        request = self._request(definition, step, try_, session)
        with self._owning(session):
            return self._runner(definition, step).run_step(
                request,
                on_log=lambda stream, text: self._log(step.id, stream, text),
                on_progress=lambda progress: self._progress(step.id, progress),
                on_ask=lambda asset_id, version: self._persist(
                    lambda: self.store.runs.table_at(asset_id, self.run.partition_key, version)
                ),
                stop=self.stop,
            )

    @contextmanager
    def _owning(self, session: str | None) -> Iterator[None]:
        """A session whose runner gave no answer may still compute; whoever comes next ends it (R12.1)."""
        try:
            yield
        except (RunnerDied, StepStopped, StepTimeout, EngineError):
            if session:
                self.slot.orphans.append(session)
            raise
        if session:  # those before it are ended by now
            self.slot.orphans.clear()

    def _runner(self, definition: Workflow, step: Step) -> RunnerProcess:
        wanted = definition.spark or Spark()
        spark = step.job.kind != "python"
        # A Connect server has one size for all.
        if not spark or wanted.size == "small" or self.settings.spark_remote:
            return self.slot.runner(spark=spark, code_hash=self.code_hash)
        runner, warm = self.slot.large(wanted.conf, self.code_hash), self.slot.spark()
        failure = self._awaited(runner)
        if failure and warm is not None and warm.ready:
            # Spark starts on this machine, but not so: that is the workflow's own fault.
            raise JobError(f"Spark cannot be started with the workflow's spark.conf: {failure.message}")
        return runner

    def _awaited(self, runner: RunnerProcess) -> FreshlineError | None:
        """Why a new runner cannot get ready, if so."""
        while runner.alive and not runner.ready:
            if reason := self.pause(WARMING_S):
                raise StepStopped(reason)
        return runner.failure

    def _request(self, definition: Workflow, step: Step, try_: int, session: str | None) -> StepRequest:
        run = self.run
        internal = internal_inputs(definition)[step.id]
        inputs = self._inputs(step, internal)
        heads = {asset_id: _position(run.inputs[asset_id]) for asset_id in internal if asset_id in run.inputs}
        read = reading(step, inputs, run.positions, heads=heads, forced=self._forced)
        if read.refresh and reads_increments(step):
            self._log(step.id, "log", f"INFO everything is read anew: {read.refresh}")
        return StepRequest(
            run_id=run.id,
            attempt=run.attempt,
            try_=try_,
            slug=run.slug,
            partition_key=run.partition_key,
            step=step.model_dump(mode="json", by_alias=True, exclude_unset=True),
            parameters={**definition.parameters, **run.parameters},
            inputs={asset_id: replace(one, since=read.since.get(asset_id)) for asset_id, one in inputs.items()},
            outputs={output.asset_id: self._output(output, try_, read) for output in step.produces},
            warehouse=str(self.storage),
            timeout_ms=step.timeout_ms,
            secrets=tuple(definition.secrets),
            full_refresh=read.refresh is not None,
            conf=definition.spark.conf if definition.spark else {},
            session=session,
            orphans=tuple({*self.run.sessions, *self.slot.orphans}) if session else (),
        )

    def _output(self, output: Produces, try_: int, read: Reading) -> dict[str, Any]:
        run, head = self.run, self.run.inputs.get(output.asset_id)
        return {
            "staging": layout.staging_directory(output.asset_id, run.id, run.attempt, try_),
            "head": asdict(head) if head else None,
            "anew": _anew(output, read, forced=self._forced),
        }

    @property
    def _forced(self) -> bool:
        """Whether a user asks for everything anew."""
        return bool(self.run.trigger.get("fullRefresh"))

    def _inputs(self, step: Step, internal: Collection[str]) -> dict[str, PinnedInput]:
        """Pins, own outputs of earlier steps, and for what the step itself makes the previous head (R1.3).

        If a user asks for everything anew, there is no previous head, as on the first run: it is about to be replaced.
        """
        made = {output.asset_id for output in step.produces}
        inputs = {}
        for item in step.consumes:
            pinned = self._own(item.asset_id) if item.asset_id in internal else self.run.inputs.get(item.asset_id)
            if pinned is not None and not (item.asset_id in made and self._forced):
                inputs[item.asset_id] = pinned
        return inputs

    def _own(self, asset_id: str) -> PinnedInput | None:
        """What an earlier step of this run has staged, by its number to come; if it appended, with the head's rows."""
        output, head = self.staged.get(asset_id), self.run.inputs.get(asset_id)
        if output is None:
            return None
        number = 0 if head is None or head.table_version is None else head.table_version + 1
        before = head if output.appended else None
        paths = (output.location or {}).get("paths", ())
        return PinnedInput(
            asset_id,
            0,
            output.data_version or f"run:{self.run.id}",
            output.location,
            output.payload,
            table_version=number,
            schema=output.schema,
            base_version=before.base_version if before else number,
            parts=[*(before.parts if before else ()), *((number, path) for path in paths)],
        )

    def _log(self, step_id: str, stream: str, text: str) -> None:
        self.lease.lines.append({"step_id": step_id, "stream": stream, "text": text})

    def _progress(self, step_id: str, progress: Mapping[str, Any]) -> None:
        self.lease.progress = {"step": step_id, **progress}

    def _publish(self, definition: Workflow) -> list[str]:
        located = [output.location for output in self.staged.values() if output.location]
        for location in located:
            layout.verify_staged(self.storage, location)
        if located:
            self.check_warehouse()  # files may lie in the empty place of one that has gone away
        reason = self.stop()
        if reason:
            raise StepStopped(reason)
        damaged = self._damaged_heads()
        self._persist(lambda: self.heart.flush(self.lease))  # afterwards the run is no longer ours to write to
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
        """Directories that an equal output must not keep: their files are not those that were published (ADR 0008).

        Nor if a user asks for everything anew and the files are to have other encodings (ADR 0013).
        """
        heads = [(self.run.inputs[one], output) for one, output in self.staged.items() if one in self.run.inputs]
        located = [(head.location, output.location or {}) for head, output in heads if head.location]
        return {
            old["paths"][-1]
            for old, new in located
            if layout.difference(self.storage, old) or (self._forced and old.get("parquet") != new.get("parquet"))
        }

    def _persist(self, write: Callable[[], T]) -> T:
        return persist(write, lambda: self.pause(RETRY_S))


def _position(head: PinnedInput) -> Position:
    return Position(head.data_version, head.table_version, head.base_version)


def _anew(output: Produces, read: Reading, *, forced: bool) -> bool:
    """Whether an output replaces what is there: an append when its inputs were replaced (R9.5), or if a user asks."""
    table = output.table or Table()
    return forced or (table.mode == "append" and table.on_replaced_input == "replace" and read.refresh is not None)


def persist(write: Callable[[], T], pause: Callable[[], str | None]) -> T:
    """A write that outlasts a database that is away for a moment, but not the lease: `pause` says when that is over."""
    while True:
        try:
            return write()
        except (psycopg.OperationalError, psycopg.InterfaceError, DatabaseError) as error:
            if not isinstance(error, (LostConnectionError, UnreachableError)):  # those are told once
                log.warning("database_trouble", error=str(error).strip())
            reason = pause()
            if reason:
                raise StepStopped(reason) from error


def describe(error: FreshlineError, step_id: str | None = None) -> dict[str, Any]:
    """An error as a run stores and shows it."""
    told = {
        "code": error.code,
        "message": str(error),
        "step": step_id,
        "traceback": getattr(error, "traceback", "") or None,
    }
    return {**told, "checks": told_checks(error.checks)} if isinstance(error, CheckError) else told


def _whereabouts(error: CheckError, storage: Storage, hours: int) -> str | None:
    """Where the data is that failed a check, and for how long."""
    if error.staged is None:
        return None
    if hours == 0:
        return "the data was removed; FRESHLINE_KEEP_FAILED_HOURS would keep it"
    return f"the data is in {storage.at(error.staged)} for {hours} h"


def clean_up(storage: Storage, run_id: str, outputs: list[str], keep: set[str]) -> None:
    """Remove what the run staged and did not publish, of all attempts; the vacuum finds what is left."""
    try:
        found = [f"{data}/{name}" for data in map(layout.data_directory, outputs) for name in storage.children(data)]
    except OSError as error:
        log.warning("leftovers_unknown", run=run_id, error=str(error))
        return
    for directory in found:
        if directory.rpartition("/")[2].startswith(f"{run_id}-") and directory not in keep:
            storage.clear(directory)
