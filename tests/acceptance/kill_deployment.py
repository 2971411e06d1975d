"""A deployment whose writes are held at every phase, so that a process can be killed there.

What is written is overwritten in one step and appended to in the next; a consumer of `rows: new` follows.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from tests.acceptance.deployment import Deployment
from tests.acceptance.test_spark import spark_of
from tests.waiting import wait_until

ROWS = 1000
# The job lives in the runner: it holds the phases in there itself, where and as long as a file asks for it.
JOB = f'''
import pathlib, time
from contextlib import ExitStack
from functools import partial

from freshline import failpoints
from pyspark.sql import functions as F

HERE = pathlib.Path.cwd()  # not __file__: Spark's Python processes import from the copy of the code
armed = ExitStack()


def hold(phase):
    wish = HERE / f"{{phase}}.hold"
    if wish.exists():
        (HERE / f"{{phase}}.reached").touch()
        while wish.exists():
            time.sleep(0.01)


def passed(phase, row):
    """Held in the last row of all, when most of the tasks are done."""
    if row == {ROWS - 1}:
        hold(phase)
    return True


steps = []
armed.enter_context(failpoints.armed("stage:written", lambda: hold(steps[-1] + "written")))


def held(ctx, step, rows, version):
    """The rows of a step, whose phases are named after it."""
    steps.append(step)
    ctx.spark.udf.register("checked", partial(passed, step + "checking"), "boolean")
    written = F.udf(partial(passed, step + "writing"), "boolean")
    return rows.select("id", version.alias("v"), written("id").alias("w"))


def work(ctx):
    return held(ctx, "", ctx.spark.range(0, {ROWS}, 1, 4), F.lit(ctx.inputs["tick"].version))


def keep(ctx):
    return held(ctx, "append-", ctx.inputs["big"].df(), F.col("v"))
'''
FLOW = """
slug: big
backoff: {baseMs: 200, maxMs: 200}
steps:
  - id: work
    job: {kind: spark.python, entrypoint: "big:work"}
    retry: {maxAttempts: 3, backoffMs: 100}
    consumes: [{assetId: tick}]
    produces:
      - assetId: big
        autoMaterialize: {onUpstreamUpdate: true}
        checks: [{minRows: 1000}, {sql: checked(id)}]
  - id: keep
    job: {kind: spark.python, entrypoint: "big:keep"}
    retry: {maxAttempts: 3, backoffMs: 100}
    consumes: [{assetId: big}]
    produces:
      - assetId: kept
        table: {mode: append, onReplacedInput: append}
        checks: [{sql: checked(id)}]
---
slug: counted
backoff: {baseMs: 200, maxMs: 200}
steps:
  - id: count
    job: {kind: spark.sql, sql: "SELECT id, v FROM kept"}
    consumes: [{assetId: kept, rows: new}]
    produces: [{assetId: counted, table: {mode: append}, autoMaterialize: {onUpstreamUpdate: true}}]
