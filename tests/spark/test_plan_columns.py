"""Spark's analysed plan confirms which columns a query reads."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from freshline.definitions.sql.lint import parsed
from freshline.definitions.sql.read_columns import read_columns
from freshline.spark.plan_columns import analysed_plan, columns_of, plan_columns
from tests.definitions.test_read_columns import READ

pytestmark = pytest.mark.spark
VIEWS = {"t": ("id", "b c", "C", "st"), "u": ("id", "c")}
# The text and the plan differ, or the plan has an operator that is not known.
DIFFERENT = (
    "SELECT id AS x, x + 1 AS y FROM t",
    "SELECT id, 'a#1' AS name FROM t",
    "SELECT id FROM t -- unchecked",
)


@pytest.fixture(autouse=True)
def views(spark: SparkSession) -> None:
    """Create the views. One is a projection of another: what is below a view is not what a query reads."""
    rows = spark.range(3).selectExpr("id", "id * 2 AS `b c`", "id AS C", "named_struct('x', id) AS st")
    rows.createOrReplaceTempView("t")
    rows.select("id", rows.C.alias("c")).createOrReplaceTempView("u")


def plan(spark: SparkSession, query: str) -> str:
    """Return the analysed plan of a query."""
    return analysed_plan(spark.sql(query, args={"p": 1} if ":p" in query else None), classic=True)


@pytest.mark.parametrize(("query", "columns"), READ)
def test_the_plan_reads_the_same_columns(spark: SparkSession, query: str, columns: Any) -> None:
    """Both analyses agree, whichever names the columns have."""
    found = plan(spark, query)
    assert plan_columns(found, VIEWS) == columns
    assert columns_of(query, found, VIEWS) == columns


@pytest.mark.parametrize("query", DIFFERENT)
def test_where_both_differ_whole_rows_are_read(spark: SparkSession, query: str) -> None:
    """Whichever of the two is right."""
    assert columns_of(query, plan(spark, query), VIEWS) is None


def test_more_columns_than_spark_shows_by_default(spark: SparkSession) -> None:
    """Spark cuts lists of more than 25 columns, and asks the active session how many, which may be another one."""
    names = [f"c{n}" for n in range(60)]
    spark.range(1).selectExpr(*(f"id AS {name}" for name in names)).createOrReplaceTempView("wide")
    before = spark.conf.get("spark.sql.debug.maxToStringFields")
    query = "SELECT c3, c59 FROM wide"
    spark.newSession().sql("SELECT 1").collect()
    found: Any = columns_of(query, plan(spark, query), {"wide": names})
    assert found == {"wide": {"c3", "c59"}}
    assert spark.conf.get("spark.sql.debug.maxToStringFields") == before


@pytest.mark.parametrize(
    "text",
    [
        "GlobalLimit 5\n+- View (`t`, [id#1L, b c#2L, C#3, st#4])",
        "Project [id#1L]\n+- View (`t`, [id#1L, ... 3 more fields])",
        "Project [id#1L]\n+- View (`other`, [id#1L])",
        "Project [id#1L]\n+- Relation [id#1L] parquet",
        "",
    ],
)
def test_unknown_plans_read_whole_rows(text: str) -> None:
    """Operators and views that are not known, and lists that were cut."""
    assert not plan_columns(text, VIEWS)
    assert read_columns(parsed("SELECT id FROM t")[0], VIEWS)
