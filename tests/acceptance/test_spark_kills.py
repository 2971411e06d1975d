"""kill -9 at random points of a write of some seconds, while a reader reads the table all the time."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

from tests.acceptance.deployment import Deployment
from tests.acceptance.test_spark import spark_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.full]
KILLS = int(os.environ.get("FRESHLINE_KILLS", "5"))  # each costs about half a minute: Spark has to start again
ROWS = 20_000_000
JOB = f"""
def work(ctx):
    version = ctx.inputs["tick"].version
    return ctx.spark.range(0, {ROWS}, 1, 16).selectExpr("id", "hash(id) AS h", "{{}} AS v".format(version))
"""
FLOW = """
slug: big
backoff: {baseMs: 200, maxMs: 200, budget: 1000}
steps:
  - id: work
    job: {kind: spark.python, entrypoint: "big:work"}
    retry: {maxAttempts: 1}
    consumes: [{assetId: tick}]
    produces: [{assetId: big, autoMaterialize: {onUpstreamUpdate: true}, table: {keepVersions: 2, keep: 10m}}]
"""


class Reader(threading.Thread):
    """Reads the table through its Delta log, again and again; what it saw, and what went wrong."""

    def __init__(self, table: Path) -> None:
        super().__init__(daemon=True)
        self.table = table
        self.over = threading.Event()
        self.seen: list[int] = []
        self.reads = 0
        self.errors: list[str] = []

    def run(self) -> None:
        while not self.over.wait(0.05):
            if (self.table / "_delta_log").exists():
                self._read()

    def _read(self) -> None:
        try:
            rows = pl.scan_delta(str(self.table)).select(pl.len(), low=pl.col("v").min(), high=pl.col("v").max())
            count, low, high = rows.collect().row(0)
        except Exception as error:  # noqa: BLE001 - that is what the test is about
            self.errors.append(repr(error))
            return
        self.reads += 1
        if (count, low) != (ROWS, high):
            self.errors.append(f"{count} rows, from {low} to {high}")
        if not self.seen or self.seen[-1] != low:
            self.seen.append(low)


@pytest.mark.timeout(3000)
def test_kills_at_random_points_of_a_write(deployment: Deployment) -> None:
    """No reader error, no partial version, and every wave completes."""
    chance = random.Random(5)  # noqa: S311 - points in time
    deployment.environ["FRESHLINE_MAX_WORKER_LOSSES"] = "50"
    (deployment.root / "big.py").write_text(JOB)
    (deployment.root / "workflows" / "big.yaml").write_text(FLOW)
    deployment.apply()
    _, worker = deployment.start_all()
    table = deployment.root / ".freshline" / "warehouse" / "big"
    reader = Reader(table)
    reader.start()
    took = _write(deployment, 1)
    killed = reported = 0
    while killed < KILLS:
        deployment.cli("report", "tick")
        reported += 1
        _until_writing(deployment, table)
        _pass(chance.uniform(0, took))
        victim = chance.choice(["runner", "jvm", "worker"])
        if victim == "worker":
            deployment.kill(worker)
            worker = deployment.start("worker")
            killed += 1
        else:
            with suppress(ProcessLookupError, LookupError):  # it has just ended by itself
                runner, jvm = spark_of(worker.pid)
                os.kill(runner if victim == "runner" else jvm, signal.SIGKILL)
                killed += 1
        deployment.wait_fresh("big", timeout=300)
        print(f"{killed}: {victim}")
    head = deployment.reader.snapshot("big")["tableVersion"]
    wait_until((table / "_delta_log" / f"{head:020}.json").exists, 30, what="the log")
    wait_until(lambda: reader.seen[-1:] == [reported + 1], 60, what="the reader sees the last version")
    reader.over.set()
    reader.join()
    assert reader.errors == []
    assert reader.seen == sorted(reader.seen)
    assert reader.reads > KILLS
    versions = [one["tableVersion"] for one in deployment.reader.snapshots("big", 100) if one["changed"]]
    assert versions == list(range(reported, -1, -1)), "one version of the table for each change"
    print(f"{KILLS} kills, {reader.reads} reads, a write takes {took:.1f} s")


def _write(deployment: Deployment, version: int) -> float:
    """Publish the first version; return how long its writing took."""
    deployment.cli("report", "tick")
    _until_writing(deployment, deployment.root / ".freshline" / "warehouse" / "big")
    began = time.monotonic()
    deployment.wait_fresh("big", timeout=300)
    assert deployment.reader.snapshot("big")["version"] == version
    return time.monotonic() - began


def _until_writing(deployment: Deployment, table: Path) -> None:
    """Until the run that is running has begun to write."""

    def writes() -> bool:
        running = [one["id"] for one in deployment.runs() if one["status"] == "running"]
        return any(list((table / "data").glob(f"{run}-*")) for run in running)

    wait_until(writes, 300, every=0.01, what="Spark writes")


def _pass(seconds: float) -> None:
    """Let the write go on for so long: the point of the kill is a point in time."""
    deadline = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > deadline, seconds + 10, every=0.01, what="the moment")
