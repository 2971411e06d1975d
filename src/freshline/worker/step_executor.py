"""Executes one step inside the runner: finds the job, calls it, and turns what it returns into staged outputs."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from freshline.definitions.decorators import AssetFunction
from freshline.definitions.names import suggestion
from freshline.definitions.schema.workflow import Python, SparkPython, SparkSql, Step
from freshline.errors import FreshlineError, JobError
from freshline.model.run import PinnedInput, StagedOutput
from freshline.storage.base import storage_at
from freshline.worker.context import Context
from freshline.worker.failures import OURS, user_error
from freshline.worker.job_result import check_complete, check_declared, is_report, reports, tables
from freshline.worker.progress_reporter import Voice
from freshline.worker.protocol import StepRequest, StepResult

if TYPE_CHECKING:
    from freshline.spark.engine import Engine, Wishes


@dataclass(frozen=True, slots=True)
class Work:
    """One step to execute. `interruptible` surrounds user code; `say` tells the supervisor.

    `ask` has the supervisor look up another version of an input.
    """

    request: StepRequest
    step: Step
    engine: Engine | None
    say: Voice
    ask: Callable[[str, int], PinnedInput]
    interruptible: Callable[[], AbstractContextManager[None]] = nullcontext

    @property
    def parameters(self) -> dict[str, Any]:
        """The job's own parameters under those of the run."""
        return {**self.step.job.parameters, **self.request.parameters}

    def inputs(self) -> Iterator[tuple[str, PinnedInput | None]]:
        """The consumed assets with their pins; None for what was never produced (R1.3)."""
        for consumed in self.step.consumes:
            yield consumed.asset_id, self.request.inputs.get(consumed.asset_id)


def execute(work: Work) -> StepResult:
    """Run the step; its outputs are written and checked when this returns. It comes with numbers about itself."""
    began = time.monotonic()
    result = _execute(work)
    duration = round((time.monotonic() - began) * 1000)
    told = {"progress": work.say.last} if work.say.last else {}
    return replace(result, metrics={"durationMs": duration, **result.metrics, **told})


def _execute(work: Work) -> StepResult:
    job = work.step.job
    if isinstance(job, Python):
        return StepResult(tuple(reports(work.step, _call(work, job.entrypoint))))
    if work.engine is None:
        raise JobError(f"a {job.kind!r} step was given to a runner without Spark")
    with work.engine.step(storage_at(work.request.warehouse), work.request.outputs, work.say, _wishes(work)) as meter:
        if isinstance(job, SparkSql):
            result = _stage(work, work.engine, _queries(work, work.engine, job))
        else:
            result = _python_on_spark(work, work.engine, job)
        return replace(result, metrics={**meter.metrics(), **result.metrics})


def _wishes(work: Work) -> Wishes:
    from freshline.spark.engine import Wishes  # noqa: PLC0415 - a runner without Spark must never load it

    request = work.request
    return Wishes(request.conf, isinstance(work.step.job, SparkPython), request.session, request.orphans)


def _python_on_spark(work: Work, engine: Engine, job: SparkPython) -> StepResult:
    returned = _call(work, job.entrypoint)
    if is_report(returned):
        return StepResult(tuple(reports(work.step, returned)))
    return _stage(work, engine, tables(work.step, returned, engine.is_table))


def _queries(work: Work, engine: Engine, job: SparkSql) -> dict[str, Any]:
    engine.create_views(work.step, work.request.inputs)
    queries = job.queries(work.step)
    check_declared(work.step, queries)
    return {asset: engine.query(asset, query, work.parameters, work.request.inputs) for asset, query in queries.items()}


def _stage(work: Work, engine: Engine, written: Mapping[str, Any]) -> StepResult:
    produced = {p.asset_id: p for p in work.step.produces}
    check_complete(work.step, written)
    staged = [engine.stage(produced[asset], work.step.id, table) for asset, table in written.items()]
    volumes = [_written(work, output) for output in staged]
    told = {"rowsOut": sum(rows for rows, _ in volumes), "bytesOut": sum(size for _, size in volumes)}
    return StepResult(tuple(staged), told)


def _written(work: Work, output: StagedOutput) -> tuple[int, int]:
    """Rows and bytes that the step wrote: an output that was appended also counts those that were there."""
    head = (work.request.outputs[output.asset_id]["head"] or {}) if output.appended else {}
    return (output.rows or 0) - (head.get("rows") or 0), (output.bytes or 0) - (head.get("bytes") or 0)


def _call(work: Work, entrypoint: str) -> Any:
    """Call the user's function. Everything that it raises becomes one JobError that shows the user's own lines."""
    try:
        with work.interruptible():
            function = _function(entrypoint)
            arguments, named = _arguments(work, function)
            return function(*arguments, **named)
    except JobError as error:
        raise _located(error) from None
    except FreshlineError:
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - user code may raise anything
        raise user_error(error, work.engine.explain(error) if work.engine else None) from None
    finally:
        if work.engine:
            work.say.returned()


def _located(error: JobError) -> JobError:
    """What `ctx` has to say to the user, with the user's own lines; as it is if there are none."""
    if error.code != JobError.code or not _end_at_user(error.__traceback__):
        return error
    told = user_error(error, error.message)
    told.hint = error.hint
    return told


def _end_at_user(trace: TracebackType | None) -> bool:
    """Cut our own frames from the end of a traceback. False: there are no others."""
    last = None
    while trace is not None:
        last = last if trace.tb_frame.f_code.co_filename.startswith(OURS) else trace
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None
    return last is not None


def _function(entrypoint: str) -> Callable[..., Any]:
    module_name, _, name = entrypoint.partition(":")
    module = importlib.import_module(module_name)
    function = getattr(module, name, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise JobError(
            f"entry point {entrypoint!r}: module {module_name} has no function {name!r}{suggestion(name, known)}"
        )
    return function  # type: ignore[no-any-return]  # callable() narrows to Callable[..., object]


def _arguments(work: Work, function: Callable[..., Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    context = Context(
        run_id=work.request.run_id,
        attempt=work.request.attempt,
        partition_key=work.request.partition_key,
        parameters=work.parameters,
        inputs={asset: pinned for asset, pinned in work.inputs() if pinned},
        full_refresh=work.request.full_refresh,
        tables=work.engine,
        say=work.say,
        ask=work.ask,
    )
    declared = getattr(function, "__freshline__", None)
    if not isinstance(declared, AssetFunction):
        return (context,), {}
    return (), declared.arguments(work.step, work.parameters, partial(_argument, work, context), context)


def _argument(work: Work, context: Context, asset: str) -> Any:
    """What a parameter under `@asset` gets: a DataFrame, an `Input` without Spark, None if there is nothing yet."""
    found = context.inputs.get(asset)
    if found is None or work.engine is None:
        return found
    new = any(item.rows == "new" for item in work.step.consumes if item.asset_id == asset)
    return context.new(asset) if new else found.df()
