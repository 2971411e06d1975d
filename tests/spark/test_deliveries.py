"""Append sources on Spark: every row of every delivery once (docs/semantics.md#R3.4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from freshline.errors import JobError
from tests.spark.spark_harness import SparkHarness, local_engine
from tests.store_harness import ON_UPDATE, laboratory

pytestmark = pytest.mark.spark


@pytest.fixture
def harness(database_url: str, tmp_path: Path, spark: SparkSession) -> Iterator[SparkHarness]:
    """Yield a harness with a fresh store, on the session of all tests."""
    with laboratory(database_url, warehouse=str(tmp_path / "w")) as lab:
        yield SparkHarness(lab, local_engine(spark))


@pytest.fixture
def inbox(harness: SparkHarness, tmp_path: Path) -> Path:
    """Apply a workflow that loads files of a directory into a table; return the directory."""
    directory = tmp_path / "inbox"
    directory.mkdir()
    source = {"assetId": "drop", "mode": "append", "format": "csv", "path": "inbox"}
    harness.lab.apply(loader("SELECT * FROM drop"), sources=(source,), root=tmp_path)
    return directory


def loader(sql: str, **more: Any) -> dict[str, Any]:
    """Return a workflow that appends the new rows of `drop` to `orders`."""
    step = {
        "id": "load",
        "job": {"kind": "spark.sql", "sql": sql},
        "consumes": [{"assetId": "drop", "rows": "new"}],
        "produces": [{"assetId": "orders", "autoMaterialize": ON_UPDATE, "table": {"mode": "append"}}],
        "retry": {"maxAttempts": 1},
    }
    return {"slug": "load", "steps": [step], "backoff": {"baseMs": 1_000}, **more}


def deliver(harness: SparkHarness, inbox: Path, name: str, text: str) -> None:
    """Write a file and report it."""
    (inbox / name).write_text(text)
    harness.lab.report("drop", payload={"path": f"inbox/{name}"})


def test_every_row_of_every_file_is_loaded_once(harness: SparkHarness, inbox: Path) -> None:
    """Three quick reports, the second and third while the first is loaded."""
    deliver(harness, inbox, "1.csv", "n,name\n1,a\n2,b\n")
    harness.lab.settle()
    run = harness.lab.start()
    deliver(harness, inbox, "2.csv", "n,name\n3,c\n")
    deliver(harness, inbox, "3.csv", "n,name\n4,d\n5,e\n")
    harness.execute(run)
    harness.work()
    assert sorted(row[0] for row in harness.rows("orders")) == [1, 2, 3, 4, 5]
    (inbox / "1.csv").unlink()  # it was read, and is not read again
    deliver(harness, inbox, "4.csv", "n,name\n6,f\n")
    harness.work()
    assert sorted(row[0] for row in harness.rows("orders")) == [1, 2, 3, 4, 5, 6]


def test_a_file_with_other_columns_is_an_error_and_loses_nothing(harness: SparkHarness, inbox: Path) -> None:
    """Spark matches the columns of CSV files by position: without this check values would change their columns."""
    deliver(harness, inbox, "1.csv", "n,name\n1,a\n")
    deliver(harness, inbox, "2.csv", "name,n\nb,2\n")
    with pytest.raises(JobError, match=r"2\.csv cannot be read: its header differs") as caught:
        harness.work()
    assert "delivery 2 of 'drop'" in str(caught.value.hint)
    (inbox / "2.csv").write_text("n,name\n2,b\n")
    harness.lab.live(hours=1)
    harness.work()
    assert sorted(harness.rows("orders")) == [(1, "a"), (2, "b")]
