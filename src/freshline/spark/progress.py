"""How far a step is on Spark: told while it runs, and as numbers when it is over.

In a session of our own Spark's status store knows every stage. Over Connect only the public progress handler speaks:
stages, tasks and bytes read, of operations long enough to be reported. What is not known is None, never 0.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Protocol

from pyspark import SparkContext
from pyspark.sql import SparkSession

PROGRESS_SECONDS = 0.5
SETTLING_S = 0.2  # at most, for Spark's listeners to hear of what has ended
STAGES = "org.apache.spark.status.StageDataWrapper"
OVER = frozenset({"COMPLETE", "SKIPPED"})  # a stage that failed may be tried again under its number

# Our names, and those of a stage in Spark's REST API.
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

Say = Callable[[dict[str, Any]], None]


class Meter(Protocol):
    """Counts what one step does on Spark."""

    def look(self) -> dict[str, int]:
        """`done` of `total` tasks so far, `stages` that are running, sums that are known; empty if nothing is."""

    def metrics(self) -> dict[str, int | None]:
        """The numbers of the step, when its work is done."""


class StageStore:
    """The status store of this process's own Spark."""

    def __init__(self, context: SparkContext) -> None:
        jvm: Any = context._jvm  # noqa: SLF001 - the status store has no public way from Python
        spark: Any = context._jsc.sc()  # noqa: SLF001
        self._status = spark.statusStore()
        self._store = self._status.store()
        self._scheduler = spark.dagScheduler()
        self._stages = jvm.java.lang.Class.forName(STAGES)

    def next(self) -> int:
        """The number that no stage has yet."""
        newest = self._store.view(self._stages).index("stageId").reverse().closeableIterator()
        return newest.next().info().stageId() + 1 if newest.hasNext() else 0

    def since(self, first: int) -> list[dict[str, Any]]:
        """The stages from this number on, in order, with the fields that count."""
        found = self._store.view(self._stages).index("stageId").first(first).closeableIterator()
        stages = []
        while found.hasNext():
            stages.append(_fields(found.next().info()))
        return stages

    def settle(self) -> None:
        """Return when the store has heard of the end of the last job, or will not any time soon."""
        last = self._scheduler.numTotalJobs() - 1
        deadline = time.monotonic() + SETTLING_S
        while last >= 0 and not self._has_ended(last) and time.monotonic() < deadline:
            time.sleep(SETTLING_S / 100)

    def _has_ended(self, job: int) -> bool:
        try:
            return bool(self._status.job(job).status().toString() != "RUNNING")
        except Exception:  # noqa: BLE001 - py4j's, for a job that the store has not heard of
            return False


def _fields(stage: Any) -> dict[str, Any]:
    # A call for each is quicker than one for all: an answer of many kilobytes waits 40 ms in the socket.
    return {"status": stage.status().toString(), **{name: getattr(stage, name)() for name in FIELDS}}


@lru_cache(maxsize=1)
def stage_store(context: SparkContext) -> StageStore | None:
    """The store of a session; None with a version of Spark that looks different inside."""
    try:
        return StageStore(context)
    except Exception:  # noqa: BLE001 - py4j raises what it likes
        return None


class StageMeter:
    """The stages of one step: all that came since it was made.

    A runner executes one step at a time, so they are its stages, also those that threads of user code started.
    """

    def __init__(self, store: StageStore) -> None:
        self._store = store
        self._lock = threading.Lock()  # who tells the progress looks while the step asks for its numbers
        self._finished: Counter[str] = Counter()
        self._first = store.next()

    def _window(self) -> list[dict[str, Any]]:
        """The stages since the first that was not over at the last look. Those before are summed up already."""
        found = self._store.since(self._first)
        while found and found[0]["status"] in OVER:
            self._finished += _numbers(found[0])
            self._first = found.pop(0)["stageId"] + 1
        return found

    def _sums(self) -> Counter[str]:
        with self._lock:
            open_stages = self._window()
            return sum(map(_numbers, open_stages), Counter(self._finished))

    def look(self) -> dict[str, int]:
        """See `Meter.look`."""
        return _seen(self._sums())

    def metrics(self) -> dict[str, int | None]:
        """See `Meter.metrics`."""
        try:
            self._store.settle()
            sums = self._sums()
        except Exception:  # noqa: BLE001 - a Spark that can no longer be asked costs the numbers, not the step
            return dict(UNKNOWN)
        return {"stages": sums["ran"], "tasks": sums["done"], **{name: sums[name] for name in SUMS}}


def _seen(sums: Counter[str]) -> dict[str, int]:
    if not sums["total"]:
        return {}
    return {name: sums[name] for name in ALWAYS} | {name: sums[name] for name in SUMS if name in sums}


def _numbers(stage: Mapping[str, Any]) -> Counter[str]:
    """What one stage adds; one that was skipped adds nothing."""
    if stage["status"] == "SKIPPED":
        return Counter()
    counted = {name: stage[field] for name, field in SUMS.items()}
    running = stage["status"] == "ACTIVE"
    began = stage["status"] != "PENDING"
    tasks = {"done": stage["numCompleteTasks"], "total": stage["numTasks"]}
    return Counter({"stages": int(running), "ran": int(began), **tasks, **counted})


class HandlerMeter:
    """What a Connect server tells about the operations of one step; short ones end before it says anything."""

    def __init__(self) -> None:
        self._operations: dict[str | None, Counter[str]] = {}
        self._lock = threading.Lock()

    def __call__(self, *, stages: Iterable[Any] | None, operation_id: str | None, **_more: Any) -> None:
        """The progress handler; called by the threads that wait for an operation, also more than once at its end."""
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

    def look(self) -> dict[str, int]:
        """See `Meter.look`."""
        return _seen(self._sums())

    def metrics(self) -> dict[str, int | None]:
        """See `Meter.metrics`."""
        sums = self._sums()
        if not sums:
            return dict(UNKNOWN)
        return {**UNKNOWN, "stages": sums["ran"], "tasks": sums["done"], "bytesIn": sums["bytesIn"]}


@contextlib.contextmanager
def metered(session: SparkSession, say: Say, *, classic: bool) -> Iterator[Meter]:
    """Count what happens inside on `session`, and tell it with `say` when it changes."""
    with contextlib.ExitStack() as stack:
        meter: Meter
        if classic:
            store = stage_store(session.sparkContext)
            meter = StageMeter(store) if store else HandlerMeter()
        else:
            meter = handler = HandlerMeter()
            session.registerProgressHandler(handler)
            stack.callback(session.removeProgressHandler, handler)
        stack.enter_context(_told(meter, say))
        yield meter


@contextlib.contextmanager
def _told(meter: Meter, say: Say) -> Iterator[None]:
    over = threading.Event()
    teller = threading.Thread(target=_tell, args=(meter, say, over), name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def _tell(meter: Meter, say: Say, over: threading.Event) -> None:
    last: dict[str, int] = {}
    while not over.wait(PROGRESS_SECONDS):
        try:
            now = meter.look()
        except Exception:  # noqa: BLE001 - Spark is gone; the step itself will say so
            return
        if now != last:
            say({"type": "progress", "progress": {"spark": now}})
            last = now
