"""Reads one pinned snapshot: all of it, or the rows that came after a version of its table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StructType

from freshline.model.run import PinnedInput
from freshline.spark.merging import aligned
from freshline.storage.base import Storage


def load(session: SparkSession, storage: Storage, pinned: PinnedInput, *, since: int | None = None) -> DataFrame:
    """The rows of a snapshot that has a location. `since`: only those of later versions; a source has but one."""
    rows = _rows(session, storage, pinned, since)
    known = struct(pinned.schema)
    # Spark puts the columns that split the files last, wherever they were when the table was written.
    return aligned(rows, known) if known and (pinned.location or {}).get("partitionBy") else rows


def _rows(session: SparkSession, storage: Storage, pinned: PinnedInput, since: int | None) -> DataFrame:
    location = pinned.location or {}
    reader = _reader(session, location, pinned.schema)
    if "paths" not in location:
        whole = reader.load(str(location["path"]))
        return whole if since is None else whole.limit(0)
    parts = pinned.parts or [(0, path) for path in location["paths"]]
    paths = [storage.at(path) for version, path in parts if since is None or version > since]
    if not paths:
        return reader.load(storage.at(parts[-1][1])).limit(0)
    return _load(reader, paths, split=bool(location.get("partitionBy")))


def _load(reader: DataFrameReader, paths: list[str], *, split: bool) -> DataFrame:
    """Spark finds the columns that split the files in the names below *one* directory, so each is read by itself."""
    if not split:
        return reader.load(paths)
    return union(reader.load(path) for path in paths)


def union(frames: Iterable[DataFrame]) -> DataFrame:
    """All rows; a column that some do not have is null there."""
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)


def _reader(session: SparkSession, location: Mapping[str, Any], schema: Any) -> DataFrameReader:
    kind = str(location.get("format", "parquet"))
    reader = session.read.format(kind).options(**_options(kind, location, schema))
    known = struct(schema)
    return reader.schema(known) if known else reader


def _options(kind: str, location: Mapping[str, Any], schema: Any) -> dict[str, str]:
    given = {str(name): str(value) for name, value in (location.get("options") or {}).items()}
    if kind != "csv":
        return given
    defaults = {"header": "true"} if struct(schema) else {"header": "true", "inferSchema": "true"}
    return {**defaults, **given}


def struct(schema: Any) -> StructType | None:
    """The schema to read with, if it is one of Spark's; knowing it saves a look into the files."""
    if isinstance(schema, Mapping) and schema.get("type") == "struct":
        return StructType.fromJson(dict(schema))
    return None
