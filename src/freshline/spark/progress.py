"""The progress and the metrics of a step on Spark.

Our own JVM's status store has every stage. A Connect server has only the public progress handler: stages, tasks and
bytes read, of operations long enough to be reported. Unknown numbers are None, never 0.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Protocol

from pyspark import SparkContext
from pyspark.sql import SparkSession

PROGRESS_SECONDS = 0.5
SETTLING_S = 0.2  # at most, for Spark's listeners to process the last events
STAGES = "org.apache.spark.status.StageDataWrapper"
OVER = frozenset({"COMPLETE", "SKIPPED"})  # a stage that failed may be tried again under its number

# Our names, and the fields of a stage in Spark's REST API.
SUMS = {
    "rowsIn": "inputRecords",
    "bytesIn": "inputBytes",
    "rowsOut": "outputRecords",
    "bytesOut": "outputBytes",
    "shuffleReadBytes": "shuffleReadBytes",
    "shuffleWriteBytes": "shuffleWriteBytes",
    "memorySpilledBytes": "memoryBytesSpilled",
    "diskSpilledBytes": "diskBytesSpilled",
}
FIELDS = ("stageId", "numTasks", "numCompleteTasks", *SUMS.values())
UNKNOWN: Mapping[str, int | None] = dict.fromkeys(["stages", "tasks", *SUMS])
ALWAYS = ("done", "total", "stages")

Stage = Mapping[str, Any]  # "status" and the values of FIELDS


class Reporter(Protocol):
    """Receives log lines and progress of a step; implemented by `freshline.worker.progress_reporter`."""

    def log(self, text: str) -> None:
        """Log one line."""

    def spark_progress(self, values: Mapping[str, int]) -> None:
        """Report the counters of a `Meter`."""


class Meter(Protocol):
    """Counts what one step does on Spark."""

    def read(self) -> dict[str, int]:
        """Return `done` of `total` tasks, running `stages` and known sums; empty if nothing is known."""

    def metrics(self) -> dict[str, int | None]:
        """Return the metrics of the step, when its work is done."""


class StageStore:
    """The status store of this process's own Spark."""

    def __init__(self, context: SparkContext) -> None:
        jvm: Any = context._jvm  # noqa: SLF001 - the status store is not public in Python
        spark: Any = context._jsc.sc()  # noqa: SLF001
        self._status = spark.statusStore()
        self._store = self._status.store()
        self._scheduler = spark.dagScheduler()
        self._stages = jvm.java.lang.Class.forName(STAGES)

    def next(self) -> int:
        """Return the number of the next stage."""
        newest = self._store.view(self._stages).index("stageId").reverse().closeableIterator()
        return newest.next().info().stageId() + 1 if newest.hasNext() else 0

    def since(self, first: int) -> list[Stage]:
        """Return the stages from this number on, in order."""
        found = self._store.view(self._stages).index("stageId").first(first).closeableIterator()
        stages = []
        while found.hasNext():
            stages.append(_fields(found.next().info()))
        return stages

    def settle(self) -> None:
        """Wait until the store has recorded the end of the last job, at most SETTLING_S."""
        last = self._scheduler.numTotalJobs() - 1
        deadline = time.monotonic() + SETTLING_S
        while last >= 0 and not self._has_ended(last) and time.monotonic() < deadline:
            time.sleep(SETTLING_S / 100)

    def _has_ended(self, job: int) -> bool:
        try:
            return bool(self._status.job(job).status().toString() != "RUNNING")
        except Exception:  # noqa: BLE001 - py4j's, for a job that the store does not have yet
            return False


def _fields(stage: Any) -> Stage:
    # One call per field is faster than one for all: an answer of many kilobytes waits 40 ms in the socket.
    return {"status": stage.status().toString(), **{name: getattr(stage, name)() for name in FIELDS}}


@lru_cache(maxsize=1)
def stage_store(context: SparkContext) -> StageStore | None:
    """Return the store of a session; None with a version of Spark whose internals differ."""
    try:
        return StageStore(context)
    except Exception:  # noqa: BLE001 - py4j raises anything
        return None


