"""Other engines read what was published (R9.7): Polars and DuckDB agree with Spark on every version and every type."""

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

from freshline.services.scribe import Scribe
from freshline.spark.engine import Engine
from tests.lab import laboratory
from tests.spark.mill import Mill, flow, job

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


@pytest.fixture
def mill(database_url: str, tmp_path: Path, spark: SparkSession) -> Iterator[Mill]:
    """A store of its own, and the session of all tests."""
    with laboratory(database_url, warehouse=tmp_path / "w") as lab:
        yield Mill(lab, Engine(spark, remote=None, local=True))


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


def check(mill: Mill, asset: str) -> int:
    """Every version, by three engines; how many versions there were."""
    scribe = Scribe(mill.lab.store)
    while scribe.run_once():
        pass
    root = mill.lab.settings.warehouse_path / asset
    found = mill.lab.rows(
        "SELECT table_version AS number, min(sequence) AS sequence FROM snapshots WHERE asset_id = %s GROUP BY 1", asset
    )
    for one in found:
        expected = rows(mill.rows(asset, one["sequence"]))
        assert read_by_polars(root, one["number"]) == expected, f"Polars, {asset} version {one['number']}"
        assert read_by_duckdb(root, one["number"]) == expected, f"DuckDB, {asset} version {one['number']}"
    return len(found)


def test_all_types_are_read_as_they_were_written(mill: Mill) -> None:
    """Nulls, extremes, not-a-number, times with and without a zone, and what is nested."""
    mill.lab.apply(flow("out", TYPES, auto=None))
    mill.run("out")
    assert check(mill, "out") == 1


def test_every_version_of_every_mode_is_read(mill: Mill) -> None:
    """Appended with a new column, split by columns of odd values, merged, overwritten, rolled back."""
    append = {"mode": "append", "onReplacedInput": "append"}
    split = {**append, "partitionBy": ["odd", "name"]}
    mill.lab.apply(
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
        mill.lab.report("source", payload=numbers)
        mill.work()
    mill.lab.store.rollback_table("numbers", 2)
    mill.lab.store.rollback_table("split", 1)
    mill.work()
    assert [check(mill, asset) for asset in ("numbers", "merged", "split", "whole")] == [4, 4, 5, 4]
