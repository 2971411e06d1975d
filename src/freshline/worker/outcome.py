"""How an attempt of a run ends: one outcome per result or exception, and the writes that belong to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from freshline.definitions.schema.workflow import Workflow
from freshline.definitions.steps import produced
from freshline.errors import CheckError, EngineError, EngineLostError, FencedError, FreshlineError, WarehouseError
from freshline.model.run import ClaimedRun
from freshline.storage.base import StorageError
from freshline.worker.execution import RETRY_S, clean_up, describe, persist
from freshline.worker.lease import Lease
from freshline.worker.step_errors import StepStopped

if TYPE_CHECKING:
    from freshline.worker.worker import Worker

log = structlog.get_logger("freshline.runs")


@dataclass(frozen=True, slots=True)
class Succeeded:
    """All outputs were published."""

    assets: Sequence[str]


@dataclass(frozen=True, slots=True)
class Failed:
    """The run failed, and counts as a failure of its workflow."""

    error: FreshlineError
    step: str | None = None


@dataclass(frozen=True, slots=True)
class Canceled:
    """A user canceled the run."""


@dataclass(frozen=True, slots=True)
class HandedBack:
    """The run is queued again. `crashed`: it counts towards FRESHLINE_MAX_WORKER_LOSSES.

    `engine_error`: why this worker cannot use Spark or the warehouse, if that is the reason.
    """

    crashed: bool = False
    engine_error: FreshlineError | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """Another attempt may own the run: nothing is written."""


Outcome = Succeeded | Failed | Canceled | HandedBack | Lost

_STOPPED: Mapping[str, Outcome] = {"canceled": Canceled(), "shutdown": HandedBack()}


def outcome_of(
    error: Exception,
    run: ClaimedRun,
    step_id: str | None,
    warehouse_error: Callable[[], WarehouseError | None],
) -> Outcome:
    """Return the outcome of a run that ended with `error`.

    A loss of Spark or of the warehouse is not a failure of the workflow (docs/semantics.md#R7.1): the run is queued
    again. `warehouse_error` probes the warehouse; it is called only if the error can be due to its loss.
    """
    match error:
        case FencedError():
            log.warning("run_fenced", error=error.message)
            return Lost()
        case StepStopped():
            log.info("run_stopped", reason=error.reason)
            return _STOPPED.get(error.reason, Lost())
        case EngineError():
            return HandedBack(crashed=isinstance(error, EngineLostError), engine_error=error)
        case FreshlineError():
            failure = error
        case _:
            log.error("run_broke", exc_info=error)
            failure = FreshlineError(f"Freshline itself failed: {type(error).__name__}: {error}")
    lost = _lost_warehouse(failure, run, step_id, warehouse_error)
    if lost is None:
        return Failed(failure, step_id)
    log.warning("warehouse_lost", error=failure.message)
    return HandedBack(crashed=True, engine_error=lost)


def _lost_warehouse(
    error: FreshlineError,
    run: ClaimedRun,
    step_id: str | None,
    warehouse_error: Callable[[], WarehouseError | None],
) -> FreshlineError | None:
    if isinstance(error, StorageError):  # no probe: the store may answer again by now
        return error
    return warehouse_error() if _needs_warehouse(error, run, step_id) else None


def _needs_warehouse(error: FreshlineError, run: ClaimedRun, step_id: str | None) -> bool:
    """Return whether a lost warehouse can be the cause: `python` steps do not use it, and a check has just used it."""
    spark = any(
        step.id == step_id and step.job.kind != "python" for step in Workflow.model_validate(run.definition).steps
    )
    return isinstance(error, WarehouseError) or (spark and not isinstance(error, CheckError))


class OutcomeWriter:
    """Writes outcomes to the store, and removes the files of runs that this worker ended."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._store = worker.store

    def write(self, lease: Lease, outcome: Outcome) -> None:
        """Write one outcome."""
        run = lease.run
        match outcome:
            case Succeeded(assets):
                self._succeeded(lease, assets)
            case Failed(error, step):
                log.warning("run_failed", code=error.code, error=error.message)
                self._flush(lease)
                failure = describe(error, step)
                if self._finish(lease, lambda: self._store.runs.fail(run.id, run.attempt, failure)):
                    self._clean_up(run, self._kept_for_inspection(error))
            case Canceled():
                self._flush(lease)
                if self._finish(lease, lambda: self._store.runs.cancel(run.id, run.attempt)):
                    self._clean_up(run, set())
            case HandedBack(crashed):
                self._finish(lease, lambda: self._store.runs.hand_back(run.id, run.attempt, crashed=crashed))
            case Lost():
                pass

    def _succeeded(self, lease: Lease, assets: Sequence[str]) -> None:
        """Announce a run whose publication is already committed."""
        lease.over = True
        self._store.database.notify("events", "timers")  # first: runs downstream wait for it
        log.info("run_succeeded", assets=assets)
        locations = self._store.runs.locations(lease.run.id)
        self._clean_up(lease.run, {path for one in locations for path in one.get("paths", ())})

    def _kept_for_inspection(self, error: FreshlineError) -> set[str]:
        """Return the directory of data that failed a check, which is kept for a while."""
        if not isinstance(error, CheckError) or error.staged is None or self._worker.settings.keep_failed_hours == 0:
            return set()
        return {error.staged}

    def _flush(self, lease: Lease) -> None:
        self._try_write(lease, lambda: self._worker.leases.flush(lease))

    def _finish(self, lease: Lease, write: Callable[[], None]) -> bool:
        """Write the end of the run; return whether the run was still held."""
        lease.over = self._try_write(lease, write)
        if lease.over:
            self._store.database.notify("events")
        return lease.over

    def _try_write(self, lease: Lease, write: Callable[[], None]) -> bool:
        """Write while the lease is held, across outages of the database; return False if the run is no longer held.

        The files of a lost run must not be removed either: another attempt may be using them.
        """
        try:
            persist(write, lambda: self._wait(lease))
        except FencedError as error:
            log.warning("run_fenced", error=error.message)
        except StepStopped:
            log.warning("run_left", reason="the database stayed away until the lease ended")
        else:
            return True
        return False

    def _wait(self, lease: Lease) -> str | None:
        threading.Event().wait(RETRY_S)
        return "lease-lost" if lease.stop_reason() == "lease-lost" else None

    def _clean_up(self, run: ClaimedRun, keep: set[str]) -> None:
        outputs = list(produced(Workflow.model_validate(run.definition)))
        clean_up(self._worker.storage, run, outputs, keep)
