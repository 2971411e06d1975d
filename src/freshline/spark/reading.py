"""Reads a pinned snapshot: all rows, or those added after a version of its table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StructType

from freshline.model.deliveries import Deliveries, Delivery
from freshline.model.run import Location, PinnedInput
from freshline.spark.merging import aligned
from freshline.spark.parquet import READ_OPTIONS
from freshline.spark.windows import cut_to_window
from freshline.storage.base import Storage
from freshline.storage.layout import rows_at

MATCHED = {"csv": {"enforceSchema": "false"}, "parquet": {"mergeSchema": "true"}, "orc": {"mergeSchema": "true"}}


def load(
    session: SparkSession,
    storage: Storage,
    pinned: PinnedInput,
    *,
    since: int | None = None,
    local: bool = False,
    deliveries: Deliveries | None = None,
) -> DataFrame:
    """Return the rows of a snapshot that has a location. `since`: only those of later versions or deliveries.

    `local`: Spark runs on this machine only. `deliveries`: those of an append source.
    """
    if deliveries is None:
        rows = _rows(session, storage, pinned, since, local=local)
    else:
        rows = _delivered(session, pinned, deliveries, since, local=local)
    known = struct(pinned.schema)
    # Spark puts partition columns last, wherever they were when the table was written.
    found = aligned(rows, known) if known and (pinned.location or {}).get("partitionBy") else rows
    return cut_to_window(found, pinned)


def _rows(session: SparkSession, storage: Storage, pinned: PinnedInput, since: int | None, *, local: bool) -> DataFrame:
    location = pinned.location or {}
    reader = _reader(session, location, pinned.schema)
    if "paths" not in location:
        whole = reader.load(_source_path(pinned, str(location["path"]), local=local))
        return whole if since is None else whole.limit(0)
    parts = pinned.parts or [(0, path) for path in location["paths"]]
    paths = [storage.at(rows_at(location, path)) for version, path in parts if since is None or version > since]
    if not paths:
        return reader.load(storage.at(rows_at(location, parts[-1][1]))).limit(0)
    return _load(reader, paths, split=bool(location.get("partitionBy")))


def _delivered(
    session: SparkSession, pinned: PinnedInput, deliveries: Deliveries, since: int | None, *, local: bool
) -> DataFrame:
    """Read the deliveries of an append source together."""
    chosen = with_paths(deliveries.after(since))
    if chosen:
        return load_deliveries(session, pinned, chosen, local=local)
    newest = next((one for one in reversed(deliveries) if one.path is not None), None)
    if newest is None:
        return session.createDataFrame([], StructType())
    return load_deliveries(session, pinned, [newest], local=local).limit(0)


def with_paths(deliveries: Iterable[Delivery]) -> list[Delivery]:
    """Return the deliveries that have files."""
    return [one for one in deliveries if one.path is not None]


def load_deliveries(
    session: SparkSession, pinned: PinnedInput, chosen: Sequence[Delivery], *, local: bool
) -> DataFrame:
    """Read some deliveries of a source. Columns are matched by name."""
    return load_source_paths(session, pinned, [str(one.path) for one in chosen], local=local)


def load_source_paths(session: SparkSession, pinned: PinnedInput, paths: Sequence[str], *, local: bool) -> DataFrame:
    """Read several paths of a source. Columns are matched by name."""
    location = pinned.location or {}
    # A CSV file whose header differs is an error, because Spark matches columns by position.
    matched = MATCHED.get(str(location.get("format", "parquet")), {})
    reader = _reader(session, location, pinned.schema).options(**matched)
    return reader.load([_source_path(pinned, path, local=local) for path in paths])


def load_table_paths(
    session: SparkSession, storage: Storage, pinned: PinnedInput, directories: Iterable[tuple[PinnedInput, str]]
) -> DataFrame:
    """Read directories of a table's partitions that all have the columns and the format of `pinned`."""
    paths = [storage.at(rows_at(one.location or {}, path)) for one, path in directories]
    return _reader(session, pinned.location or {}, pinned.schema).load(paths)


def _source_path(pinned: PinnedInput, path: str, *, local: bool) -> str:
    """Return the path of a source. A checked one is read from files, whatever Spark's default file system is."""
    return f"file://{path}" if local and pinned.allowed is not None and path.startswith("/") else path


def _load(reader: DataFrameReader, paths: list[str], *, split: bool) -> DataFrame:
    """Read the paths; with partition columns one by one, as Spark finds those below a single directory only."""
    if not split:
        return reader.load(paths)
    return union(reader.load(path) for path in paths)


def union(frames: Iterable[DataFrame]) -> DataFrame:
    """Return all rows; a column that a frame lacks is null there."""
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)


def _reader(session: SparkSession, location: Location, schema: Any) -> DataFrameReader:
    kind = str(location.get("format", "parquet"))
    reader = session.read.format(kind).options(**_options(kind, location, schema))
    known = struct(schema)
    return reader.schema(known) if known else reader


def _options(kind: str, location: Location, schema: Any) -> dict[str, str]:
    given = {str(name): str(value) for name, value in (location.get("options") or {}).items()}
    if kind == "parquet":
        return {**READ_OPTIONS, **given}
    if kind != "csv":
        return given
    defaults = {"header": "true"} if struct(schema) else {"header": "true", "inferSchema": "true"}
    return {**defaults, **given}


def struct(schema: Any) -> StructType | None:
    """Return the schema if it is one of Spark's; with it Spark need not read the files' footers."""
    if isinstance(schema, Mapping) and schema.get("type") == "struct":
        return StructType.fromJson(dict(schema))
    return None
