"""What Spark runs on gets lost in the middle of a run: a machine of the cluster, or the whole Connect server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.acceptance.deployment import Deployment
from tests.engines.servers import TOKEN, Cluster, ConnectServer
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.full]

ROWS = 40
DEFINITION = """
slug: slow
backoff: {baseMs: 300, maxMs: 300}
steps:
  - id: slow
    job: {kind: spark.python, entrypoint: "slow:work"}
    produces: [{assetId: slow, autoMaterialize: {}, checks: [{unique: [id]}, {minRows: ROWS}, {maxRows: ROWS}]}]
""".replace("ROWS", str(ROWS))
JOBS = """
import os, pathlib, time
from pyspark.sql import functions as F

HERE = "{here}"

@F.udf("bigint")
def slowly(n):
    pathlib.Path(HERE, f"{{os.getppid()}}-{{n}}").touch()
    time.sleep(0.25)
    return n

def work(ctx): return ctx.spark.range(0, {rows}, 1, {rows}).select(slowly("id").alias("id"))
"""


def begin(deployment: Deployment, tmp_path: Path) -> Path:
    """Start a run of some seconds; returns where each of its tasks leaves a mark, named by its Python's parent."""
    marks = tmp_path / "marks"
    marks.mkdir()
    (deployment.root / "slow.py").write_text(JOBS.format(here=marks, rows=ROWS))
    (deployment.root / "workflows" / "slow.yaml").write_text(DEFINITION)
    deployment.apply()
    deployment.start_all()
    return marks


def whole_once(deployment: Deployment) -> None:
    """One snapshot, every row once, nothing left over, no failure counted."""
    deployment.wait_fresh("slow", timeout=150)
    snapshots: list[Any] = deployment.reader.snapshots("slow")
    (snapshot,) = snapshots
    (path,) = snapshot["location"]["paths"]
    warehouse = deployment.root / ".freshline" / "warehouse"
    found = duckdb.sql(f"SELECT count(*), count(DISTINCT id) FROM read_parquet('{warehouse / path}/*.parquet')")
    assert found.fetchall() == [(ROWS, ROWS)]
    wait_until(lambda: list((warehouse / "slow" / "data").iterdir()) == [warehouse / path], what="no leftovers")
    assert [run["status"] for run in deployment.runs()] == ["succeeded"]
    (workflow,) = deployment.reader.status()["workflows"]
    assert workflow["cooldown"] is None or workflow["cooldown"]["failures"] == 0


def test_a_run_survives_the_death_of_a_machine_of_the_cluster(
    deployment: Deployment, cluster: Cluster, tmp_path: Path
) -> None:
    """SIGKILL of one of two workers with its executor: Spark computes its part anew, the run succeeds at once."""
    deployment.environ |= {"FRESHLINE_SPARK_MASTER": cluster.url, "SPARK_LOCAL_IP": "127.0.0.1"}
    marks = begin(deployment, tmp_path)
    wait_until(lambda: len(executors(marks)) == 2, 120, what="work on both machines")
    cluster.kill(cluster.workers[0])
    assert len(list(marks.iterdir())) < ROWS, "it was in the middle"
    whole_once(deployment)
    assert deployment.runs()[0]["attempt"] == 1
    assert len(executors(marks)) == 2


def executors(marks: Path) -> set[str]:
    """Return the processes for which tasks have begun."""
    return {path.name.partition("-")[0] for path in marks.iterdir()}


def _no_spark(deployment: Deployment) -> bool:
    return any("takes no Spark runs" in note for note in deployment.json("status")["notes"])


@pytest.mark.parametrize("back", ["at once", "later"])
def test_a_run_goes_back_when_the_connect_server_is_lost(
    deployment: Deployment, connect: ConnectServer, tmp_path: Path, back: str
) -> None:
    """SIGKILL of the server: the run is queued again, no failure of its workflow, and succeeds later.

    See docs/semantics.md#R7.1.
    """
    deployment.environ |= {"FRESHLINE_SPARK_REMOTE": connect.url, "FRESHLINE_SPARK_TOKEN": TOKEN}
    marks = begin(deployment, tmp_path)
    wait_until(lambda: list(marks.iterdir()), 120, what="work on the server")
    connect.down()
    if back == "later":
        wait_until(lambda: deployment.runs()[0]["status"] == "queued", 90, every=0.2, what="the run is back")
        wait_until(lambda: _no_spark(deployment), 30, every=0.5, what="status says so")
    connect.up()
    whole_once(deployment)
    assert deployment.runs()[0]["attempt"] > 1
    assert TOKEN not in deployment.logs()
