"""Hourly files with real processes: each hour is reported once and its day runs once, whatever is killed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.acceptance.deployment import Deployment
from tests.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.full, pytest.mark.timeout(300)]

DAYS = ("2026-01-02", "2026-01-03", "2026-01-04")
HOURS = [f"{day}T{hour:02}" for day in DAYS for hour in range(24)]
KILLS = 4
SOURCE = """
assetId: orders.raw
format: csv
path: drop/dt={partitionKey}
partitioning: {time: hour, start: 2026-01-02, end: 2026-01-05}
watch: {files: "drop/dt={partitionKey}/*.csv", every: 1s}
"""
WORKFLOW = """
slug: daily
steps:
  - id: work
    job: {kind: python, entrypoint: 'jobs:work'}
    consumes: [{assetId: orders.raw}]
    produces:
      - assetId: daily
        partitioning: {time: day, start: 2026-01-02, end: 2026-01-05}
        autoMaterialize: {onUpstreamUpdate: true}
"""
JOBS = """
import pathlib

def work(ctx):
    files = pathlib.Path("drop").glob(f"dt={ctx.partition_key}T*/*.csv")
    rows = sum(len(one.read_text().splitlines()) - 1 for one in files)
    return {"assets": [{"assetId": "daily", "dataVersion": f"{rows} rows"}]}
"""
REPORTED = "SELECT data ->> 'partitionKey' AS key FROM events WHERE type = 'asset.produced' AND subject = 'orders.raw'"


def move_in(root: Path, hour: str, name: str) -> None:
    """Write a file beside the directory, and move it to its hour."""
    beside = root / f"part-{hour}-{name}"
    beside.write_text("id\n1\n")
    directory = root / "drop" / f"dt={hour}"
    directory.mkdir(parents=True, exist_ok=True)
    beside.rename(directory / name)


def reported(deployment: Deployment) -> Counter[str]:
    """Return how often each hour was reported."""
    with deployment.database.connection() as connection:
        return Counter(row["key"] for row in connection.execute(REPORTED).fetchall())


def versions(deployment: Deployment) -> dict[str, str]:
    """Return the version of each day."""
    with deployment.database.connection() as connection:
        rows = connection.execute("SELECT partition_key, data_version FROM heads WHERE asset_id = 'daily'").fetchall()
    return {row["partition_key"]: row["data_version"] for row in rows}


def ran(deployment: Deployment) -> Counter[str]:
    """Return how often each day was computed."""
    return Counter(run["partitionKey"] for run in deployment.runs() if run["status"] == "succeeded")


def test_hours_that_appear_are_reported_once_with_kills(deployment: Deployment) -> None:
    """Kill -9 of the materializer in between: one report of each hour, one run of each day, one more for late data."""
    root = deployment.root
    (root / "sources").mkdir(exist_ok=True)
    (root / "drop").mkdir()
    (root / "sources" / "orders.yaml").write_text(SOURCE)
    (root / "workflows" / "daily.yaml").write_text(WORKFLOW)
    (root / "jobs.py").write_text(JOBS)
    deployment.apply()
    materializer, _ = deployment.start_all()
    for number, hour in enumerate(HOURS):
        move_in(root, hour, "a.csv")
        if number % (len(HOURS) // KILLS) == 1:
            wait_until(lambda number=number: len(reported(deployment)) >= number // 2, 60, what="some hours")  # type: ignore[misc]
            deployment.kill(materializer)
            materializer = deployment.start("materializer")
    wait_until(lambda: versions(deployment) == dict.fromkeys(DAYS, "24 rows"), 120, what="all days")
    assert reported(deployment) == Counter(HOURS)
    assert ran(deployment) == Counter(DAYS)
    move_in(root, HOURS[5], "late.csv")
    wait_until(lambda: versions(deployment)[DAYS[0]] == "25 rows", 60, what="the late file")
    move_in(root, "2026-02-31T00", "a.csv")
    wait_until(lambda: bool(deployment.reader.watch("orders.raw")["conflicts"]), 60, what="the conflict")
    assert reported(deployment) == Counter([*HOURS, HOURS[5]])
    assert ran(deployment) == Counter([*DAYS, DAYS[0]])
