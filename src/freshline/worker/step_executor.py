"""Executes one step inside the runner: finds the job, calls it, and stages what it returns."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from freshline.definitions.decorators import AssetFunction
from freshline.definitions.names import PARTITION_KEY as KEY
from freshline.definitions.names import PARTITION_TIMES as OF_TIME
from freshline.definitions.retry import Failure
from freshline.definitions.schema.workflow import Python, Query, SparkPython, SparkSql, Step
from freshline.definitions.steps import view_name
from freshline.errors import FreshlineError, JobError
from freshline.model.deliveries import Deliveries, DeliveryRange, advice
from freshline.model.run import PinnedInput, StagedOutput
from freshline.storage.base import storage_at
from freshline.storage.input_files import InputFiles
from freshline.storage.real_paths import confined, confined_delivery
from freshline.suggest import suggestion
from freshline.worker.context import Context, PartitionWindow, without_data
from freshline.worker.failures import OURS, user_error
from freshline.worker.job_result import check_complete, check_declared, is_report, reported_outputs, returned_tables
from freshline.worker.progress_reporter import ProgressReporter
from freshline.worker.protocol import StepRequest, StepResult, StoreQueries

if TYPE_CHECKING:
    from freshline.spark.engine import Engine, SessionOptions


WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class StepTask:
    """One step to execute. `interruptible` surrounds user code.

    `queries`: what the step may ask the supervisor.
    """

    request: StepRequest
    step: Step
    engine: Engine | None
    reporter: ProgressReporter
    queries: StoreQueries
    interruptible: Callable[[], AbstractContextManager[None]] = nullcontext

    @cached_property
    def files(self) -> InputFiles:
        """The files of inputs that the step has read. Spark has its own clients of remote stores, and credentials."""
        return InputFiles(self.request.warehouse, remote=self.engine is None)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the job, overridden by those of the run."""
        return {**self.step.job.parameters, **self.request.parameters}

    def inputs(self) -> Iterator[tuple[str, PinnedInput | None]]:
        """Yield the consumed assets with their pins; None for an asset that was never produced."""
        for consumed in self.step.consumes:
            yield consumed.asset_id, self.request.inputs.get(consumed.asset_id)

    @property
    def window(self) -> PartitionWindow | None:
        """The time of the run's partition."""
        found = self.request.window
        return PartitionWindow(*map(datetime.fromisoformat, found)) if found else None

    @property
    def named_values(self) -> dict[str, Any]:
        """The parameters of queries: those of the job, and those of the run's partition."""
        if not self.request.partition_key:
            return self.parameters
        times = dict(zip(OF_TIME, self.window or (), strict=False))
        return {**self.parameters, KEY: self.request.partition_key, **times}

    def require_data(self, asset_id: str) -> None:
        """Raise an error if an input has partitions, and none of them has data that can be read."""
        if asset_id in self.request.empty:
            raise without_data(asset_id, self.request.partition_key)

    def find_version(self, asset_id: str, partition_key: str, version: int) -> PinnedInput:
        """Return another version of an input. Raise if a report named a path that is not allowed."""
        return confined(self.queries.version(asset_id, partition_key, version))

    def deliveries(self, pinned: PinnedInput) -> Deliveries:
        """Return the deliveries of an input. Looking at one whose path is not allowed raises."""
        return Deliveries(
            pinned.deliveries or DeliveryRange(),
            partial(self.queries.deliveries, pinned.asset_id),
            partial(confined_delivery, pinned),
        )


def execute(task: StepTask) -> StepResult:
    """Execute the step. When this returns, its outputs are written and checked."""
    began = time.monotonic()
    try:
        result = _execute(_confined(task))
    except JobError as error:
        _name_delivery(error, task)
        raise
    duration = round((time.monotonic() - began) * 1000)
    last = task.reporter.last_job_progress
    progress = {"progress": last} if last else {}
    return replace(result, metrics={"durationMs": duration, **result.metrics, **progress})


def _name_delivery(error: JobError, task: StepTask) -> None:
    """Add to the error the delivery whose file it names and how to go on without it, or which deliveries were new."""
    named, new = [], list[str]()
    for asset_id, pinned in task.request.inputs.items():
        if pinned.deliveries is not None:
            with suppress(FreshlineError):  # the first error counts
                named += [(len(path), asset_id, number) for number, path in _named(error.message, task, pinned)]
                new += _new(pinned)
    if named and not error.hint:
        _, asset_id, number = max(named)
        error.hint = advice(asset_id, number)
    elif new and not named:
        error.hint = "; ".join([*([error.hint] if error.hint else []), *new])


