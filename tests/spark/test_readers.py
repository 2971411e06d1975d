"""Other engines read what was published: Polars and DuckDB agree with Spark on every version and every type.

See docs/semantics.md#R9.7.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

from freshline.definitions.schema.workflow import Table
from freshline.services.delta_log_writer import DeltaLogWriter
from freshline.spark.parquet import write_options
from tests.spark.spark_harness import SparkHarness, flow, job, local_engine
from tests.store_harness import laboratory

pytestmark = pytest.mark.spark
TYPES = """
SELECT * FROM VALUES
 (1Y, 2S, 3, 4L, 1.5F, 2.5D, 12.30BD, 'text', X'CAFE', true, DATE'2013-01-31', TIMESTAMP'2013-01-31 10:11:12.345678',
  TIMESTAMP_NTZ'2013-01-31 10:11:12.345678', array(1, null), map('k', 1), named_struct('a', 1, 'b', 'x')),
 (null, null, null, null, double('NaN'), double('-Infinity'), null, '', X'', null, DATE'1900-01-01',
  TIMESTAMP'1900-01-01 00:00:00', null, array(), map(), named_struct('a', null, 'b', null)),
 (-128Y, -32768S, -2147483648, -9223372036854775808L, -0.0F, 0.0D, -0.01BD, 'ünïcödé', null, false, null, null,
  TIMESTAMP_NTZ'9999-12-31 23:59:59', null, null, null)
AS t (byte, short, int, long, float, double, decimal, string, binary, boolean, date, timestamp, bare, array, map,
      struct)
"""
MANY = """
SELECT if(id % 7 = 0, null, hash(id)) AS int, xxhash64(id) AS long, hash(id) / 7.0D AS double,
       CAST(hash(id) % 128 AS BYTE) AS byte, CAST(hash(id) % 32768 AS SHORT) AS short, CAST(hash(id) AS FLOAT) AS float,
       CAST(hash(id) AS DECIMAL(12, 2)) / 3 AS narrow,
       if(id % 5 = 0, null, concat('https://example.org/ü/', hash(id), '/', id)) AS text, sha2(string(id), 256) AS sha,
       if(id % 3 = 0, null, unhex(md5(string(id)))) AS binary, hash(id) % 2 = 0 AS boolean,
       date_add(DATE'1970-01-01', CAST(hash(id, 1) % 80000 AS INT)) AS date,
       timestamp_micros(hash(id) * 1000003L) AS timestamp,
       CAST(timestamp_micros(id * 86399999L) AS TIMESTAMP_NTZ) AS bare,
       if(id % 11 = 0, null, transform(sequence(0, id % 4), x -> xxhash64(id, x))) AS array,
       map(string(id), hash(id)) AS map, named_struct('a', hash(id), 'b', if(id % 2 = 0, null, string(id))) AS struct
  FROM range(0, 30000, 1, 1)
"""
WIDE = "SELECT CAST(hash(id) AS DECIMAL(19, 9)) AS wide FROM range(0, 120000, 1, 1)"  # too much for a dictionary


@pytest.fixture
def harness(database_url: str, tmp_path: Path, spark: SparkSession) -> Iterator[SparkHarness]:
    """Yield a harness with a fresh store, on the session of all tests."""
    with laboratory(database_url, warehouse=str(tmp_path / "w")) as lab:
        yield SparkHarness(lab, local_engine(spark))


def plain(value: Any) -> Any:
    """One form for what the engines call differently."""
    if isinstance(value, Row):
        return plain(value.asDict())
    match value:
        case float():
            return "NaN" if math.isnan(value) else round(value, 6)
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
        case dict():
            return sorted((str(key), plain(one)) for key, one in value.items())
        case list() | tuple():
            if value and all(isinstance(one, dict) and set(one) == {"key", "value"} for one in value):
                return sorted((str(one["key"]), plain(one["value"])) for one in value)  # a map, as Polars has it
            return [plain(one) for one in value]
        case bytearray():
            return bytes(value)
    return value


def rows(found: list[Any]) -> list[str]:
    """Sorted, as texts."""
    return sorted(repr([plain(value) for value in row]) for row in found)


def read_by_polars(root: Path, version: int) -> list[str]:
    """All rows."""
    return rows(pl.read_delta(str(root), version=version).rows())


def read_by_duckdb(root: Path, version: int) -> list[str]:
    """All rows, through Arrow: DuckDB's own extension would be fetched from the network."""
    delta = DeltaTable(str(root), version=version).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return rows(connection.register("t", delta).execute("FROM t").fetchall())


def check(harness: SparkHarness, asset: str) -> int:
    """Every version, by three engines; how many versions there were."""
    scribe = DeltaLogWriter(harness.lab.store)
    while scribe.run_once():
        pass
    root = harness.lab.warehouse / asset
    found = harness.lab.rows(
        "SELECT table_version AS number, min(sequence) AS sequence FROM snapshots WHERE asset_id = %s GROUP BY 1", asset
    )
    for one in found:
        expected = rows(harness.rows(asset, one["sequence"]))
        assert read_by_polars(root, one["number"]) == expected, f"Polars, {asset} version {one['number']}"
        assert read_by_duckdb(root, one["number"]) == expected, f"DuckDB, {asset} version {one['number']}"
    return len(found)


