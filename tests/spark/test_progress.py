"""The meters of a step: what Spark's status store and a Connect server's progress messages add up to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, cast

import pytest
from pyspark.sql import SparkSession

from freshline.spark import progress
from freshline.spark.progress import SUMS, UNKNOWN, HandlerMeter, Stage, StageMeter, StageStore, metered, stage_store
from tests.waiting import wait_until


def meter_of(spark: SparkSession) -> StageMeter:
    """Return a meter on the session's own status store."""
    store = stage_store(spark.sparkContext)
    assert store is not None, "this version of Spark looks different inside"
    return StageMeter(store)


def _is_over(seen: dict[str, int]) -> bool:
    """Return whether the last stage, with a task more than the six of the first one, is over."""
    return seen["stages"] == 0 and seen["done"] == seen["total"] > 6


class Recorder:
    """A reporter that keeps the counters."""

    def __init__(self) -> None:
        self.seen: list[dict[str, int]] = []

    def log(self, text: str) -> None:
        """Fail: a meter logs nothing."""
        raise AssertionError(text)

    def spark_progress(self, values: Mapping[str, int]) -> None:
        """Keep the counters."""
        self.seen.append(dict(values))


class Interrupted:
    """A status store whose first answer comes late: another thread reads in between, unless a lock makes it wait."""

    def __init__(self, store: StageStore, other: Callable[[], object]) -> None:
        self.store = store
        self.settle = store.settle
        self.other: threading.Thread | None = threading.Thread(target=other, daemon=True)

    def since(self, first: int) -> list[Stage]:
        """Return the stages of the moment of the call."""
        found = self.store.since(first)
        other, self.other = self.other, None
        if other is not None:
            other.start()
            other.join(0.5)
        return found


