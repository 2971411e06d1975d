"""Canceled and timed out runs with real processes: nothing is left of them, and their slot takes the next run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from freshline.model.documents.run import Progress, RunDetail
from tests.acceptance.deployment import Deployment
from tests.waiting import wait_until

pytestmark = pytest.mark.process

BIG = """
slug: {slug}
steps:
  - id: work
    {more}
    job: {{kind: spark.sql, sql: "SELECT id, hash(id) AS h, uuid() AS u FROM range(0, 10000000000, 1, 8)"}}
    produces: [{{assetId: {slug}}}]
"""
SMALL = """
slug: small
steps:
  - id: work
    job: {kind: spark.sql, sql: "SELECT 1 AS a"}
    produces: [{assetId: small}]
"""
LOOP = """
slug: loop
steps:
  - id: work
    job: {kind: spark.python, entrypoint: "loops:spin"}
    produces: [{assetId: loop}]
"""
SPIN = """
def spin(ctx):
    ctx.progress(1, 3)
    while True:
        pass
"""
FAILING = """
slug: failing
steps:
  - id: work
    retry: {maxAttempts: 2, backoffMs: 3600000, maxBackoffMs: 3600000}
    job: {kind: python, entrypoint: "jobs:work"}
    produces: [{assetId: failing}]
parameters: {asset: failing}
"""


def _define(deployment: Deployment, **workflows: str) -> None:
    for name, text in workflows.items():
        (deployment.root / "workflows" / f"{name}.yaml").write_text(text)
    deployment.commit()


def _begin(deployment: Deployment, slug: str) -> str:
    return deployment.store.operations.request_run(slug)


def _ended(deployment: Deployment, run_id: str, timeout: float = 60) -> Any:
    def end() -> RunDetail | None:
        found = deployment.reader.run(run_id)
        return found if found["finishedAt"] else None

    return wait_until(end, timeout, every=0.05, what="the end of the run") or {}


def _progress(deployment: Deployment, run_id: str) -> Progress:
    return deployment.reader.run(run_id)["progress"] or {}


def _staged(deployment: Deployment, slug: str) -> list[Path]:
    """Files that Spark writes for an asset."""
    return list((deployment.root / ".freshline" / "warehouse" / slug / "data").rglob("*.parquet"))


def _nothing_left(deployment: Deployment, slug: str) -> None:
    data = deployment.root / ".freshline" / "warehouse" / slug / "data"
    wait_until(lambda: not list(data.glob("*")), 10, what="the staged directory is gone")


def _spark_runner(deployment: Deployment) -> int:
    (worker,) = [one for one in deployment.reader.workers() if one["kind"] == "worker"]
    return int(worker["info"]["runners"][0]["spark"])


@pytest.mark.full
@pytest.mark.spark
def test_the_slot_of_a_stopped_spark_run_is_free_for_the_next(deployment: Deployment) -> None:
    """Cancel and timeout in the middle of a write, cancel of an endless loop: ended, removed, and the next run runs."""
    (deployment.root / "loops.py").write_text(SPIN)
    timeout = BIG.format(slug="late", more="timeoutMs: 3000\n    retry: {maxAttempts: 1}")
    _define(deployment, big=BIG.format(slug="big", more=""), late=timeout, small=SMALL, loop=LOOP)
    deployment.start("worker", FRESHLINE_LEASE_MS="15000")
    _canceled_write(deployment)
    _timed_out_write(deployment)
    _canceled_loop(deployment)


def _canceled_write(deployment: Deployment) -> None:
    run_id = _begin(deployment, "big")
    wait_until(lambda: _staged(deployment, "big"), 120, every=0.05, what="Spark writes")
    wait_until(lambda: "spark" in _progress(deployment, run_id), 30, every=0.05, what="progress is stored")
    assert _progress(deployment, run_id)["step"] == "work"
    deployment.cli("cancel", run_id)
    found = _ended(deployment, run_id, 15)
    assert (found["status"], found["progress"]) == ("canceled", None)
    _nothing_left(deployment, "big")
    _next_run_succeeds(deployment)
    assert not _staged(deployment, "big"), "no task of the canceled write goes on"


def _timed_out_write(deployment: Deployment) -> None:
    found = _ended(deployment, _begin(deployment, "late"))
    assert (found["status"], found["error"]["code"], found["progress"]) == ("failed", "timeout", None)
    _nothing_left(deployment, "late")
    _next_run_succeeds(deployment)
    assert not _staged(deployment, "late")


def _canceled_loop(deployment: Deployment) -> None:
    before = _spark_runner(deployment)
    run_id = _begin(deployment, "loop")
    wait_until(lambda: "job" in _progress(deployment, run_id), 30, every=0.05, what="the loop has begun")
    deployment.cli("cancel", run_id)
    assert _ended(deployment, run_id, 15)["status"] == "canceled"
    _next_run_succeeds(deployment)
    wait_until(lambda: _spark_runner(deployment) != before, what="the replaced runner is told")


def _next_run_succeeds(deployment: Deployment) -> None:
    """On the probed runner at once, on a replaced one as soon as that is warm."""
    found = _ended(deployment, _begin(deployment, "small"), 60)
    assert found["status"] == "succeeded"
    assert found["result"]["metrics"]["work"]["rowsOut"] == 1


def test_a_run_that_waits_for_its_next_try_is_canceled_at_once(deployment: Deployment) -> None:
    """An hour of backoff lies ahead; the slot is free in seconds, for the next run of a Python step."""
    (deployment.root / "fail-failing").touch()
    deployment.workflow("light")
    _define(deployment, failing=FAILING)
    deployment.start("worker", FRESHLINE_LEASE_MS="15000")
    run_id = _begin(deployment, "failing")

    def failed_once() -> bool:
        return [one["status"] for one in deployment.reader.run(run_id)["steps"]] == ["failed"]

    wait_until(failed_once, 30, every=0.05, what="the first try failed")
    deployment.cli("cancel", run_id, "--reason", "enough")
    found = _ended(deployment, run_id, 10)
    assert (found["status"], found["cancelReason"], len(found["steps"])) == ("canceled", "enough", 1)
    assert _ended(deployment, _begin(deployment, "light"), 20)["status"] == "succeeded"