"""
OVERWRITE = ("writing", "written", "checking")
APPEND = ("append-writing", "append-written", "append-checking")
INSIDE = (*OVERWRITE, *APPEND)
# Phases of the worker, which a failpoint stops at its transaction.
AFTERWARDS = {"finished": "finish_step:after", "publishing": "publish_run:before", "published": "publish_run:after"}
ASSETS = ("big", "kept", "counted", "after")


class KillTarget:
    """One deployment for all cases, as Spark starts slowly; `worker` is the one that lives."""

    def __init__(self, deployment: Deployment, warehouse: Path) -> None:
        self.deployment = deployment
        self.warehouse = warehouse
        self.worker: subprocess.Popen[bytes] = deployment.start("worker")
        self._failpoints = ""

    def prepare(self, failpoints: str) -> None:
        """Ensure a worker with these failpoints and a warm Spark."""
        if failpoints != self._failpoints or self.worker.poll() is not None:
            self.deployment.kill(self.worker)
            self.start(failpoints)
        wait_until(self._warm, 120, every=0.1, what="a warm runner")

    def start(self, failpoints: str = "") -> None:
        self._failpoints = failpoints
        self.worker = self.deployment.start("worker", FRESHLINE_FAILPOINTS=failpoints)

    def _warm(self) -> bool:
        try:
            return bool(spark_of(self.worker.pid))
        except LookupError:
            return False

    def stopped(self) -> bool:
        """Whether the worker stands still at a failpoint."""
        return Path(f"/proc/{self.worker.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def kill(self, victim: str) -> None:
        """kill -9; a worker is replaced by one that has no failpoints."""
        runner, jvm = spark_of(self.worker.pid)
        if victim == "worker":
            self.deployment.kill(self.worker)
        else:
            os.kill(runner if victim == "runner" else jvm, signal.SIGKILL)
        if victim != "jvm":  # it never outlives those that it works for
            wait_until(lambda: not alive(jvm), 30, what="the end of the JVM")

    def fresh(self) -> bool:
        """Whether the wave is complete; a worker that stands still at a failpoint goes on."""
        if self.stopped():
            self.worker.send_signal(signal.SIGCONT)
        states = self.deployment.states()
        return all(states[one] == "fresh" for one in ASSETS)

    def head(self, asset: str = "big") -> Any:
        return self.deployment.reader.snapshot(asset)

    def is_tidy(self, asset: str) -> bool:
        """Whether there are directories of what was published, and no others."""
        snapshots: list[Any] = self.deployment.reader.snapshots(asset, 100)
        paths = [path for one in snapshots for path in one["location"]["paths"]]
        there = {path for path in (self.warehouse / asset / "data").iterdir() if self._counts(path)}
        return there == {self.warehouse / path for path in paths}

    def _counts(self, path: Path) -> bool:
        """Return whether a directory counts. A bucket has none: one without a file exists only on our disk."""
        return "AWS_ENDPOINT_URL" not in self.deployment.environ or any(one.is_file() for one in path.rglob("*"))

    def is_whole(self, snapshot: dict[str, Any]) -> bool:
        """All rows, of one version of the input, read from the directory of the snapshot."""
        (path,) = snapshot["location"]["paths"]
        rows = pl.read_parquet(self.warehouse / path / "*.parquet")
        return sorted(rows["id"]) == list(range(ROWS)) and rows["v"].n_unique() == 1

    def each_once(self, asset: str) -> bool:
        """Every row of every change so far, exactly once, in the table that is appended to."""
        parts = [self.warehouse / path for _, path in self.head(asset)["parts"]]
        rows = pl.concat([pl.read_parquet(part / "*.parquet", columns=["v", "id"]) for part in parts])
        changes = range(1, self.head("tick")["version"] + 1)
        return sorted(rows.rows()) == list(product(changes, range(ROWS)))


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def prepared(deployment: Deployment, warehouse: Path) -> Iterator[KillTarget]:
    """Publish a first version, and wait until everything is fresh."""
    deployment.environ |= {"FRESHLINE_MAX_WORKER_LOSSES": "50", "FRESHLINE_LEASE_MS": "3000"}
    (deployment.root / "big.py").write_text(JOB)
    (deployment.root / "workflows" / "big.yaml").write_text(FLOW)
    deployment.workflow("after", "big")
    deployment.apply()
    try:
        deployment.start("materializer")
        target = KillTarget(deployment, warehouse)
        deployment.cli("report", "tick")
        deployment.wait_fresh(*ASSETS, timeout=180)
        yield target
    finally:
        deployment.stop_all()


def survives(target: KillTarget, phase: str, victim: str) -> None:
    """Nothing partial is published, the previous version stays readable, the same run completes, leftovers go.

    What is appended, and what a consumer reads of it as new, has every row exactly once over all kills.
    """
    target.prepare(f"{AFTERWARDS[phase]}=stop" if phase in AFTERWARDS else "")
    before = target.head()
    reach(target, phase)
    target.kill(victim)
    assert target.head()["version"] == target.head("kept")["version"] == before["version"] + (phase == "published")
    assert target.is_whole(before)
    let_go(target, phase, victim)
    wait_until(target.fresh, 180, every=0.1, what="the wave completes")
    now = target.head()
    versions = {target.head(asset)["version"] for asset in ASSETS}
    assert versions == {before["version"] + 1}, "one version for one change, whatever was killed"
    assert target.is_whole(now)
    assert target.is_whole(before)
    for asset in ("kept", "counted"):
        assert target.each_once(asset)
    has_one_run(target, now["runId"], phase, victim)
    for asset in ("big", "kept", "counted"):
        wait_until(partial(target.is_tidy, asset), 30, what=f"no directory of a dead try of {asset} is left")


def reach(target: KillTarget, phase: str) -> None:
    """Report a change, and wait until its run is held at the phase."""
    root = target.deployment.root
    if phase in INSIDE:
        (root / f"{phase}.hold").touch()
    target.deployment.cli("report", "tick")
    reached = target.stopped if phase in AFTERWARDS else (root / f"{phase}.reached").exists
    wait_until(reached, 120, what=phase)


def let_go(target: KillTarget, phase: str, victim: str) -> None:
    """Release what was held, and replace a killed worker."""
    if phase in INSIDE:
        for left in ("hold", "reached"):
            (target.deployment.root / f"{phase}.{left}").unlink()
    if victim == "worker":
        target.start()


def has_one_run(target: KillTarget, run_id: str, phase: str, victim: str) -> None:
    """Assert that the change cost one run, retried or taken over; finished steps are not computed again."""
    run = target.deployment.reader.run(run_id)
    taken_over = victim == "worker" and phase != "published"
    assert (run["status"], run["attempt"]) == ("succeeded", 2 if taken_over else 1)
    runs = [one["id"] for one in target.deployment.runs() if one["workflowSlug"] == "big"]
    assert runs == [one["runId"] for one in reversed(target.deployment.reader.snapshots("big", 100))]
    work, keep = ([one["status"] for one in run["steps"] if one["stepId"] == step] for step in ("work", "keep"))
    assert work[-1] == keep[-1] == "succeeded"
    assert len(work) == (2 if phase in OVERWRITE else 1)
    # Whether the next step learns of a dead Spark before it begins or while it runs is a matter of moments.
    assert len(keep) == (2 if phase in APPEND else 1) or (phase == "finished" and victim != "worker" and len(keep) == 2)
