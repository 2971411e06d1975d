"""A schema that changes between two deliveries of a watched directory, with real processes, with and without Spark."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tests.acceptance.deployment import Deployment
from tests.waiting import wait_until

pytestmark = pytest.mark.process

JOBS = """
import pathlib

def spark(ctx):
    return write("orders", [row.n for row in ctx.inputs["landing.orders"].df().collect()])

def plain(ctx):
    return write("orders", [row[0] for row in ctx.inputs["landing.orders"].duckdb().fetchall()])

def other(ctx):
    return write("other", [row[0] for row in ctx.inputs["landing.other"].duckdb().fetchall()])

def write(name, rows):
    pathlib.Path(f"{name}.txt").write_text(repr(sorted(rows)))
    return {"assets": [{"assetId": name}]}
"""
SOURCES = """
- {assetId: landing.orders, mode: append, format: parquet, path: orders, watch: {files: "orders/*.parquet", every: 1s}}
- {assetId: landing.other, mode: append, format: parquet, path: other, watch: {files: "other/*.parquet", every: 1s}}
"""
WORKFLOW = """
slug: load-%(name)s
backoff: {baseMs: 300, maxMs: 300}
steps:
  - id: load
    job: {kind: %(kind)s, entrypoint: "jobs:%(function)s"}
    retry: {maxAttempts: 1}
    consumes: [{assetId: landing.%(name)s}]
    produces: [{assetId: %(name)s, autoMaterialize: {onUpstreamUpdate: true}}]
"""


def drop(directory: Path, name: str, query: str) -> None:
    """Write a file beside the directory, and move it in."""
    beside = directory.parent / name
    duckdb.sql(f"COPY (SELECT {query}) TO '{beside}' (FORMAT parquet)")
    beside.rename(directory / name)


def loaded(deployment: Deployment, name: str) -> str:
    """Return the rows that the last run of a loader has read."""
    path = deployment.root / f"{name}.txt"
    return path.read_text() if path.exists() else ""


def words(text: str) -> str:
    """Return a text without its line breaks."""
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("kind", "function", "types"),
    [
        ("python", "plain", "VARCHAR, and INTEGER in the files before it"),
        pytest.param(
            "spark.python",
            "spark",
            "string, and int in the deliveries before it",
            marks=[pytest.mark.spark, pytest.mark.full],
        ),
    ],
)
def test_a_delivery_with_another_schema_is_told_and_nothing_is_lost(
    deployment: Deployment, kind: str, function: str, types: str
) -> None:
    """`why` and `watch show` name the delivery, the column and what to do; others go on; a skip ends it."""
    root = deployment.root
    for name in ("orders", "other", "sources"):
        (root / name).mkdir()
    (root / "jobs.py").write_text(JOBS)
    (root / "sources" / "landing.yaml").write_text(SOURCES)
    for values in (
        {"name": "orders", "kind": kind, "function": function},
        {"name": "other", "kind": "python", "function": "other"},
    ):
        (root / "workflows" / f"{values['name']}.yaml").write_text(WORKFLOW % values)
    deployment.apply()
    deployment.start_all()
    drop(root / "orders", "1.parquet", "1 AS n")
    wait_until(lambda: loaded(deployment, "orders") == "[1]", 120, what="the first file")
    drop(root / "orders", "2.parquet", "'two' AS n")
    wait_until(lambda: deployment.reader.runs(1, status="failed"), 60, what="a failed run")
    for command in (("why", "orders"), ("watch", "show", "landing.orders")):
        told = words(deployment.cli(*command))
        assert f"column 'n' is {types}" in told, told
        assert "this is delivery 2 of 'landing.orders'" in told, told
        assert "`freshline delivery skip landing.orders 2 --reason TEXT`" in told, told
    (consumer,) = deployment.json("watch", "show", "landing.orders")["failingConsumers"]
    assert consumer["workflowSlug"] == "load-orders"
    drop(root / "orders", "3.parquet", "3 AS n")
    drop(root / "other", "1.parquet", "7 AS n")
    wait_until(lambda: loaded(deployment, "other") == "[7]", 60, what="the other source")
    assert deployment.json("watch", "show", "landing.other")["failingConsumers"] == []
    wait_until(lambda: len(deployment.reader.deliveries("landing.orders", 9)) == 3, 60, what="three deliveries")
    assert loaded(deployment, "orders") == "[1]"
    deployment.cli("delivery", "skip", "landing.orders", "2", "--reason", "wrong type")
    wait_until(lambda: loaded(deployment, "orders") == "[1, 3]", 60, what="the rows of the others")
    deployment.wait_fresh("orders", timeout=60)
    assert deployment.json("watch", "show", "landing.orders")["failingConsumers"] == []
