"""`freshline doctor --deep` reads every head: what was published has its fingerprint, and nothing else has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

from freshline.errors import NotFoundError
from freshline.spark import contents
from freshline.store.doctor.contents import HEAD_ROWS, HEAD_UNREAD
from tests.spark.spark_harness import SparkHarness, flow, job, local_engine
from tests.store_harness import laboratory

pytestmark = [pytest.mark.spark, pytest.mark.full]


@pytest.fixture
def harness(database_url: str, tmp_path: Path, spark: SparkSession) -> Iterator[SparkHarness]:
    """Yield a harness with tables of all kinds: appended with a new column, rolled back, split, rounded."""
    append: dict[str, Any] = {"table": {"mode": "append", "onReplacedInput": "append"}}
    rounded: dict[str, Any] = {"dataVersion": {"exclude": ["at"], "digits": 2}}
    with laboratory(database_url, warehouse=str(tmp_path / "w")) as lab:
        harness = SparkHarness(lab, local_engine(spark))
        split = flow("split", "SELECT n % 3 AS k, n FROM numbers", "numbers", table={"partitionBy": ["k"]})
        round_ = flow("rounded", "SELECT n / 7D AS x, current_timestamp() AS at FROM numbers", "numbers", **rounded)
        lab.apply(flow("numbers", job("widening"), "source", **append), split, round_)
        for numbers in ([1, 2], [3], [4, 5]):
            lab.report("source", payload=numbers)
            harness.work()
        for version in (2, 3):
            lab.store.tables.rollback("numbers", version)
        yield harness


def look(harness: SparkHarness, **options: Any) -> tuple[list[str], list[str], list[str]]:
    """Return the wrong heads, the unread ones, and what was shown."""
    shown: list[str] = []
    options = {"limit": 20, "minutes": 60, **options}
    rows, unread = contents.examine(
        harness.lab.store, harness.engine.application.root, progress=shown.append, **options
    )
    assert (rows.check, unread.check) == (HEAD_ROWS, HEAD_UNREAD)
    return list(rows.sentences), list(unread.sentences), shown


def files(harness: SparkHarness, asset: str) -> list[Path]:
    """Return the files of the head's newest version."""
    location = harness.lab.one(
        "SELECT s.location FROM heads h JOIN snapshots s USING (asset_id, sequence) WHERE asset_id = %s", asset
    )
    return [harness.lab.warehouse / name for name in location["files"]]


def test_published_rows_are_found_as_they_were(harness: SparkHarness) -> None:
    """Each table is shown; no minutes are left for any, and one that does not exist is an error."""
    wrong, unread, shown = look(harness)
    assert (wrong, unread) == ([], [])
    assert sorted(line.partition(": ")[2] for line in shown) == [
        f"{name}: as published" for name in ("numbers", "rounded", "split")
    ]
    assert look(harness, assets=["split"])[2] == ["1 of 1: split: as published"]
    assert len(look(harness, minutes=-1)[1]) == 3
    with pytest.raises(NotFoundError, match="no table with a fingerprint: nothing"):
        look(harness, assets=["nothing"])


def test_the_command_reads_the_tables(harness: SparkHarness, database_url: str, tmp_path: Path) -> None:
    """As a process of its own, with its own Spark; a line for each table, and one document."""
    named = {"FRESHLINE_DATABASE_URL": database_url, "FRESHLINE_WAREHOUSE": str(harness.lab.warehouse)}
    command = [str(Path(sys.executable).with_name("freshline")), "doctor", "--deep", "--asset", "split", "--json"]
    ended = subprocess.run(command, env={**os.environ, **named}, cwd=tmp_path, capture_output=True, text=True)  # noqa: PLW1510 - asserted
    assert "1 of 1: split: as published" in ended.stderr
    checks = {check["id"]: check["count"] for check in json.loads(ended.stdout)["checks"]}
    assert (checks["head-rows"], checks["head-unread"]) == (0, 0)


def test_rows_that_are_not_the_published_ones_are_found(harness: SparkHarness) -> None:
    """A valid file with as many other rows, and a file that cannot be read; a table that is right is no finding."""
    changed = next(file for file in files(harness, "numbers") if len(pl.read_parquet(file)))
    pl.read_parquet(changed).with_columns(n=pl.col("n") + 1).write_parquet(changed)
    damaged = files(harness, "split")[0]
    damaged.write_bytes(damaged.read_bytes()[:-4])
    numbers, split = sorted(look(harness)[0])
    assert numbers == "asset 'numbers' version 5: its 5 rows differ from what was published"
    assert split.startswith("asset 'split' version 3: it cannot be read: ")
