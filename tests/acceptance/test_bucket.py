"""A bucket as the warehouse of real processes: kills at every phase of a write, and a store that is away."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.acceptance.deployment import Deployment, in_bucket
from tests.acceptance.kill_deployment import APPEND, OVERWRITE, ROWS, KillTarget, let_go, prepared, reach, survives
from tests.object_store_server import SECRET, Answer, ObjectStore
from tests.waiting import wait_until

# In the gate, tests/spark/test_object_store.py proves tables in a bucket; here the processes are real.
pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.full]

LEAK = """
import os

def work(ctx):
    print("key:", os.environ["AWS_SECRET_ACCESS_KEY"])
    raise ValueError(os.environ["AWS_SECRET_ACCESS_KEY"])
"""
LEAKING = """
slug: leak
steps:
  - {id: work, job: {kind: python, entrypoint: "leak:work"}, produces: [{assetId: leaked}], retry: {maxAttempts: 1}}
"""
CASES = [
    *zip((*OVERWRITE, *APPEND), ("runner", "jvm", "worker", "runner", "jvm", "worker"), strict=True),
    ("publishing", "worker"),
    ("published", "worker"),
]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory, module_database_url: str) -> Deployment:
    """One for all tests of the module."""
    return Deployment(tmp_path_factory.mktemp("bucket") / "project", module_database_url)


@pytest.fixture(scope="module")
def objects(deployment: Deployment) -> Iterator[ObjectStore]:
    """Where its warehouse is."""
    with in_bucket(deployment) as objects:
        yield objects


@pytest.fixture(scope="module")
def target(deployment: Deployment, objects: ObjectStore) -> Iterator[KillTarget]:
    """With a first version of everything."""
    with prepared(deployment, objects.warehouse) as target:
        yield target


@pytest.mark.full
@pytest.mark.parametrize(("phase", "victim"), CASES)
@pytest.mark.timeout(400)
def test_a_kill_leaves_the_old_version_or_the_new_one(target: KillTarget, phase: str, victim: str) -> None:
    """As in a directory: nothing partial, nothing twice, nothing left."""
    survives(target, phase, victim)


@pytest.mark.full
@pytest.mark.timeout(200)
def test_a_store_that_is_away_holds_runs_up_and_fails_none(target: KillTarget, objects: ObjectStore) -> None:
    """What was written when it went away is not published; the same run is done when it is back.

    See docs/semantics.md#R7.1.
    """
    target.prepare("")
    before = target.head()
    reach(target, "written")
    objects.fault = lambda _request: Answer(503)
    let_go(target, "written", "runner")
    wait_until(lambda: "warehouse_lost" in target.deployment.logs(), 60, what="the worker notices")
    assert target.head()["version"] == before["version"]
    objects.fault = lambda _request: None
    wait_until(target.fresh, 120, every=0.1, what="the wave completes")
    run = target.deployment.reader.run(target.head()["runId"])
    assert (run["status"], run["attempt"], target.head()["version"]) == ("succeeded", 2, before["version"] + 1)
    assert target.is_whole(target.head())


def test_commands_read_the_bucket(target: KillTarget, deployment: Deployment) -> None:
    """With the environment of their user."""
    assert deployment.json("show", "big", "--sql", "SELECT count(*) AS n FROM big")["rows"] == [{"n": ROWS}]
    assert deployment.json("doctor")["healthy"]
    assert deployment.json("table", "repair", "kept")["tableVersion"] == target.head("kept")["tableVersion"]
    deployment.cli("table", "vacuum", "--all")


def test_no_key_is_in_a_log(target: KillTarget, deployment: Deployment) -> None:
    """Nor in what a job prints: it has the environment of the worker."""
    (deployment.root / "leak.py").write_text(LEAK)
    (deployment.root / "workflows" / "leak.yaml").write_text(LEAKING)
    deployment.apply()
    deployment.cli("run", "leak", "--wait", check=False)
    (run,) = [one["id"] for one in deployment.runs() if one["workflowSlug"] == "leak"]
    assert "key: ***" in deployment.cli("logs", run)
    assert SECRET not in deployment.logs() + json.dumps(deployment.reader.run(run), default=str)
