"""Settings of one workflow, and `size: large`: a Spark of its own beside the warm one, and gone after the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.deployment import Deployment
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.full]

JOBS = '''
import os, pathlib

def look(ctx):
    """Notes who it is and what Spark it has."""
    conf = ctx.spark.conf
    seen = [conf.get("spark.sql.shuffle.partitions"), conf.get("spark.driver.memory"), str(os.getpid())]
    with open("seen.txt", "a") as file:
        file.write(" ".join([ctx.parameters["name"], *seen]) + "\\n")
    return ctx.spark.range(1)
'''


def workflow(name: str, spark: str) -> str:
    """Return a workflow that reports which Spark it got."""
    return (
        f"slug: {name}\nparameters: {{name: {name}}}\nspark: {spark}\nsteps:\n"
        "  - id: look\n    job: {kind: spark.python, entrypoint: 'sizes:look'}\n    retry: {maxAttempts: 1}\n"
        f"    produces: [{{assetId: {name}}}]\n"
    )


def test_a_large_run_has_a_spark_of_its_own(deployment: Deployment) -> None:
    """It starts with the workflow's settings and ends with the run; the warm runner is the same before and after.

    Small runs get their settings on their own session only. A `conf` that Spark does not start with fails its run.
    """
    root = deployment.root
    (root / "sizes.py").write_text(JOBS)
    conf = "conf: {spark.sql.shuffle.partitions: 5, spark.driver.memory: 700m}"
    definitions = {
        "big": f"{{size: large, {conf}}}",
        "small": "{conf: {spark.sql.shuffle.partitions: 6}}",
        "plain": "{}",
        "broken": "{size: large, conf: {spark.driver.memory: lots}}",
    }
    for name, spark in definitions.items():
        (root / "workflows" / f"{name}.yaml").write_text(workflow(name, spark))
    deployment.apply()
    deployment.start_all()
    for name in ("small", "big", "plain"):
        deployment.cli("run", name, "--wait")
    seen = {name: rest for name, *rest in map(str.split, (root / "seen.txt").read_text().splitlines())}
    assert seen["small"][0] == "6"
    assert seen["plain"][0] not in {"5", "6"}
    assert seen["plain"][1] == seen["small"][1] != "700m"
    assert seen["big"][:2] == ["5", "700m"]
    assert seen["small"][2] == seen["plain"][2] != seen["big"][2]
    wait_until(lambda: not Path(f"/proc/{seen['big'][2]}").exists(), 10, what="the end of the large runner")
    deployment.cli("run", "broken", "--wait", check=False)
    (failed,) = [run for run in deployment.runs() if run["workflowSlug"] == "broken"]
    assert failed["status"] == "failed"
    assert "Spark cannot be started with the workflow's spark.conf" in failed["error"]["message"]
    deployment.cli("run", "plain", "--wait")
    assert (root / "seen.txt").read_text().splitlines()[-1].split()[-1] == seen["plain"][2], "still the warm one"