class StageMeter:
    """Counts the stages of one step: all that started after this meter was created.

    A runner executes one step at a time, so stages that threads of user code started belong to it too.
    """

    def __init__(self, store: StageStore) -> None:
        self._store = store
        self._lock = threading.Lock()  # the reporting thread reads while the step reads its metrics
        self._finished: Counter[str] = Counter()
        self._first = store.next()

    def _window(self) -> list[Stage]:
        """Return the stages from the first one that was running at the last read; those before are already added up."""
        found = self._store.since(self._first)
        while found and found[0]["status"] in OVER:
            self._finished += _numbers(found[0])
            self._first = found.pop(0)["stageId"] + 1
        return found

    def _sums(self) -> Counter[str]:
        with self._lock:
            open_stages = self._window()
            return sum(map(_numbers, open_stages), Counter(self._finished))

    def read(self) -> dict[str, int]:
        """See `Meter.read`."""
        return _progress(self._sums())

    def metrics(self) -> dict[str, int | None]:
        """See `Meter.metrics`."""
        try:
            self._store.settle()
            sums = self._sums()
        except Exception:  # noqa: BLE001 - a Spark that does not answer costs the metrics, not the step
            return dict(UNKNOWN)
        return {"stages": sums["ran"], "tasks": sums["done"], **{name: sums[name] for name in SUMS}}


def _progress(sums: Counter[str]) -> dict[str, int]:
    if not sums["total"]:
        return {}
    return {name: sums[name] for name in ALWAYS} | {name: sums[name] for name in SUMS if name in sums}


def _numbers(stage: Stage) -> Counter[str]:
    """Return the counters of one stage; a skipped one adds nothing."""
    if stage["status"] == "SKIPPED":
        return Counter()
    counted = {name: stage[field] for name, field in SUMS.items()}
    running = stage["status"] == "ACTIVE"
    began = stage["status"] != "PENDING"
    tasks = {"done": stage["numCompleteTasks"], "total": stage["numTasks"]}
    return Counter({"stages": int(running), "ran": int(began), **tasks, **counted})


class HandlerMeter:
    """Counts the operations of one step that a Connect server reports; short ones are never reported."""

    def __init__(self) -> None:
        self._operations: dict[str | None, Counter[str]] = {}
        self._lock = threading.Lock()

    def __call__(self, *, stages: Iterable[Any] | None, operation_id: str | None, **_more: Any) -> None:
        """Handle one report; called by the threads that wait for an operation, possibly several times at its end."""
        if not (known := list(stages or ())):
            return
        now = Counter(
            stages=sum(not stage.done for stage in known),
            ran=len(known),
            done=sum(stage.num_completed_tasks for stage in known),
            total=sum(stage.num_tasks for stage in known),
            bytesIn=sum(stage.num_bytes_read for stage in known),
        )
        with self._lock:
            self._operations[operation_id] = now

    def _sums(self) -> Counter[str]:
        with self._lock:
            return sum(self._operations.values(), Counter())

    def read(self) -> dict[str, int]:
        """See `Meter.read`."""
        return _progress(self._sums())

    def metrics(self) -> dict[str, int | None]:
        """See `Meter.metrics`."""
        sums = self._sums()
        if not sums:
            return dict(UNKNOWN)
        return {**UNKNOWN, "stages": sums["ran"], "tasks": sums["done"], "bytesIn": sums["bytesIn"]}


@contextlib.contextmanager
def metered(session: SparkSession, reporter: Reporter, *, classic: bool) -> Iterator[Meter]:
    """Count what the body does on `session`, and report it when it changes."""
    with contextlib.ExitStack() as stack:
        meter: Meter
        if classic:
            store = stage_store(session.sparkContext)
            meter = StageMeter(store) if store else HandlerMeter()
        else:
            meter = handler = HandlerMeter()
            session.registerProgressHandler(handler)
            stack.callback(session.removeProgressHandler, handler)
        stack.enter_context(_reporting(meter, reporter))
        yield meter


@contextlib.contextmanager
def _reporting(meter: Meter, reporter: Reporter) -> Iterator[None]:
    over = threading.Event()
    thread = threading.Thread(target=_report, args=(meter, reporter, over), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _report(meter: Meter, reporter: Reporter, over: threading.Event) -> None:
    last: dict[str, int] = {}
    while not over.wait(PROGRESS_SECONDS):
        try:
            now = meter.read()
        except Exception:  # noqa: BLE001 - Spark is gone; the step itself reports it
            return
        if now != last:
            reporter.spark_progress(now)
            last = now
