"""Partitions on Spark: what a run reads and writes, and the one table of all partitions (docs/semantics.md#R13)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from freshline.errors import CheckError, JobError
from freshline.services.delta_log_writer import DeltaLogWriter
from tests.spark.spark_harness import SparkHarness, flow, job, local_engine
from tests.store_harness import laboratory

pytestmark = pytest.mark.spark

HOURS: dict[str, Any] = {"time": "hour", "start": "2025-12-01"}
DAYS: dict[str, Any] = {"time": "day", "start": "2025-12-30"}
ANY: dict[str, Any] = {"assetId": "raw", "partitions": {"require": "any"}}
Row = tuple[Any, ...]


@pytest.fixture
def harness(database_url: str, tmp_path: Path, spark: SparkSession) -> Iterator[SparkHarness]:
    """Yield a harness with a fresh store, on the session of all tests."""
    with laboratory(database_url, warehouse=str(tmp_path / "w")) as lab:
        yield SparkHarness(lab, local_engine(spark))


class World:
    """A source with one file per hour, and tables made from it."""

    def __init__(self, harness: SparkHarness, tmp_path: Path) -> None:
        self.harness = harness
        self.lab = harness.lab
        self.data = tmp_path / "orders"

    def apply(self, *flows: dict[str, Any], partitioning: Mapping[str, Any] = HOURS) -> None:
        path = str(self.data / "{partitionKey}")
        source = {"assetId": "raw", "format": "csv", "path": path, "partitioning": dict(partitioning)}
        self.lab.apply(*flows, sources=(source,))

    def report(self, key: str, *rows: Row, columns: Sequence[str] = ("n",)) -> None:
        """Write the rows of a partition of the source, and report it."""
        directory = self.data / key.replace(":", "%3A")
        directory.mkdir(parents=True, exist_ok=True)
        lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
        (directory / "rows.csv").write_text("\n".join(lines) + "\n")
        self.lab.report("raw", str(rows), partition_key=key)

    def work(self) -> list[tuple[str, str]]:
        """Settle and execute until nothing is left to do; return what ran."""
        before = len(self.lab.runs())
        self.harness.work()
        return [(run["slug"], run["partition_key"]) for run in self.lab.runs()[before:]]

    def log(self) -> None:
        """Write the Delta logs."""
        writer = DeltaLogWriter(self.lab.store)
        while writer.run_once():
            pass

    def table(self, asset_id: str, version: int | None = None) -> list[Row]:
        """Return the whole table as Polars reads it."""
        found = pl.read_delta(str(self.lab.warehouse / asset_id), version=version)
        return sorted(found.rows())

    def heads(self, asset_id: str) -> dict[str, dict[str, Any]]:
        """Return the heads of an asset by partition."""
        found = self.lab.rows("SELECT * FROM heads WHERE asset_id = %s ORDER BY partition_key", asset_id)
        return {row["partition_key"]: row for row in found}


@pytest.fixture
def world(harness: SparkHarness, tmp_path: Path) -> World:
    """Return a world without data."""
    return World(harness, tmp_path)


def days(
    slug: str, made: str | Mapping[str, Any], consumes: list[Any] | None = None, **produced: Any
) -> dict[str, Any]:
    """Return a workflow with one partition per day."""
    partitioning = {**DAYS, **produced.pop("partitioning", {})}
    return flow(slug, made, consumes or [ANY], partitioning=partitioning, **produced)


def test_hours_become_days_and_a_total(world: World) -> None:
    """A run reads the rows of its own hours, adds the day, and replaces that partition of one table."""
    world.apply(
        days("daily", "SELECT sum(n) AS n, :partition_key AS k, :partition_start AS s FROM raw"),
        flow("total", "SELECT sum(n) AS n, count(DISTINCT day) AS days FROM daily", "daily"),
    )
    world.report("2025-12-31T05", (1,), (2,))
    world.report("2025-12-31T06", (4,))
    world.report("2026-01-01T00", (8,))
    assert sorted(world.work()) == [("daily", "2025-12-31"), ("daily", "2026-01-01"), ("total", "")]
    world.report("2025-12-31T06", (5,))
    assert world.work() == [("daily", "2025-12-31"), ("total", "")]
    world.log()

    def day(number: int, key: str) -> Row:
        return (number, key, datetime.fromisoformat(key).replace(tzinfo=UTC), date.fromisoformat(key))

    first, second = day(8, "2025-12-31"), day(8, "2026-01-01")
    assert world.table("daily") == [first, second]
    assert world.harness.rows("total") == [(16, 2)]
    versions = world.lab.rows("SELECT * FROM snapshots WHERE asset_id = 'daily' ORDER BY table_version")
    assert [row["table_version"] for row in versions] == [0, 1, 2], "one number over all partitions"
    assert world.table("daily", 1) == sorted([day(7, "2025-12-31"), second]), "the whole table as it was"
    assert len(world.table("daily", 0)) == 1
    whole = DeltaTable(str(world.lab.warehouse / "daily"))
    assert whole.metadata().partition_columns == ["day"]
    assert len(whole.file_uris(file_pruning_predicate=[("day", "=", "2026-01-01")])) == 1, "readers skip other days"
    arrow = whole.to_pyarrow_dataset()
    assert duckdb.sql("SELECT n FROM arrow WHERE day = DATE '2026-01-01'").fetchall() == [(8,)]
    assert arrow is not None


@pytest.mark.full
def test_rows_of_another_partition_fail_the_run(world: World) -> None:
    """They would be lost or doubled: nothing is published, and the error says what is allowed."""
    world.apply(days("daily", "SELECT n, CAST(d AS DATE) AS day FROM raw"))
    world.report("2025-12-31T05", (1, "2025-12-31"), (2, "2026-01-01"), (3, ""), columns=("n", "d"))
    with pytest.raises(CheckError, match=r"2 rows have another 'day' .* such as 2026-01-01; allowed is 2025-12-31"):
        world.work()
    assert world.heads("daily") == {}
    assert world.lab.runs("daily")[0]["error"]["code"] == "check"
    world.lab.advance(hours=1)
    world.report("2025-12-31T05", (1, "2025-12-31"), columns=("n", "d"))
    world.work()
    assert world.heads("daily").keys() == {"2025-12-31"}


@pytest.mark.full
def test_a_partition_column_of_another_type_is_refused(world: World) -> None:
    """Before anything is computed."""
    world.apply(days("daily", "SELECT n, :partition_key AS day FROM raw"))
    world.report("2025-12-31T05", (1,))
    with pytest.raises(JobError, match="column 'day' holds the partition, and its type is STRING; allowed is DATE"):
        world.work()


@pytest.mark.full
def test_a_job_knows_its_partition(world: World) -> None:
    """Its key, its window in its time zone, and the partitions that it reads."""
    world.apply(days("daily", job("day_of_hours"), partitioning={"timezone": "Europe/Berlin"}))
    for hour in ("2025-12-30T22", "2025-12-30T23", "2025-12-31T22"):
        world.report(hour, (1,))
    assert sorted(world.work()) == [("daily", "2025-12-30"), ("daily", "2025-12-31")]
    world.log()
    second = world.table("daily")[1]
    begin, end = datetime(2025, 12, 30, 23, tzinfo=UTC), datetime(2025, 12, 31, 23, tzinfo=UTC)
    hours = ["2025-12-30T23", "2025-12-31T22"]
    assert second == ("2025-12-31", ["2025-12-31"], begin, end, hours, 2, True, date(2025, 12, 31))


@pytest.mark.full
def test_an_input_is_cut_to_the_window_by_its_time(world: World) -> None:
    """Days of Kolkata begin between two hours in UTC: each row is in exactly one of them."""
    cut = {"assetId": "raw", "partitions": {"timeColumn": "at", "require": "any"}}
    world.apply(days("daily", "SELECT sum(n) AS n FROM raw", [cut], partitioning={"timezone": "Asia/Kolkata"}))
    world.report("2025-12-30T18", (1, "2025-12-30T18:29:59Z"), (2, "2025-12-30T18:30:00Z"), columns=("n", "at"))
    assert sorted(world.work()) == [("daily", "2025-12-30"), ("daily", "2025-12-31")]
    world.log()
    assert world.table("daily") == [(1, date(2025, 12, 30)), (2, date(2025, 12, 31))]


@pytest.mark.full
def test_append_and_merge_stay_inside_the_partition(world: World) -> None:
    """Other partitions are as they were; changed code replaces a partition that was merged."""
    key = {"mode": "merge", "keys": ["n"]}
    world.apply(days("daily", "SELECT n, max(v) AS v FROM raw GROUP BY n", table=key))
    world.report("2025-12-31T05", (1, 1), (2, 1), columns=("n", "v"))
    world.report("2026-01-01T05", (1, 7), columns=("n", "v"))
    world.work()
    world.report("2025-12-31T05", (2, 2), (3, 2), columns=("n", "v"))
    world.work()
    world.log()
    one, two = date(2025, 12, 31), date(2026, 1, 1)
    assert world.table("daily") == [(1, 1, one), (1, 7, two), (2, 2, one), (3, 2, one)]
    world.apply(days("daily", "SELECT n, max(v) + 0 AS v FROM raw GROUP BY n", table=key))
    world.work()
    world.log()
    assert world.table("daily") == [(1, 7, two), (2, 2, one), (3, 2, one)], "what the code before had merged is gone"


@pytest.mark.full
def test_a_consumer_without_partitions_knows_what_changed(world: World) -> None:
    """Partitions whose data is as it was read are left out."""
    world.apply(days("daily", "SELECT sum(n) AS n FROM raw"), flow("keys", job("changed_days"), "daily"))
    for hour in ("2025-12-31T05", "2026-01-01T05"):
        world.report(hour, (1,))
    world.work()
    world.report("2026-01-01T05", (2,))
    world.report("2026-01-02T05", (2,))
    world.work()
    assert [line for line in world.harness.lines if "changed:" in line][-1].endswith("changed: 2026-01-01 2026-01-02")


@pytest.mark.full
def test_a_chain_reads_the_day_before(world: World) -> None:
    """The first day of a chain reads nothing of it; later ones read the balance of the day before."""
    own = {"assetId": "balance", "partitions": {"window": {"from": -1, "to": -1}}}
    world.apply(days("balance", job("balance"), [{"assetId": "raw"}, own]), partitioning=DAYS)
    for number, day in enumerate(("2025-12-30", "2025-12-31", "2026-01-01")):
        world.report(day, (10**number,))
    assert world.work() == [("balance", day) for day in ("2025-12-30", "2025-12-31", "2026-01-01")]
    world.log()
    assert [row[0] for row in world.table("balance")] == [1, 11, 111]
    world.report("2025-12-30", (5,))
    assert world.work() == [("balance", day) for day in ("2025-12-30", "2025-12-31", "2026-01-01")]
    world.log()
    assert [row[0] for row in world.table("balance")] == [5, 15, 115]
