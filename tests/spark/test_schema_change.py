"""`schemaChange: strict`: a table whose columns are others than before is not published."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from freshline.errors import CheckError, JobError
from tests.spark.spark_harness import SparkHarness, flow, local_engine
from tests.store_harness import laboratory

pytestmark = pytest.mark.spark

FIRST = "SELECT 1 AS a, 'x' AS b, named_struct('c', 1) AS s"
COLUMNS = "a int, b string, s struct<c:int>"
OTHERS = {
    "added": ("SELECT 1 AS a, 'x' AS b, named_struct('c', 1) AS s, 2 AS d", f"{COLUMNS}, d int"),
    "removed": ("SELECT 1 AS a, 'x' AS b", "a int, b string"),
    "retyped": ("SELECT 1L AS a, 'x' AS b, named_struct('c', 1) AS s", "a bigint, b string, s struct<c:int>"),
    "retyped inside": ("SELECT 1 AS a, 'x' AS b, named_struct('c', 1L) AS s", "a int, b string, s struct<c:bigint>"),
    "reordered": ("SELECT 'x' AS b, 1 AS a, named_struct('c', 1) AS s", "b string, a int, s struct<c:int>"),
}


@pytest.fixture
def harness(database_url: str, tmp_path: Path, spark: SparkSession) -> Iterator[SparkHarness]:
    """Yield a harness in whose store the first version of a strict table was published."""
    with laboratory(database_url, warehouse=str(tmp_path / "w")) as lab:
        harness = SparkHarness(lab, local_engine(spark))
        declare(harness, FIRST)
        harness.run("out")
        yield harness


def declare(harness: SparkHarness, query: str) -> None:
    """Define the table by this query from now on."""
    harness.lab.apply(flow("out", query, auto=None, schemaChange="strict"))


def test_other_columns_are_refused(harness: SparkHarness) -> None:
    """Added, removed, retyped and reordered columns fail the run and are named; nothing is written or published."""
    before = harness.snapshot("out")
    for what, (query, now) in OTHERS.items():
        declare(harness, query)
        with pytest.raises(CheckError) as caught:
            harness.run("out")
        assert str(caught.value) == (
            "asset 'out': its columns changed and schemaChange is 'strict': "
            f"before {COLUMNS}; now {now}; nothing was published"
        ), what
    assert [run["status"] for run in harness.lab.runs("out")] == ["succeeded"] + ["failed"] * len(OTHERS)
    assert harness.snapshot("out") == before
    data = harness.lab.warehouse / "out" / "data"
    assert len(list(data.iterdir())) == 1, "there is no file of what was refused"


def test_other_values_of_the_same_columns_are_published(harness: SparkHarness) -> None:
    """The first version has nothing to differ from; later ones may have other rows, and nulls where none were."""
    assert harness.rows("out") == [(1, "x", (1,))]
    declare(harness, "SELECT IF(id = 0, 2, NULL) AS a, 'y' AS b, named_struct('c', 3) AS s FROM range(1)")
    harness.run("out")
    assert harness.rows("out") == [(2, "y", (3,))]


@pytest.mark.parametrize("query", ["SELECT count(*) FROM range(3)", "SELECT struct(id AS `the id`) AS s FROM range(3)"])
def test_a_name_that_delta_cannot_store_fails_before_anything_is_written(harness: SparkHarness, query: str) -> None:
    """Such a table would have no log. The error says what to do."""
    harness.lab.apply(flow("out", query, auto=None))
    with pytest.raises(JobError, match=r"the name of column '.*' has one of the characters .* no Delta table") as error:
        harness.run("out")
    assert ".alias('name')" in (error.value.hint or "")
    assert len(list((harness.lab.warehouse / "out" / "data").iterdir())) == 1, "there is no file of what was refused"
