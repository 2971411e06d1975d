"""Spark with real processes: whole versions only, whatever is killed, and Python steps that never wait for it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.deployment import Deployment
from tests.processes import children
from tests.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.spark]

SQL = """
slug: numbers
backoff: {baseMs: 300, maxMs: 300}
steps:
  - id: work
    job: {kind: spark.sql, sql: "SELECT id, id * 2 AS twice FROM range(0, 1000000, 1, 8)"}
    produces:
      - assetId: numbers
        autoMaterialize: {}
        checks: [{notNull: [twice]}, {minRows: 1000000}, {maxRows: 1000000}]
"""


def _visible(deployment: Deployment) -> list[Path]:
    """Return the directories of the published snapshots."""
    snapshots: list[Any] = deployment.reader.snapshots("numbers")
    warehouse = deployment.root / ".freshline" / "warehouse"
    return [warehouse / path for one in snapshots for path in one["location"]["paths"]]


@pytest.mark.full  # the gate kills a JVM and its runner in tests/worker/test_runner_spark.py
@pytest.mark.parametrize("victim", ["runner", "jvm", "worker"])
def test_a_kill_while_spark_writes_leaves_nothing_half_done(deployment: Deployment, victim: str) -> None:
    """kill -9 in the middle of a write: no partial version, the wave completes, leftovers go."""
    deployment.workflow("light", auto="{}")
    (deployment.root / "workflows" / "numbers.yaml").write_text(SQL)
    deployment.apply()
    _, worker = deployment.start_all()
    data = deployment.root / ".freshline" / "warehouse" / "numbers" / "data"
    deployment.wait_fresh("light", timeout=60)
    assert deployment.states()["numbers"] == "missing", "the Python run did not wait for Spark to start"
    wait_until(lambda: data.exists() and list(data.iterdir()), 180, every=0.005, what="Spark writes")
    runner, jvm = spark_of(worker.pid)
    os.kill({"runner": runner, "jvm": jvm, "worker": worker.pid}[victim], signal.SIGKILL)
    assert not deployment.reader.snapshots("numbers")
    if victim == "worker":
        worker.wait()
        deployment.start("worker")
    wait_until(lambda: not Path(f"/proc/{jvm}").exists(), 30, what="the end of the JVM")
    deployment.wait_fresh("numbers", timeout=180)
    (published,) = _visible(deployment)
    wait_until(lambda: list(data.iterdir()) == [published], 30, what="only the published directory is left")
    _readable(deployment)
    if victim == "runner":
        _heals(deployment, published)


def _readable(deployment: Deployment) -> None:
    assert deployment.json("show", "numbers", "--sql", "SELECT count(*) AS n FROM numbers")["rows"] == [{"n": 1000000}]


def _heals(deployment: Deployment, published: Path) -> None:
    """Assert that the doctor notices a lost file, and that a run with the same rows replaces the table (ADR 0008)."""
    assert deployment.json("doctor")["healthy"]
    next(published.glob("*.parquet")).unlink()
    assert f"{published} differs from what was written: 1 missing" in deployment.cli("doctor", check=False)
    deployment.cli("run", "numbers", "--wait")
    assert deployment.json("doctor")["healthy"]
    _readable(deployment)


def spark_of(worker: int) -> tuple[int, int]:
    """Return the runner of a worker that has a JVM, and the JVM. Raise `LookupError` if there is none yet."""
    for runner in children(worker):
        for child in children(runner):
            with suppress(OSError):
                if "java" in Path(f"/proc/{child}/cmdline").read_text():
                    return runner, child
    raise LookupError(worker)