def _new(pinned: PinnedInput) -> list[str]:
    """Return a sentence about the deliveries that the step had not read before; none if it reads all of them again."""
    known, since = pinned.deliveries, pinned.since
    if known is None or since is None or known.index_after(since) == known.count:
        return []
    first = known.number(known.index_after(since))
    if first == known.last:
        leave_out = f"`freshline delivery skip {pinned.asset_id} {first} --reason TEXT` leaves it out"
        return [f"delivery {first} of '{pinned.asset_id}' was new to this run; {leave_out}"]
    return [f"deliveries {first} to {known.last} of '{pinned.asset_id}' were new to this run"]


def _named(text: str, task: StepTask, pinned: PinnedInput) -> list[tuple[int, str]]:
    """Return the numbers and paths of the deliveries that a text names: of the new ones, if there are any."""
    known = Deliveries(pinned.deliveries or DeliveryRange(), partial(task.queries.deliveries, pinned.asset_id))
    parts = [known.after(pinned.since)]
    parts.append(known[: len(known) - len(parts[0])])
    for part in parts:
        paths = ((one.number, path) for one in part for path in _spellings(one.path))
        if found := [(number, path) for number, path in paths if path in text]:
            return found
    return []


def _spellings(path: str | None) -> set[str]:
    """Return a path as it was reported, and without symbolic links, as Spark reads it."""
    return {path, os.path.realpath(path)} if path and path.startswith("/") else {path} if path else set()


def _confined(task: StepTask) -> StepTask:
    """Return the task with the real paths of its inputs. Raise if a report named one that is not allowed.

    Also for a job without Spark, which finds the path in the payload (docs/semantics.md#R3.1).
    """
    inputs = {asset_id: confined(pinned) for asset_id, pinned in task.request.inputs.items()}
    return replace(task, request=replace(task.request, inputs=inputs))


def _execute(task: StepTask) -> StepResult:
    job = task.step.job
    key = task.request.partition_key
    if isinstance(job, Python):
        outputs = reported_outputs(task.step, _call(task, job.entrypoint), key, task.request.batch)
        return StepResult(tuple(outputs), {"bytesIn": _bytes_in(task)})
    if task.engine is None:
        raise JobError(f"a {job.kind!r} step was given to a runner without Spark")
    storage, targets = storage_at(task.request.warehouse), task.request.outputs
    with task.engine.step(storage, targets, task.reporter, _session_options(task), task.deliveries) as meter:
        if isinstance(job, SparkSql):
            result = _sql_on_spark(task, task.engine, job)
        else:
            result = _python_on_spark(task, task.engine, job)
        return replace(result, metrics={**meter.metrics(), "bytesIn": _bytes_in(task), **result.metrics})


def _session_options(task: StepTask) -> SessionOptions:
    from freshline.spark.engine import SessionOptions  # noqa: PLC0415 - a runner without Spark must never load it

    request = task.request
    return SessionOptions(request.conf, isinstance(task.step.job, SparkPython), request.session, request.orphans)


def _python_on_spark(task: StepTask, engine: Engine, job: SparkPython) -> StepResult:
    returned = _call(task, job.entrypoint)
    if is_report(returned):
        reported = reported_outputs(task.step, returned, task.request.partition_key, task.request.batch)
        return StepResult(tuple(reported))
    return _stage(task, engine, returned_tables(task.step, returned, engine.is_table))


def _sql_on_spark(task: StepTask, engine: Engine, job: SparkSql) -> StepResult:
    from freshline.worker.input_columns import columns_read  # noqa: PLC0415 - only for runners with Spark

    for asset, _ in task.inputs():
        task.require_data(asset)
    engine.create_views(task.step, task.request.inputs)
    queries = job.queries(task.step)
    check_declared(task.step, queries)
    _count_files(task, queries.values())
    tables = {
        asset: engine.query(asset, query, task.named_values, task.request.inputs) for asset, query in queries.items()
    }
    divided = task.request.partition_key or task.request.batch
    reads = {} if divided else columns_read(task.step, engine, queries, tables)
    result = _stage(task, engine, tables)
    return replace(result, outputs=tuple(replace(one, reads=reads) for one in result.outputs))


def _count_files(task: StepTask, queries: Iterable[Query]) -> None:
    """Count the files of the inputs whose views the queries name."""
    words = {word.lower() for query in queries for word in WORD.findall(query.text)}
    for consumed in task.step.consumes:
        pinned = task.request.inputs.get(consumed.asset_id)
        if pinned is not None and view_name(consumed).lower() in words:
            task.files.add(pinned, task.deliveries, new=consumed.rows == "new")


