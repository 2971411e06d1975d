"""Consumers that are cut off by columns: their outputs equal those without a cutoff (docs/semantics.md#R1.6)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.spark_harness import Rows, SparkHarness, flow, job, local_engine
from tests.store_harness import laboratory

pytestmark = pytest.mark.spark
COLUMNS = ("a", "b", "c", "d")
QUERIES = {  # and the columns that each reads; None: whole rows
    "grouped": ("SELECT a, count(*) AS n, max(b) AS m FROM wide GROUP BY a", {"a", "b"}),
    "filtered": ("SELECT a FROM wide WHERE c > 1", {"a", "c"}),
    "joined": ("SELECT x.a, y.d FROM wide x JOIN wide y ON x.b = y.b WHERE y.d IS NOT NULL", {"a", "b", "d"}),
    "counted": ("SELECT count(*) AS n FROM wide", set()),
    "named": (
        "WITH q AS (SELECT b, d FROM wide) SELECT DISTINCT b FROM q WHERE d = (SELECT max(d) FROM q)",
        {"b", "d"},
    ),
    "starred": ("SELECT * FROM wide", None),
    "ordered": ("SELECT a, row_number() OVER (ORDER BY a, b, c, d) AS n FROM wide", None),
}


@pytest.fixture
def harness(database_url: str, tmp_path: Path, spark: SparkSession) -> Iterator[SparkHarness]:
    """Yield a harness with a fresh store, on the session of all tests."""
    with laboratory(database_url, warehouse=str(tmp_path / "w"), column_sets=8) as lab:
        yield SparkHarness(lab, local_engine(spark))
        assert lab.store.evaluation.sweep() == 0


def apply(harness: SparkHarness, *slugs: str) -> None:
    """Apply a producer of the rows that were reported, and these consumers."""
    consumers = [flow(slug, QUERIES[slug][0], "wide") for slug in slugs]
    harness.lab.apply(flow("wide", job("wide"), "source"), *consumers)


def publish(harness: SparkHarness, rows: Rows) -> set[str]:
    """Report rows and let everything run; return the consumers that ran."""
    harness.lab.report("source", payload=[list(row) for row in rows])
    return set(harness.work()) - {"wide"}


def computed(spark: SparkSession, rows: Rows, query: str) -> Rows:
    """Return what a query returns."""
    view = spark.createDataFrame(rows, "a int, b int, c int, d int")
    view.createOrReplaceTempView("wide")
    return sorted((tuple(row) for row in spark.sql(query).collect()), key=repr)


def test_a_swap_of_values_runs_the_consumers_of_these_columns(harness: SparkHarness) -> None:
    """The columns hold the same values as before, in other rows."""
    apply(harness, "grouped", "filtered", "starred")
    rows: Rows = [(1, 1, 5, 1), (2, 2, 5, 2)]
    publish(harness, rows)
    publish(harness, [(*row[:3], 9) for row in rows])  # from here on the producer knows the sets
    publish(harness, [(*row[:2], 6, 9) for row in rows])
    assert publish(harness, [(1, 2, 6, 9), (2, 1, 6, 9)]) == {"grouped", "starred"}
    assert publish(harness, [(1, 2, 7, 9), (2, 1, 7, 9)]) == {"filtered", "starred"}


def test_a_new_column_runs_every_consumer(harness: SparkHarness, spark: SparkSession) -> None:
    """Names of a query can mean other columns now."""
    apply(harness, "grouped", "counted")
    for number in (1, 2, 3):
        publish(harness, [(1, 1, 1, number)])
    assert publish(harness, [(1, 1, 1, 4)]) == set()
    assert publish(harness, [(1, 1, 1, 4, 5)]) == {"grouped", "counted"}


def check(harness: SparkHarness, spark: SparkSession, seed: int, changes: int) -> None:
    """Change random columns of a random table; compare runs with the columns that changed, and all outputs."""
    luck = random.Random(seed)  # noqa: S311
    slugs = luck.sample(sorted(QUERIES), 4)
    apply(harness, *slugs)
    rows: Rows = [(7, 7, 7, 7)] * luck.randint(2, 4)
    cut_off = 0
    for number in range(changes):
        before = rows
        # The first run says what is read, and what the second one reads has versions.
        if number == 1:
            rows = [tuple(luck.randint(0, 2) for _ in COLUMNS) for _ in range(len(rows) + 1)]
        elif number > 1:
            rows = _changed(luck, rows)
        ran = publish(harness, rows)
        for slug in slugs:
            query, columns = QUERIES[slug]
            assert harness.rows(slug) == computed(spark, rows, query), (seed, number, slug, before, rows)
            if number > 1 and columns is not None:
                assert (slug in ran) == _differs(before, rows, columns), (seed, number, slug, before, rows)
                cut_off += slug not in ran and sorted(before) != sorted(rows)
    assert cut_off, "nothing was cut off"


def _changed(luck: random.Random, rows: Rows) -> Rows:
    """Return rows with one or two columns changed in some rows, with a row more or less, or as they are."""
    kind = luck.random()
    if kind < 0.1:
        return rows[1:] or [(0, 0, 0, 0)]
    if kind < 0.2:
        return [*rows, luck.choice(rows)]
    chosen = luck.sample(range(len(COLUMNS)), luck.choice((1, 1, 2)))
    if kind < 0.4:  # shuffle the values of a column
        values = [[row[at] for row in rows] for at in range(len(COLUMNS))]
        for at in chosen:
            luck.shuffle(values[at])
        return list(zip(*values, strict=True))
    return [tuple(luck.randint(0, 2) if at in chosen else value for at, value in enumerate(row)) for row in rows]


def _differs(before: Rows, after: Rows, columns: set[str]) -> bool:
    def projected(rows: Rows) -> Rows:
        return sorted(tuple(row[COLUMNS.index(name)] for name in sorted(columns)) for row in rows)

    return projected(before) != projected(after)


def test_outputs_equal_those_without_a_cutoff(harness: SparkHarness, spark: SparkSession) -> None:
    """Over random changes and queries."""
    check(harness, spark, 11, 8)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(8))
def test_many_outputs_equal_those_without_a_cutoff(harness: SparkHarness, spark: SparkSession, seed: int) -> None:
    """The same, for long."""
    check(harness, spark, seed, 25)