def test_all_types_are_read_as_they_were_written(harness: SparkHarness) -> None:
    """Nulls, extremes, not-a-number, times with and without a zone, and what is nested."""
    harness.lab.apply(flow("out", TYPES, auto=None))
    harness.run("out")
    assert check(harness, "out") == 1


def files(harness: SparkHarness, asset: str) -> str:
    """Return the files of the head."""
    (directory,) = harness.snapshot(asset)["location"]["paths"]
    return str(harness.lab.warehouse / directory / "*.parquet")


def encodings(harness: SparkHarness, asset: str) -> dict[str, set[str]]:
    """How each column of the head's files is encoded."""
    with duckdb.connect() as connection:
        query = "SELECT path_in_schema, encodings FROM parquet_metadata(?)"
        found = connection.execute(query, [files(harness, asset)]).fetchall()
    return {name: set(texts.split(", ")) for name, texts in found}


@pytest.mark.full
def test_all_encodings_are_read_as_they_were_written(harness: SparkHarness) -> None:
    """Enough different values that no column is a dictionary; nulls between them, and none (ADR 0013)."""
    harness.lab.apply(flow("out", MANY, auto=None))
    harness.run("out")
    seen = encodings(harness, "out")
    assert "DELTA_BINARY_PACKED" in seen["int"] & seen["long"] & seen["timestamp"]
    assert "DELTA_BYTE_ARRAY" in seen["text"] & seen["binary"]
    assert "PLAIN" not in seen["boolean"]
    assert check(harness, "out") == 1
    with duckdb.connect() as connection:  # its own reader, as `freshline show` uses it
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.execute("FROM read_parquet(?)", [files(harness, "out")]).fetchall()
    assert rows(found) == rows(harness.rows("out"))


def test_wide_decimals_are_read_by_all(harness: SparkHarness) -> None:
    """Polars does not know their encoding of version 2 (ADR 0013)."""
    harness.lab.apply(flow("out", WIDE, auto=None))
    harness.run("out")
    assert check(harness, "out") == 1


WIDEST, LONG = DecimalType(19, 9), DecimalType(18, 9)


@pytest.mark.parametrize(
    ("kind", "asked", "version"),
    [
        (LONG, None, 2),
        (WIDEST, None, 1),
        (WIDEST, 2, 2),
        (LONG, 1, 1),
        (ArrayType(WIDEST), None, 1),
        (ArrayType(LONG), None, 2),
        (MapType(LONG, WIDEST), None, 1),
        (MapType(WIDEST, LONG), None, 1),
        (StructType([StructField("a", LONG), StructField("b", ArrayType(WIDEST))]), None, 1),
    ],
)
def test_the_version_of_files_is_chosen_by_the_types(kind: DataType, asked: int | None, version: int) -> None:
    """Wide decimals anywhere, unless the definition says which (ADR 0013)."""
    options = write_options(Table(parquet=asked), StructType([StructField("c", kind)]))
    assert options["parquet.writer.version"] == f"PARQUET_{version}_0"


def test_a_table_may_have_files_that_older_readers_know(harness: SparkHarness) -> None:
    """`parquet: 1` has no encoding that came later, also for equal rows if everything is asked for anew (ADR 0013)."""

    def newer() -> bool:
        harness.run("out", full_refresh=True)
        return any("DELTA" in one for seen in encodings(harness, "out").values() for one in seen)

    harness.lab.apply(flow("out", MANY, auto=None))
    assert newer()
    first = harness.snapshot("out")
    harness.lab.apply(flow("out", MANY, auto=None, table={"parquet": 1}))
    harness.run("out")
    assert harness.snapshot("out")["location"] == first["location"], "an equal output keeps its files"
    assert not newer()
    assert (harness.snapshot("out")["changed"], harness.snapshot("out")["data_version"]) == (
        False,
        first["data_version"],
    )


@pytest.mark.full
def test_every_version_of_every_mode_is_read(harness: SparkHarness) -> None:
    """Appended with a new column, split by columns of odd values, merged, overwritten, rolled back."""
    append = {"mode": "append", "onReplacedInput": "append"}
    split = {**append, "partitionBy": ["odd", "name"]}
    harness.lab.apply(
        flow("numbers", job("numbers"), "source", table=append),
        flow(
            "merged",
            "SELECT n % 3 AS k, max(n) AS n FROM numbers GROUP BY 1",
            "numbers",
            table={"mode": "merge", "keys": ["k"]},
        ),
        flow(
            "split",
            "SELECT n, n % 2 AS odd, if(n = 1, null, concat('a b/ü:', n)) AS name FROM numbers",
            "numbers",
            table=split,
        ),
        flow("whole", "SELECT n, date_add(DATE'2013-01-01', cast(n AS int)) AS day FROM numbers", "numbers"),
    )
    for numbers in ([1, 2, 3], [4], [5, 6]):
        harness.lab.report("source", payload=numbers)
        harness.work()
    harness.lab.store.tables.rollback("numbers", 2)
    harness.lab.store.tables.rollback("split", 1)
    harness.work()
    assert [check(harness, asset) for asset in ("numbers", "merged", "split", "whole")] == [4, 4, 5, 4]
