"""Append sources on Spark: every row of every delivery once (docs/semantics.md#R3.4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from freshline.errors import JobError
from tests.spark.spark_harness import SparkHarness, flow, local_engine
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


@pytest.fixture
def parquet(harness: SparkHarness, tmp_path: Path) -> Path:
    """Apply two loaders of a source of Parquet files, and one of another source; return the directory."""
    directory = tmp_path / "inbox"
    directory.mkdir()
    sources = ({"assetId": "drop", "mode": "append", "format": "parquet", "path": "inbox"}, "plain")
    copy = loader("SELECT * FROM drop")
    copy["slug"], copy["steps"][0]["produces"][0]["assetId"] = "copy", "copied"
    apart = flow("apart", "SELECT 1 AS one", "plain")
    harness.lab.apply(loader("SELECT * FROM drop"), copy, apart, sources=sources, root=tmp_path)
    return directory


def arrive(harness: SparkHarness, inbox: Path, name: str, query: str) -> Path:
    """Write a Parquet file and report it; return its path."""
    duckdb.sql(f"COPY ({query}) TO '{inbox / name}' (FORMAT parquet)")
    harness.lab.report("drop", payload={"path": f"inbox/{name}"})
    return inbox / name


def failures(harness: SparkHarness) -> list[str]:
    """Execute until nothing is left to do; return the errors of the runs that failed."""
    found = []
    while True:
        try:
            harness.work()
        except JobError as error:
            found.append(str(error))
        else:
            return found


def test_a_truncated_file_is_named_and_holds_its_consumers_only(harness: SparkHarness, parquet: Path) -> None:
    """The error and the stored run name the delivery and what to do. Others go on, and nothing is lost."""
    arrive(harness, parquet, "1.parquet", "SELECT 1 AS n")
    broken = arrive(harness, parquet, "2.parquet", "SELECT range AS n FROM range(2, 100)")
    broken.write_bytes(broken.read_bytes()[:-20])
    arrive(harness, parquet, "3.parquet", "SELECT 200 AS n")
    harness.lab.report("plain", "1")
    told = failures(harness)
    assert len(told) == 2
    assert all(f"asset 'drop' cannot be read: delivery 2 ({broken})" in one for one in told)
    assert all("`freshline delivery skip drop 2 --reason TEXT`" in one for one in told)
    assert harness.rows("apart") == [(1,)]
    stored = harness.lab.store.reader.runs(1, workflow="load")[0]["error"]
    assert "this is delivery 2 of 'drop'" in str(stored)
    assert {harness.lab.reason(slug) for slug in ("load", "copy")} == {"cooling-down"}
    harness.lab.store.operations.skip_delivery("drop", 2, "truncated")
    assert sorted(harness.work()) == ["copy", "load"]
    assert [row[0] for row in harness.rows("orders")] == [1, 200]


def test_a_delivery_with_other_types_is_named(harness: SparkHarness, parquet: Path) -> None:
    """Among several new files the one that does not fit those before it, and beside a table the new one."""
    arrive(harness, parquet, "1.parquet", "SELECT 1 AS n")
    arrive(harness, parquet, "2.parquet", "SELECT 2 AS n, 'x' AS more")
    arrive(harness, parquet, "3.parquet", "SELECT 'three' AS n")
    arrive(harness, parquet, "4.parquet", "SELECT 4 AS n")
    assert "delivery 3 (" in failures(harness)[0]
    assert "its column 'n' is string, and int in the deliveries before it" in str(harness.lab.store.reader.runs(1)[0])
    harness.lab.store.operations.skip_delivery("drop", 3, "wrong type")
    assert failures(harness) == []
    assert sorted(harness.rows("orders"), key=repr) == [(1, None), (2, "x"), (4, None)]
    arrive(harness, parquet, "5.parquet", "SELECT 'five' AS n, 'y' AS more")
    (told, _) = failures(harness)
    assert "column 'n' was int and is now string" in told
    assert "delivery 5 of 'drop' was new to this run" in told
    assert len(harness.rows("orders")) == 3


def test_a_repeated_delivery_is_read_once_with_a_key_and_told_without(harness: SparkHarness, inbox: Path) -> None:
    """A key removes the repetition. Without one it is another delivery, and the report says so."""
    (inbox / "1.csv").write_text("n,name\n1,a\n")
    payload = {"path": "inbox/1.csv"}
    assert harness.lab.report("drop", payload=payload, key="k")["delivery"] == 1
    assert harness.lab.report("drop", payload=payload, key="k")["duplicate"]
    harness.work()
    (warning,) = harness.lab.report("drop", payload=payload)["warnings"]
    assert "was delivered before as delivery 1: its rows are read again" in warning
    assert "`freshline delivery skip drop 2 --reason TEXT`" in warning
    harness.lab.store.operations.skip_delivery("drop", 2, "repeated")
    harness.work()
    assert harness.rows("orders") == [(1, "a")]
