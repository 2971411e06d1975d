"""A backfill of 1,000 partitions under kills: each is computed once, and today's data does not wait for it."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from freshline.model.backfill import BackfillRequest
from tests.acceptance.deployment import Deployment

pytestmark = [pytest.mark.process, pytest.mark.full, pytest.mark.timeout(900)]

COUNT = 1_000
KINDS = ("materializer", "materializer", "worker", "worker")
JOBS = """
def work(ctx):
    with open("computed.log", "a") as file:
        file.write(f"{ctx.partition_key}\\n")
    return {"assets": [{"assetId": "daily", "dataVersion": "v" + ctx.inputs["raw"].data_version}]}
"""
SOURCE = "assetId: raw\npartitioning: {{time: day, start: {first}, end: {end}}}\n"
WORKFLOW = """slug: daily
steps:
  - id: work
    job: {{kind: python, entrypoint: 'jobs:work'}}
    retry: {{maxAttempts: 1}}
    consumes: [{{assetId: raw}}]
    produces:
      - assetId: daily
        partitioning: {{time: day, start: {first}, end: {end}}}
        autoMaterialize: {{onUpstreamUpdate: true}}
"""
RUNS = """
SELECT partition_key, status, attempt, queued_at, started_at FROM runs ORDER BY queued_at
"""
HEAD = "SELECT data_version FROM heads WHERE asset_id = 'daily' AND partition_key = %s"


class Fleet:
    """Two materializers and two workers, of which one at a time is killed and started again."""

    def __init__(self, deployment: Deployment, seed: int) -> None:
        self.deployment, self.luck = deployment, random.Random(seed)  # noqa: S311 - it chooses what is killed
        self.processes: list[subprocess.Popen[bytes]] = [deployment.start(kind) for kind in KINDS]
        self.killed: Counter[str] = Counter()

    def kill_one(self) -> None:
        """Kill any process, and start another one."""
        place = self.luck.randrange(len(KINDS))
        self.deployment.kill(self.processes[place])
        self.processes[place] = self.deployment.start(KINDS[place])
        self.killed[KINDS[place]] += 1


def write(deployment: Deployment) -> list[str]:
    """Write a source of days and the days of it, apply, report all days, and return their keys."""
    end = datetime.now(UTC).date()
    first = end - timedelta(days=COUNT + 1)
    root = deployment.root
    (root / "sources").mkdir()
    (root / "sources" / "raw.yaml").write_text(SOURCE.format(first=first, end=end))
    (root / "workflows" / "daily.yaml").write_text(WORKFLOW.format(first=first, end=end))
    (root / "jobs.py").write_text(JOBS)
    deployment.commit()
    keys = [str(first + timedelta(days=n)) for n in range(COUNT + 1)]
    for key in keys:
        deployment.store.operations.report("raw", version="1", partition_key=key)
    return keys


def test_kills_during_a_backfill_of_a_thousand_partitions(deployment: Deployment) -> None:
    """Every partition is done, by one success each; what arrives for today runs before the rest."""
    *old, today = write(deployment)
    store = deployment.store
    requested = store.backfills.create(BackfillRequest("daily", first=old[0], last=old[-1]))
    fleet = Fleet(deployment, 7)
    version, next_kill, ends = 1, time.monotonic() + 2, time.monotonic() + 600
    while store.backfills.find(requested)["status"] != "finished":
        assert time.monotonic() < ends, store.backfills.find(requested)["progress"]
        if time.monotonic() >= next_kill:
            fleet.kill_one()
            next_kill = time.monotonic() + fleet.luck.uniform(1, 3)
        if head(deployment, today) == f"v{version}":
            version += 1
            store.operations.report("raw", version=str(version), partition_key=today)
        time.sleep(0.2)
    assert fleet.killed.total() >= 5
    assert version >= 5

    with deployment.database.connection() as connection:
        runs = connection.execute(RUNS).fetchall()
    successes = Counter(run["partition_key"] for run in runs if run["status"] == "succeeded")
    assert {key: successes[key] for key in old} == dict.fromkeys(old, 1)
    # A job that was killed is computed again. Nothing else is.
    computed = Counter((deployment.root / "computed.log").read_text().split())
    assert sum(computed[key] for key in old) <= len(old) + fleet.killed["worker"]
    for run in runs:
        if run["partition_key"] == today and run["started_at"] and run["attempt"] == 1:
            between = [one for one in runs if one["partition_key"] != today and within(run, one["started_at"])]
            assert len(between) <= KINDS.count("worker"), "no more than a claim of each worker that was under way"


def within(run: dict[str, datetime], started: datetime | None) -> bool:
    """Return whether a run started while another one was queued."""
    return started is not None and run["queued_at"] < started < run["started_at"]


def head(deployment: Deployment, key: str) -> str | None:
    """Return the data version of a partition."""
    with deployment.database.connection() as connection:
        row = connection.execute(HEAD, (key,)).fetchone()
    return None if row is None else str(row["data_version"])
