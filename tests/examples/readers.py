"""One table of a warehouse, read by Spark from its files and by others from its Delta log."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

Rows = list[str]


class Table:
    """Rows come as sorted texts, in which nulls, decimals, timestamps and NaN differ from everything else."""

    def __init__(self, session: SparkSession, warehouse: Path, asset: str) -> None:
        self._session = session
        self._warehouse = warehouse
        self._root = warehouse / asset

    @property
    def newest(self) -> int:
        """The last version in the Delta log."""
        return int(DeltaTable(str(self._root)).version())

    def readings(self, snapshot: dict[str, Any]) -> dict[str, Rows]:
        """The rows of one snapshot, by who has read them."""
        number = snapshot["tableVersion"]
        return {"spark": self._spark(snapshot), "polars": self._polars(number), "duckdb": self._duckdb(number)}

    def _spark(self, snapshot: dict[str, Any]) -> Rows:
        """From the directories that the database names, not from the log."""
        paths = [str(self._warehouse / path) for path in snapshot["location"]["paths"]]
        schema = StructType.fromJson(snapshot["schema"])
        return _texts(self._session.read.schema(schema).parquet(*paths).toArrow())

    def _polars(self, number: int) -> Rows:
        return _texts(pl.read_delta(str(self._root), version=number).to_arrow())

    def _duckdb(self, number: int) -> Rows:
        with duckdb.connect() as connection:
            connection.register("t", DeltaTable(str(self._root), version=number).to_pyarrow_dataset())
            return _texts(connection.sql("SELECT * FROM t").to_arrow_table())


def _texts(table: Any) -> Rows:
    return sorted(repr({name: _plain(value) for name, value in row.items()}) for row in table.to_pylist())


def _plain(value: Any) -> Any:
    """The same moment in the same zone: DuckDB tells it in that of the session."""
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value
