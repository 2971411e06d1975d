"""User code that misbehaves ends its run with a clear error; the worker lives, and the next run works."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.deployment import Deployment
from tests.waiting import wait_until

pytestmark = pytest.mark.process

JOBS = """
import os, resource, sys

def fails(ctx):
    print("so far so good")
    print("and now", file=sys.stderr)
    inner({})

def inner(given):
    return given["missing"]

def exits(ctx):
    sys.exit("enough")

def spins(ctx):
    while True:
        pass

def eats(ctx):
    resource.setrlimit(resource.RLIMIT_AS, (2**30, resource.RLIM_INFINITY))
    eaten = []
    while True:
        eaten.append(bytearray(2**27))

def killed(ctx):
    os.kill(os.getpid(), 9)

def garbles(ctx):
    links = {int(fd.name): os.readlink(fd.path) for fd in os.scandir("/proc/self/fd") if os.path.islink(fd.path)}
    os.write(next(fd for fd, link in links.items() if link.startswith("socket:")), b"garbage\\n")
    while True:
        pass

def floods(ctx):
    for n in range(10**5):
        print("x" * 200)

def works(ctx):
    print("fine")
"""

# What each job is told to have done.
ENDS = {
    "fails": ("job", "jobs.py:10: KeyError: 'missing'"),
    "exits": ("job", "jobs.py:13: the job called sys.exit('enough')"),
    "spins": ("timeout", "the step took longer than its timeoutMs of 500 and was stopped"),
    "eats": ("job", "jobs.py:23: MemoryError"),
    "killed": ("runner-died", "killed by signal 9, as the system does when memory runs out"),
    "garbles": ("runner-died", "was ended: it wrote to its control socket, which only Freshline may use"),
}


# An array that no heap has room for, in the driver; strings that pile up in a task; and one that works.
HUNGRY = {
    "folded": ("{}", "SELECT size(sequence(0L, 2000000000L)) AS n"),
    "grown": (
        "{size: large, conf: {spark.driver.memory: 512m}}",
        "SELECT size(collect_list(repeat(CAST(id AS string), 10000))) AS n FROM range(0, 1000000, 1, 2)",
    ),
    "modest": ("{}", "SELECT 1 AS n"),
}


def write(deployment: Deployment) -> None:
    """Write a workflow for each job, with one try."""
    (deployment.root / "jobs.py").write_text(JOBS)
    for name in (*ENDS, "floods", "works"):
        limit = "    timeoutMs: 500\n" if name == "spins" else ""
        (deployment.root / "workflows" / f"{name}.yaml").write_text(
            f"slug: {name}\nsteps:\n  - id: only\n    job: {{kind: python, entrypoint: 'jobs:{name}'}}\n"
            f"    retry: {{maxAttempts: 1}}\n{limit}    produces: [{{assetId: {name}}}]\n"
        )
    deployment.commit()


def ended(deployment: Deployment, slug: str) -> Any:
    """Return a run of the workflow, after its end."""
    run_id = deployment.store.operations.request_run(slug)
    wait_until(lambda: deployment.reader.run(run_id)["finishedAt"] is not None, 120, what=f"the end of {slug}")
    return deployment.reader.run(run_id)


def test_whatever_a_job_does_ends_its_run_and_not_the_worker(deployment: Deployment) -> None:
    """sys.exit, endless loops, memory, a kill, garbage: each with its own sentence, and the same worker goes on."""
    write(deployment)
    worker = deployment.start("worker")
    runs = {}
    for slug, (code, message) in ENDS.items():
        runs[slug] = ended(deployment, slug)
        error = runs[slug]["error"]
        assert (error["code"], error["step"]) == (code, "only"), error
        assert message in error["message"]
        good = ended(deployment, "works")
        assert good["status"] == "succeeded", good["error"]
        assert worker.poll() is None
    has_streams_and_own_lines(deployment, runs["fails"]["id"])
    is_cut(deployment, ended(deployment, "floods"))


@pytest.mark.spark
@pytest.mark.full
def test_a_spark_without_memory_ends_its_run_and_not_the_worker(deployment: Deployment) -> None:
    """The warm one and a run's own, at once and little by little: a clear error, and the same worker goes on."""
    for slug, (spark, sql) in HUNGRY.items():
        (deployment.root / "workflows" / f"{slug}.yaml").write_text(
            f"slug: {slug}\nspark: {spark}\nsteps:\n  - id: only\n    job: {{kind: spark.sql, sql: '{sql}'}}\n"
            f"    retry: {{maxAttempts: 1}}\n    produces: [{{assetId: {slug}}}]\n"
        )
    deployment.commit()
    worker = deployment.start("worker", FRESHLINE_LEASE_MS="15000")
    for slug in ("folded", "grown"):
        error = ended(deployment, slug)["error"]
        assert (error["code"], error["step"]) == ("runner-died", "only"), error
        assert "Spark ran out of memory (give it more with `spark: {size: large" in error["message"]
        assert not list((deployment.root / ".freshline" / "warehouse" / slug / "data").glob("*"))
        good = ended(deployment, "modest")
        assert good["status"] == "succeeded", good["error"]
        assert worker.poll() is None


def has_streams_and_own_lines(deployment: Deployment, run_id: str) -> None:
    """Assert that the log has both streams, then the error and the user's own lines, first and last."""
    assert [one["stream"] for one in deployment.reader.logs(run_id)] == ["stdout", "stderr"]
    told = deployment.cli("logs", run_id)
    trace = told[told.index("step only: jobs.py:10: KeyError") :].splitlines()
    assert trace[1] == "Traceback (most recent call last):"
    assert trace[2].strip() == f'File "{deployment.root}/jobs.py", line 7, in fails'
    assert trace[-1] == "KeyError: 'missing'"


def is_cut(deployment: Deployment, flood: dict[str, Any]) -> None:
    """Who prints without end does not fill the database, and is not stopped either."""
    assert flood["status"] == "succeeded"
    lines = deployment.reader.logs(flood["id"])
    assert sum(len(one["text"]) + 1 for one in lines) < 1_100_000
    assert "truncated" in lines[-1]["text"]
