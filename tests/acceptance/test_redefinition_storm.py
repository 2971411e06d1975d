"""Redefinitions in quick turns under two real workers: each run has the code and the parameters of its version."""

from __future__ import annotations

from pathlib import Path

import pytest

from freshline.definitions.loading.project import load_project
from freshline.settings import load
from freshline.store.store import Store
from tests.acceptance.deployment import Deployment
from tests.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.full]

ROUNDS = 60
JOBS = """
import time
VERSION = {version}
def work(ctx):
    time.sleep(0.1)
    import helper
    seen = f"{{VERSION}} {{helper.VERSION}} {{ctx.parameters['version']}}"
    return {{"assets": [{{"assetId": "out", "dataVersion": seen}}]}}
"""
WORKFLOW = """slug: flow
parameters: {{version: {version}}}
steps:
  - id: work
    job: {{kind: python, entrypoint: 'jobs:work'}}
    retry: {{maxAttempts: 1}}
    produces: [{{assetId: out}}]
"""
PUBLISHED = """
SELECT s.data_version, v.definition -> 'parameters' ->> 'version' AS version
  FROM snapshots s JOIN runs r ON r.id = s.run_id
  JOIN workflow_versions v ON (v.workflow_id, v.version) = (r.workflow_id, r.version)
"""


def write(root: Path, version: int, *, definition: bool = True) -> None:
    """Write a version of the code, and of the definition. All versions have files of the same size."""
    (root / "jobs.py").write_text(JOBS.format(version=version))
    (root / "helper.py").write_text(f"VERSION = {version}\n")
    if definition:
        (root / "workflows" / "flow.yaml").write_text(WORKFLOW.format(version=version))


def test_each_run_of_a_storm_has_the_code_and_parameters_of_its_version(deployment: Deployment) -> None:
    """Files are edited and put back, and versions applied, while runs are queued, claimed and executed."""
    store = Store(deployment.database, load(deployment.environ))
    write(deployment.root, 100)
    store.apply.commit(load_project(deployment.root))
    workers = [deployment.start("worker") for _ in range(2)]
    for version in range(101, 101 + ROUNDS):
        write(deployment.root, version)
        store.apply.commit(load_project(deployment.root))
        run_id = store.operations.request_run("flow")
        wait_until(lambda run_id=run_id: deployment.reader.run(run_id)["status"] != "queued", 30, what="a claim")  # type: ignore[misc]
        for number in range(version % 4):  # code that is never applied
            write(deployment.root, 900 + number, definition=False)
            write(deployment.root, version, definition=False)
    wait_until(lambda: deployment.reader.run(run_id)["finishedAt"] is not None, 30, what="the end of the last run")
    with deployment.database.connection() as connection:
        published = connection.execute(PUBLISHED).fetchall()
    assert len(published) > ROUNDS / 2
    wrong = [row for row in published if row["data_version"].split() != [row["version"]] * 3]
    assert not wrong
    assert all(worker.poll() is None for worker in workers)
