"""Batches on Spark: one job and one write for several partitions (docs/semantics.md#R14.8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from freshline.errors import CheckError, JobError
from freshline.store.doctor.warehouse import Warehouse
from tests.scenarios.test_backfills import ask
from tests.spark.spark_harness import SparkHarness, flow, job, local_engine
from tests.spark.test_partitions import World
from tests.store_harness import laboratory

pytestmark = pytest.mark.spark

DAYS: dict[str, Any] = {"time": "day", "start": "2025-12-30"}
KEYS = [f"2025-12-{day}" for day in (30, 31)] + [f"2026-01-0{day}" for day in range(1, 5)]
QUERY = "SELECT n, v, CAST(d AS DATE) AS day FROM raw WHERE n > 0"
CHECKS = [{"minRows": 1}, {"unique": ["n"]}]


@pytest.fixture
def world(database_url: str, tmp_path: Path, spark: SparkSession) -> Iterator[World]:
    """Yield a world with a fresh store, on the session of all tests."""
    with laboratory(database_url, warehouse=str(tmp_path / "w")) as lab:
        yield World(SparkHarness(lab, local_engine(spark)), tmp_path)


def batched(slug: str, made: str | Mapping[str, Any], **produced: Any) -> dict[str, Any]:
    """Return a workflow of days whose step may compute several of them in one run."""
    found = flow(slug, made, [{"assetId": "raw"}], auto=None, partitioning=DAYS, **produced)
    found["steps"][0]["batch"] = True
    return found


def filled(world: World, *flows: dict[str, Any]) -> None:
    """Report two rows of each day: another number, a text or none."""
    world.apply(*flows, partitioning=DAYS)
    for place, key in enumerate(KEYS[:5], start=1):
        rows = ((place, "x", key), (10 * place, "", key))
        world.report(key, *rows, columns=("n", "v", "d"))


def backfill(world: World, batch: int, asset_id: str = "daily") -> None:
    """Compute five days and publish the log."""
    request = ask(asset_id, batch=batch, last=KEYS[4], newest_first=False, concurrency=1)
    world.lab.store.backfills.create(request)
    world.harness.work()
    world.log()


def fingerprints(world: World, asset_id: str) -> dict[str, Any]:
    """Return what is stored of the newest version of each partition, but where it is."""
    rows = world.lab.rows(
        "SELECT DISTINCT ON (partition_key) partition_key, data_version, rows, schema, checks,"
        " location -> 'fingerprint' AS fingerprint, location -> 'parquet' AS parquet FROM snapshots"
        " WHERE asset_id = %s ORDER BY partition_key, sequence DESC",
        asset_id,
    )
    return {row.pop("partition_key"): row for row in rows}


def test_a_batch_publishes_what_single_runs_publish(world: World) -> None:
    """The same fingerprints, rows and checks; one commit of the table, in which readers skip other days.

    One more day is replaced alone, and one of the batch: other files stay, and every version is readable.
    """
    filled(world, batched("daily", QUERY, checks=CHECKS), batched("alone", QUERY, checks=CHECKS))
    backfill(world, 5)
    backfill(world, 1, "alone")
    found = fingerprints(world, "daily")
    assert found == fingerprints(world, "alone")
    assert list(found) == KEYS[:5]
    assert len({one["data_version"] for one in found.values()}) == 5
    assert [len(one["checks"]) for one in found.values()] == [2] * 5

    whole = DeltaTable(str(world.lab.warehouse / "daily"))
    assert whole.version() == 0
    assert whole.metadata().partition_columns == ["day"]
    assert len(whole.file_uris(file_pruning_predicate=[("day", "=", KEYS[1])])) == 1
    first = world.table("daily")
    assert first == world.table("alone")
    arrow = whole.to_pyarrow_dataset()
    assert duckdb.sql(f"SELECT sum(n) FROM arrow WHERE day = DATE '{KEYS[2]}'").fetchall() == [(33,)]
    assert arrow is not None

    world.report(KEYS[1], (7, "y", KEYS[1]), columns=("n", "v", "d"))
    backfill(world, 5)
    changed = [row for row in first if row[2] != date.fromisoformat(KEYS[1])] + [(7, "y", date.fromisoformat(KEYS[1]))]
    assert (world.table("daily"), world.table("daily", 0)) == (sorted(changed), first)
    log = world.lab.warehouse / "daily" / "_delta_log" / f"{1:020}.json"
    assert (log.read_text().count('"add"'), log.read_text().count('"remove"')) == (1, 1), "the changed day only"
    world.lab.now = world.lab.later(hours=2)
    warehouse = Warehouse(world.lab.store)
    assert [(one.check.id, one.sentences) for one in warehouse.examine(5) if one.count] == []


def test_a_consumer_reads_the_partitions_of_a_batch(world: World) -> None:
    """Also those without rows: the job computed them, so they are empty and not missing."""
    query = f"SELECT n, CAST(d AS DATE) AS day FROM raw WHERE d <> '{KEYS[1]}'"
    filled(world, batched("daily", query), flow("total", "SELECT sum(n) AS n, count(*) AS rows FROM daily", "daily"))
    backfill(world, 5)
    assert world.heads("daily").keys() == {*KEYS[:5]}
    assert [one["rows"] for one in fingerprints(world, "daily").values()] == [2, 0, 2, 2, 2]
    assert world.harness.rows("total") == [(143, 8)]
    assert len(world.table("daily")) == 8


def test_rows_of_other_partitions_fail_the_whole_batch(world: World) -> None:
    """Nothing is published, and the error names a value and what is allowed."""
    filled(world, batched("daily", "SELECT n, CAST(d AS DATE) + CAST(n = 50 AS INT) AS day FROM raw"))
    with pytest.raises(
        CheckError, match=r"1 row has another 'day' than the 5 partitions of the run, such as 2026-01-04"
    ):
        backfill(world, 5)
    assert world.heads("daily") == {}
    assert {run["status"] for run in world.lab.runs()} == {"queued"}
    assert any("the batch of 5 partitions failed" in line for line in world.harness.lines)


def test_a_check_that_fails_in_one_partition_names_it(world: World) -> None:
    """A value that occurs once in each of two days is unique in both."""
    same = "SELECT CAST(d AS DATE) AS day, v, 1 AS n FROM raw"
    filled(world, batched("daily", f"{same} WHERE v = 'x'", checks=CHECKS))
    backfill(world, 5)
    assert len(world.heads("daily")) == 5
    world.apply(batched("daily", f"{same} WHERE v = 'x' OR d = '{KEYS[3]}'", checks=CHECKS), partitioning=DAYS)
    with pytest.raises(CheckError, match=rf"asset 'daily@{KEYS[3]}': check unique.*1 value occurs more than once"):
        backfill(world, 5)


@pytest.mark.full
def test_a_job_of_a_batch_knows_its_partitions(world: World) -> None:
    """Their keys, and their window; one key is an error that says what to use."""
    filled(world, batched("daily", job("days_of_rows")), batched("wrong", job("key_of_a_batch")))
    backfill(world, 5)
    assert len(world.heads("daily")) == 5
    assert f"INFO batch: {' '.join(KEYS[:5])}; 2025-12-30 to 2026-01-04" in world.harness.lines
    with pytest.raises(JobError, match=r"ctx.partition_key: this run computes 5 partitions") as caught:
        backfill(world, 5, "wrong")
    assert "ctx.partition_keys" in str(caught.value)