def _bytes_in(task: StepTask) -> int | None:
    """Return the bytes of the files that the step read; None if its code may have read them by itself."""
    by_itself = not isinstance(task.step.job, SparkSql) and any(one and one.location for _, one in task.inputs())
    return None if by_itself and task.files.empty else task.files.bytes()


def _stage(task: StepTask, engine: Engine, written: Mapping[str, Any]) -> StepResult:
    produced = {p.asset_id: p for p in task.step.produces}
    check_complete(task.step, written)
    staged = [one for asset, table in written.items() for one in engine.stage(produced[asset], task.step.id, table)]
    volumes = [_written(task, output) for output in staged]
    metrics = {"rowsOut": sum(rows for rows, _ in volumes), "bytesOut": sum(size for _, size in volumes)}
    return StepResult(tuple(staged), metrics)


def _written(task: StepTask, output: StagedOutput) -> tuple[int, int]:
    """Return the rows and bytes that the step wrote: an appended output also counts those of the head."""
    rows, size = output.rows or 0, output.bytes or 0
    head = task.request.outputs[output.asset_id].head if output.appended else None
    return (rows - (head.rows or 0), size - (head.bytes or 0)) if head else (rows, size)


def _call(task: StepTask, entrypoint: str) -> Any:
    """Call the user's function. Convert everything that it raises into one JobError that shows the user's own lines."""
    try:
        with task.interruptible():
            function = entry_function(entrypoint)
            context = _context(task)
            with contextlib.closing(context):
                arguments, named = _arguments(task, function, context)
                return function(*arguments, **named)
    except JobError as error:
        raise _located(error) from None
    except FreshlineError:
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - user code may raise anything
        if task.engine is None:
            raise user_error(error, None, _unreadable) from None
        engine = task.engine
        raise user_error(error, engine.explain(error), engine.unreadable, engine.classify) from None
    finally:
        if task.engine:
            task.reporter.job_returned()


def _unreadable(error: BaseException) -> str | None:
    """Return what replaces the text of an error of DuckDB, which quotes the file that it could not read."""
    if "duckdb" not in sys.modules:
        return None
    from freshline.worker.table_reader import concealed  # noqa: PLC0415 - it imports DuckDB

    return concealed(error)


def _located(error: JobError) -> JobError:
    """Return an error that `ctx` raised with the user's own lines added; unchanged if there are none."""
    if error.code != JobError.code or not _end_at_user(error.__traceback__):
        return error
    located = user_error(error, error.message, classify=lambda _: Failure(error.raised, error.permanent))
    located.hint = error.hint
    return located


def _end_at_user(trace: TracebackType | None) -> bool:
    """Cut our own frames from the end of a traceback; return False if there are no others."""
    last = None
    while trace is not None:
        last = last if trace.tb_frame.f_code.co_filename.startswith(OURS) else trace
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None
    return last is not None


def entry_function(entrypoint: str) -> Callable[..., Any]:
    """Import the function of an entry point. Raise `JobError` if the module has no such function."""
    module_name, _, name = entrypoint.partition(":")
    module = importlib.import_module(module_name)
    function = getattr(module, name, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise JobError(
            f"entry point {entrypoint!r}: module {module_name} has no function {name!r}{suggestion(name, known)}"
        )
    return function  # type: ignore[no-any-return]  # callable() narrows to Callable[..., object]


def _context(task: StepTask) -> Context:
    return Context(
        run_id=task.request.run_id,
        attempt=task.request.attempt,
        partition_keys=task.request.batch or ((task.request.partition_key,) if task.request.partition_key else ()),
        window=task.window,
        gaps=task.request.gaps,
        parameters=task.parameters,
        inputs={asset: pinned for asset, pinned in task.inputs() if pinned},
        empty=task.request.empty,
        full_refresh=task.request.full_refresh,
        tables=task.engine,
        warehouse=task.request.warehouse,
        reporter=task.reporter,
        find_version=task.find_version,
        deliveries=task.deliveries,
        files=task.files,
    )


def _arguments(
    task: StepTask, function: Callable[..., Any], context: Context
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    declared = getattr(function, "__freshline__", None)
    if not isinstance(declared, AssetFunction):
        return (context,), {}
    return (), declared.arguments(task.step, task.parameters, partial(_argument, task, context), context)


def _argument(task: StepTask, context: Context, asset: str) -> Any:
    """Return the argument for an input of an `@asset` function: a DataFrame, an `Input` without Spark, or None."""
    task.require_data(asset)
    found = context.inputs.get(asset)
    if found is None or task.engine is None:
        return found
    new = any(item.rows == "new" for item in task.step.consumes if item.asset_id == asset)
    return context.new(asset) if new else found.df()