@pytest.mark.spark
class TestStages:
    """On a real session."""

    def test_rows_bytes_and_shuffle_are_counted(self, spark: SparkSession, tmp_path: Path) -> None:
        """What was read and written in this window, and nothing of what came before."""
        spark.range(0, 1000, numPartitions=4).write.parquet(str(tmp_path / "in"))
        meter = meter_of(spark)
        table = spark.read.schema("id long").parquet(str(tmp_path / "in"))
        table.selectExpr("id % 7 AS k").groupBy("k").count().write.parquet(str(tmp_path / "out"))
        found = meter.metrics()
        assert (found["rowsIn"], found["rowsOut"]) == (1000, 7)
        written = sum(file.stat().st_size for file in (tmp_path / "out").glob("*.parquet"))
        assert found["bytesOut"] == written
        assert found["bytesIn"] is not None
        assert found["bytesIn"] > 0
        assert found["shuffleWriteBytes"] == found["shuffleReadBytes"] != 0
        assert found["stages"] == 2

    def test_spill_is_counted(self, spark: SparkSession) -> None:
        """What a window put aside: rows take more room in memory than on disk, and nothing was read or shuffled."""
        small = spark.newSession()
        for limit in ("spill.threshold", "in.memory.threshold"):
            small.conf.set(f"spark.sql.windowExec.buffer.{limit}", 1_000)
        table = small.range(0, 20_000, numPartitions=1).selectExpr("count(*) OVER (PARTITION BY 1) AS n")
        meter = meter_of(spark)
        table.selectExpr("sum(n)").collect()
        found = meter.metrics()
        assert (found["memorySpilledBytes"] or 0) > (found["diskSpilledBytes"] or 0) > 0
        assert found["bytesIn"] == found["bytesOut"] == found["shuffleWriteBytes"] == found["shuffleReadBytes"] == 0

    def test_a_look_in_the_middle_changes_no_sum(self, spark: SparkSession) -> None:
        """Stages that are over are summed up once, whenever somebody looks."""
        looked, once = meter_of(spark), meter_of(spark)
        for _ in range(3):
            spark.range(0, 50, numPartitions=5).repartition(2).selectExpr("sum(id)").collect()
            assert set(progress.ALWAYS) <= looked.read().keys()
        assert looked.metrics() == once.metrics()

    def test_two_that_look_at_once_change_no_sum(self, spark: SparkSession) -> None:
        """The thread that tells the progress looks in the middle of the step's own look."""
        looked, once = meter_of(spark), meter_of(spark)
        spark.range(0, 50, numPartitions=5).repartition(2).selectExpr("sum(id)").collect()
        looked._store = cast("StageStore", Interrupted(looked._store, looked.read))
        assert looked.metrics() == once.metrics()

    def test_nothing_done_is_zero_and_nothing_to_tell(self, spark: SparkSession) -> None:
        """Here Spark is known to have done nothing."""
        meter = meter_of(spark)
        assert meter.read() == {}
        assert set(meter.metrics().values()) == {0}

    def test_a_failed_job_has_numbers_too(self, spark: SparkSession) -> None:
        """Stages that failed and were skipped do not keep the others from being counted."""
        meter = meter_of(spark)
        with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
            spark.sql("SELECT 1 / (id - id) FROM range(10)").collect()
        spark.range(0, 10, numPartitions=3).selectExpr("sum(id)").collect()
        assert (meter.metrics()["tasks"] or 0) >= 3

    def test_a_spark_that_cannot_be_asked_costs_only_the_numbers(self, spark: SparkSession) -> None:
        """None, not 0, and no error."""
        meter = meter_of(spark)
        meter._store = StageStore.__new__(StageStore)
        assert meter.metrics() == UNKNOWN

    def test_progress_is_reported_while_it_changes(self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        """Tasks done of tasks known, growing; equal values are not reported twice."""
        monkeypatch.setattr(progress, "PROGRESS_SECONDS", 0.01)
        reporter = Recorder()
        with metered(spark, reporter, classic=True):
            spark.range(0, 20_000_000, numPartitions=6).selectExpr("sum(hash(id))").collect()
            wait_until(lambda: reporter.seen and _is_over(reporter.seen[-1]), what="the last stage")
        seen = reporter.seen
        assert seen[-1]["done"] == seen[-1]["total"] > 6
        assert [one["done"] for one in seen] == sorted(one["done"] for one in seen)
        assert all(one != other for one, other in pairwise(seen))


class StageInfo(NamedTuple):
    """The fields of `pyspark.sql.connect.shell.progress.StageInfo`, whose package warns of the pandas it finds."""

    stage_id: int
    num_tasks: int
    num_completed_tasks: int
    num_bytes_read: int
    done: bool


class TestHandler:
    """What a Connect server says."""

    def test_operations_are_added_up(self) -> None:
        """Each with its latest message; the end is said more than once and counted once."""
        meter = HandlerMeter()
        meter(stages=[StageInfo(0, 4, 1, 10, done=False)], inflight_tasks=1, operation_id="a", done=False)
        assert meter.read() == {"done": 1, "total": 4, "stages": 1, "bytesIn": 10}
        for _ in range(2):
            meter(stages=[StageInfo(0, 4, 4, 40, done=True)], inflight_tasks=0, operation_id="a", done=True)
        meter(stages=[StageInfo(1, 2, 2, 5, done=True)], inflight_tasks=0, operation_id="b", done=True)
        assert meter.read() == {"done": 6, "total": 6, "stages": 0, "bytesIn": 45}
        assert meter.metrics() == {**UNKNOWN, "stages": 2, "tasks": 6, "bytesIn": 45}

    def test_what_was_never_said_is_unknown(self) -> None:
        """Short operations end before the server says anything: None, never 0."""
        meter = HandlerMeter()
        meter(stages=[], inflight_tasks=0, operation_id="a", done=True)
        meter(stages=None, inflight_tasks=0, operation_id=None, done=True)
        assert meter.read() == {}
        assert meter.metrics() == UNKNOWN == dict.fromkeys(["stages", "tasks", *SUMS])
