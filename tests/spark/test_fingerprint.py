"""The data version changes if and only if the content does."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from freshline.definitions.schema.workflow import Produces
from freshline.model.run import PinnedInput, StagedOutput
from freshline.spark.fingerprint import MAX_TALLIED_ROWS, aggregates, fingerprint
from freshline.spark.staging import Staging, write
from freshline.storage import layout
from freshline.storage.base import Storage
from freshline.storage.local import LocalStorage

pytestmark = pytest.mark.spark

SCHEMA = (
    "i int, d double, f float, t string, a array<double>, n array<array<int>>, "
    "s struct<x: int, y: struct<z: double>>, m map<string, double>, l array<struct<k: int, v: string>>, "
    "mm map<int, map<string, int>>, b byte, sh short, lo long, bo boolean, bi binary, de decimal(9, 2), "
    "wide decimal(38, 2), da date, ts timestamp, ntz timestamp_ntz, "
    "in struct<de: decimal(38, 2), l: array<timestamp>, m: map<date, binary>>"
)
FLOATS = [0.0, -0.0, math.nan, math.inf, 1.5, None]
SMALL = [None, 0, 1]
WORDS = [None, "", "a", "\x00"]
BYTES = [None, b"", b"a", b"\x00", b"\xff"]
DECIMALS = [None, Decimal(0), Decimal("-0.0"), Decimal("1.5"), Decimal("1.50"), Decimal("-1.5")]
WIDE = [*DECIMALS, Decimal(10) ** 35, -(Decimal(10) ** 35)]
DATES = [None, date(1970, 1, 1), date(1970, 1, 2), date(1969, 12, 31), date(1, 1, 1)]
LOCAL = [None, datetime(1970, 1, 1), datetime(1970, 1, 1, microsecond=1), datetime(1969, 12, 31, 23)]  # noqa: DTZ001
# The same moment on two clocks is one value.
MOMENTS = [
    None,
    *(datetime(1970, 1, 2, hour, tzinfo=timezone(timedelta(hours=hour))) for hour in (0, 1)),
    datetime(1970, 1, 2, 1, tzinfo=UTC),
    datetime(1970, 1, 2, microsecond=1, tzinfo=UTC),
]


def table_of(choose: random.Random) -> list[tuple[Any, ...]]:
    """Draw a few rows of few different values, so that many tables are equal and many differ by little."""
    return [row_of(choose) for _ in range(choose.choice([0, 1, 1, 2, 2, 3]))]


def row_of(choose: random.Random) -> tuple[Any, ...]:
    """Mostly nulls: one or two columns have a value."""
    makers: list[Callable[[], Any]] = [
        lambda: choose.choice(SMALL),
        lambda: choose.choice(FLOATS),
        lambda: choose.choice(FLOATS),
        lambda: choose.choice(WORDS),
        lambda: [choose.choice(FLOATS) for _ in range(choose.randint(0, 2))],
        lambda: [choose.choice([None, [], [1], [1, None]]) for _ in range(choose.randint(0, 2))],
        lambda: (choose.choice(SMALL), choose.choice([None, (choose.choice(FLOATS),)])),
        lambda: {key: choose.choice(FLOATS) for key in choose.sample(["a", "b"], choose.randint(0, 2))},
        lambda: [choose.choice([None, (choose.choice(SMALL), choose.choice(WORDS))])],
        lambda: {1: choose.choice([None, {}, {"a": choose.choice(SMALL)}])},
        lambda: choose.choice([*SMALL, -128, 127]),
        lambda: choose.choice([*SMALL, -(2**15), 2**15 - 1]),
        lambda: choose.choice([*SMALL, -(2**63), 2**63 - 2, 2**63 - 1]),
        lambda: choose.choice([None, False, True]),
        lambda: choose.choice(BYTES),
        lambda: choose.choice(DECIMALS),
        lambda: choose.choice(WIDE),
        lambda: choose.choice(DATES),
        lambda: choose.choice(MOMENTS),
        lambda: choose.choice(LOCAL),
        lambda: (choose.choice(WIDE), [choose.choice(MOMENTS)], {choose.choice(DATES[1:]): choose.choice(BYTES)}),
    ]
    filled = choose.sample(range(len(makers)), choose.choice([0, 1, 1, 2]))
    return tuple(make() if i in filled else None for i, make in enumerate(makers))


def canonical(value: Any) -> Any:
    """Return a hashable value that is equal for equal content: the slow oracle."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0  # -0.0 + 0.0 is 0.0
    if isinstance(value, dict):
        return ("map", frozenset((key, canonical(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return (type(value).__name__, *map(canonical, value))
    return value


def test_versions_are_equal_exactly_where_an_oracle_says_so(spark: SparkSession) -> None:
    """Over random tables of all types, nested values, nulls, -0.0 and NaN: equal versions, equal multisets of rows."""
    choose = random.Random(7)  # noqa: S311
    tables = [table_of(choose) for _ in range(1_500)]
    tables += [choose.sample(table, len(table)) for table in tables]  # the same rows in another order
    found = versions(spark, tables, SCHEMA)
    contents: dict[str, set[Any]] = {}
    for n, version in found.items():
        contents.setdefault(version, set()).add(frozenset(Counter(map(canonical, tables[n])).items()))
    assert all(len(content) == 1 for content in contents.values()), "two contents have one version"
    assert len(contents) == len(set().union(*contents.values())), "one content has two versions"
    assert len(contents) > 500


def versions(spark: SparkSession, tables: Sequence[Sequence[tuple[Any, ...]]], ddl: str) -> dict[int, str]:
    """Return the data version of each table, by its place; all in one pass."""
    fields = StructType.fromDDL(ddl).fields
    rows = [(n, *row) for n, table in enumerate(tables) for row in table]
    data = spark.createDataFrame(rows, f"which int, {ddl}").repartition(5)
    seen = data.groupBy("which").agg(*aggregates(fields)).collect()
    return {row["which"]: fingerprint(row.asDict(), fields).version for row in seen}


def test_columns_that_look_alike_are_kept_apart(spark: SparkSession) -> None:
    """Values that move to another column, that rows exchange, and that stand in all columns at once."""
    choose, width = random.Random(11), 64  # noqa: S311
    alike = [[(value,) * width] for value in range(60)]
    moved = [[tuple(int(i == place) for i in range(width))] for place in range(width)]
    exchanged = []
    for _ in range(100):
        one, other, first = (choose.sample(range(100, 10**6), width) for _ in range(3))
        place = choose.randrange(width)
        swapped = [[*row[:place], instead[place], *row[place + 1 :]] for row, instead in ((one, other), (other, one))]
        exchanged += [[tuple(one), tuple(other)], [tuple(row) for row in swapped], [tuple(first)]]
    found = versions(spark, alike + moved + exchanged, ", ".join(f"c{i} int" for i in range(width)))
    assert len(set(found.values())) == len(found) == 60 + width + 300


def staged(table: DataFrame, directory: Path, **produced: Any) -> StagedOutput:
    """Write `table` as an output."""
    target = f"out/data/try-{len(list(directory.glob('out/data/*')))}"
    produces = Produces.model_validate({"assetId": "out", **produced})
    return write(table, Staging("out", "step", LocalStorage(directory), target, produces))


def version(table: DataFrame, directory: Path, **rule: Any) -> str | None:
    """Return the data version of `table` as written."""
    return staged(table, directory, dataVersion=rule).data_version


def test_files_and_order_do_not_count_but_duplicates_and_columns_do(spark: SparkSession, tmp_path: Path) -> None:
    """Sorting and partitioning keep the version; a duplicate, a column's name, type or place changes it."""
    table = spark.range(200).selectExpr("id", "id % 7 AS k", "cast(id AS string) AS t")
    original = version(table, tmp_path)
    assert original is not None
    assert original.startswith("fp1:")
    same = [
        table.repartition(3),
        table.orderBy(F.desc("t")).coalesce(1),
        table.filter("id < 100").union(table.filter("id >= 100")),
    ]
    assert {version(other, tmp_path) for other in same} == {original}
    others = [
        table.union(table.limit(1)),
        table.union(table),
        table.select("id", "t", "k"),
        table.withColumnRenamed("k", "kk"),
        table.withColumn("k", F.col("k").cast("int")),
        table.withColumn("k", F.when(F.col("id") == 3, None).otherwise(F.col("k"))),
    ]
    versions = [version(other, tmp_path) for other in others]
    assert len({original, *versions}) == len(others) + 1


def test_nothing_is_written_beside_the_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No checksums and no markers that would be removed again; and users' own writes stay as they are."""
    written: list[str] = []

    def seal(storage: Storage, directory: str) -> dict[str, Any]:
        written.extend(file.suffix for file in (tmp_path / directory).iterdir())
        return sealed(storage, directory)

    sealed = layout.seal
    monkeypatch.setattr(layout, "seal", seal)
    staged(spark.range(10).repartition(2), tmp_path)
    assert written == [".parquet"] * 2
    spark.range(10).write.parquet(str(tmp_path / "theirs"))
    assert ".crc" in {file.suffix for file in (tmp_path / "theirs").iterdir()}


def test_empty_tables_and_nullability(spark: SparkSession, tmp_path: Path) -> None:
    """An empty table has a version of its own per schema; whether a column may be null does not count."""
    empty = spark.createDataFrame([], "a int")
    assert version(empty, tmp_path) == version(spark.range(0).selectExpr("cast(id AS int) AS a"), tmp_path)
    assert version(empty, tmp_path) != version(spark.createDataFrame([], "b int"), tmp_path)
    assert staged(empty, tmp_path).rows == 0


def test_excluded_columns_and_digits_do_not_count(spark: SparkSession, tmp_path: Path) -> None:
    """Load times and the noise of sums of doubles can be left out of the version, nested ones too.

    See docs/semantics.md#R9.6.
    """
    first = spark.sql("SELECT 1 AS a, 0.1D + 0.2D AS b, array(0.1D + 0.2D) AS c, current_timestamp() AS At")
    second = spark.sql("SELECT 1 AS a, 0.3D AS b, array(0.3D) AS c, timestamp '2024-01-01' AS At")
    assert version(first, tmp_path, exclude=["at"]) != version(second, tmp_path, exclude=["at"])
    assert version(first, tmp_path, digits=9) != version(second, tmp_path, digits=9)
    assert version(first, tmp_path, exclude=["at"], digits=9) == version(second, tmp_path, exclude=["at"], digits=9)
    assert version(first, tmp_path, source="none") is None


def test_the_entries_of_a_map_have_no_order(spark: SparkSession, tmp_path: Path) -> None:
    """Two maps with the same entries are one content, inside of arrays too."""
    first, second = "map('a', map(1, 2, 3, 4), 'b', NULL)", "map('b', NULL, 'a', map(3, 4, 1, 2))"
    versions = [version(spark.sql(f"SELECT {m} AS m, array({m}) AS a"), tmp_path) for m in (first, second)]
    assert versions[0] == versions[1]


def test_parts_combine_to_the_whole(spark: SparkSession, tmp_path: Path) -> None:
    """Counts and sums add: what is stored beside a table is enough to append to it (docs/semantics.md#R9.5)."""
    table = spark.range(100).toDF("a")
    one, two, whole = (
        staged(part, tmp_path).location["fingerprint"]  # type: ignore[index]
        for part in (table.filter("a < 30"), table.filter("a >= 30"), table)
    )
    assert one["rows"] + two["rows"] == whole["rows"]
    assert {name: seen ^ two["columns"][name] for name, seen in one["columns"].items()} == whole["columns"]
    assert [a + b for a, b in zip(one["sums"], two["sums"], strict=True)] == list(whole["sums"])
    assert one["schema"] == two["schema"] == whole["schema"]


def test_rows_in_pairs_count(spark: SparkSession, tmp_path: Path) -> None:
    """Tables in which every row is there twice differ where their rows do: an xor would not see them."""
    pairs = [spark.sql(f"SELECT id + {n} AS a FROM range(50)") for n in (0, 1)]
    assert len({version(rows.union(rows), tmp_path) for rows in pairs}) == 2


@pytest.mark.parametrize("changed", range(6))
def test_the_columns_that_changed_are_told_apart(spark: SparkSession, tmp_path: Path, changed: int) -> None:
    """Each has a tally of its own, also where they share a number."""
    names = [f"IF(id = 7 AND {{}} = {i}, -1, id * {i}) AS c{i}" for i in range(6)]
    before, now = (
        staged(spark.range(20).selectExpr(*(name.format(n) for name in names)), tmp_path).location["fingerprint"]  # type: ignore[index]
        for n in (-1, changed)
    )
    assert [name for name, seen in now["columns"].items() if before["columns"][name] != seen] == [f"c{changed}"]


def test_columns_of_large_tables_are_not_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    """The version is the same with and without; rows that are appended later do not pretend to tell."""
    table = spark.range(5).toDF("a")
    small, large = (
        write(table, Staging("out", "step", LocalStorage(tmp_path), str(rows), None, head_of(table, rows)))
        for rows in (MAX_TALLIED_ROWS, MAX_TALLIED_ROWS + 1)
    )
    assert small.data_version == large.data_version
    assert [bool((one.location or {})["fingerprint"]["columns"]) for one in (small, large)] == [True, False]
    added = Produces.model_validate({"assetId": "out", "table": {"mode": "append"}})
    head = PinnedInput("out", 1, "v", large.location, schema=large.schema, parts=[(1, "large")], rows=5)
    more = write(table, Staging("out", "step", LocalStorage(tmp_path), "more", added, head, replace=False))
    assert (more.rows, (more.location or {})["fingerprint"]["columns"]) == (10, {})


def head_of(table: DataFrame, rows: int) -> PinnedInput:
    """Return a head that has `rows` rows."""
    return PinnedInput("out", 1, "v", None, schema=table.schema.jsonValue(), rows=rows)


def test_strange_types_and_names_have_versions(spark: SparkSession, tmp_path: Path) -> None:
    """Variants, intervals, binaries, decimals, collations, 70 columns, and names with dots and backticks."""
    variant = "SELECT parse_json('{}') AS v, binary('x') AS b, 1.50BD AS d, 'a' COLLATE UTF8_LCASE AS `c``.d`"
    first = version(spark.sql(variant.format('{"a":1}')), tmp_path)
    assert first == version(spark.sql(variant.format('{"a": 1}')), tmp_path)
    assert first != version(spark.sql(variant.format('{"a":2}')), tmp_path)
    wide = ", ".join(f"IF({{}} = {i}, NULL, 1) AS c{i}" for i in range(70))
    versions = {version(spark.sql(f"SELECT {wide.replace('{}', str(i))}"), tmp_path) for i in (0, 31, 32, 61, 62, 69)}
    assert len(versions) == 6
