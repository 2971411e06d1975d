"""Stages the partitions of a batch: one write of all rows, then the fingerprint and the checks of each partition.

Spark writes one directory for each partition, by its number. The fingerprints come from a second pass over the written
files: Spark can observe aggregates while it writes, but not for groups (docs/adr/0028-batches-form-at-claim.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, DataFrameWriter, Observation
from pyspark.sql import functions as F  # noqa: N812 - PySpark's usual alias
from pyspark.sql.types import IntegerType, StructField, StructType

from freshline.errors import CheckError
from freshline.failpoints import hit
from freshline.model.json import Json
from freshline.model.run import BatchPartition, StagedOutput
from freshline.spark import checks, membership
from freshline.spark.code_distribution import check_arrived
from freshline.spark.fingerprint import MAX_TALLIED_ROWS, Fingerprint, aggregates, counted_fields, fingerprint
from freshline.spark.parquet import READ_OPTIONS, encoding_version, write_options
from freshline.spark.staging import Staging, check_declaration, check_schema_change, read_back
from freshline.storage import layout

NUMBER = "__freshline_partition"  # reserved: the place of a row's partition in the batch


def write_batch(table: DataFrame, staging: Staging, batch: Sequence[BatchPartition]) -> list[StagedOutput]:
    """Write, seal and check the partitions of one output. The data of a `CheckError` stays where it is.

    A partition without rows is an empty one: the job computed it.
    """
    check_declaration(table, staging)
    batch = membership.named(staging.asset_id, table, batch)
    for one in batch:
        check_schema_change(table.schema, replace(staging, head=one.head))
    _write(table, staging, batch)
    found = _fingerprints(table, staging, batch)
    files = _arranged(table, staging, batch, found)
    return [
        _staged(table, staging, one, seen, {name: size for name, size in files.items() if name.startswith(f"{at}/")})
        for one, seen in zip(batch, found, strict=True)
        for at in (_directory(staging, one),)
    ]


def _write(table: DataFrame, staging: Staging, batch: Sequence[BatchPartition]) -> None:
    numbered = table.withColumn(NUMBER, F.expr(membership.number(batch)))
    observation = Observation()
    observed = numbered.observe(observation, *membership.batch_aggregates(NUMBER, batch))
    _writer(observed, staging, NUMBER).parquet(staging.storage.at(staging.directory))
    membership.check_batch(staging.asset_id, batch, observation.get, staging.directory)
    hit("stage:written")


def _writer(table: DataFrame, staging: Staging, *columns: str) -> DataFrameWriter:
    split = [*columns, *staging.table.partition_by]
    options = write_options(staging.table, StructType([one for one in table.schema.fields if one.name != NUMBER]))
    writer = table.write.mode("error").options(**options)
    return writer.partitionBy(*split) if split else writer


def _fingerprints(table: DataFrame, staging: Staging, batch: Sequence[BatchPartition]) -> list[Fingerprint]:
    """Return the fingerprint of each partition, from one pass over the written files."""
    fields = counted_fields(table.schema, staging.rule.exclude)
    tally = all((one.head.rows or 0) <= MAX_TALLIED_ROWS for one in batch if one.head)
    wanted = aggregates(fields, staging.rule.digits, tally=tally)
    schema = StructType([*table.schema.fields, StructField(NUMBER, IntegerType())])
    written = table.sparkSession.read.schema(schema).options(**READ_OPTIONS)
    rows = written.parquet(staging.storage.at(staging.directory)).groupBy(NUMBER).agg(*wanted).collect()
    found = {row[NUMBER]: row.asDict() for row in rows}
    empty: dict[str, int | None] = {"rows": 0, **({"tally0": None} if tally else {})}
    return [fingerprint(_Absent(found.get(number, empty)), fields) for number in range(len(batch))]


class _Absent(dict[str, int | None]):
    """Observed aggregates; those of no rows are null."""

    def __missing__(self, name: str) -> None:
        return None


def _arranged(
    table: DataFrame, staging: Staging, batch: Sequence[BatchPartition], found: Sequence[Fingerprint]
) -> Mapping[str, int]:
    """Name the directories by their partitions, add files without rows to empty ones, and return all files."""
    storage = staging.storage
    empty = table.sparkSession.createDataFrame([], table.schema)
    for number, (one, seen) in enumerate(zip(batch, found, strict=True)):
        if seen.rows:
            storage.move(f"{staging.directory}/{NUMBER}={number}", _directory(staging, one))
        else:
            _writer(empty, staging).parquet(storage.at(_directory(staging, one)))
    sealed = layout.seal(storage, staging.directory)
    if staging.remote_writers:
        check_arrived(storage, sealed, sum(seen.rows for seen in found))
    files: Mapping[str, int] = sealed["files"]
    return files


def _directory(staging: Staging, one: BatchPartition) -> str:
    return f"{staging.directory}/{layout.partition_directory(_values(one))}"


def _values(one: BatchPartition) -> dict[str, str]:
    return {column.name: column.value for column in one.columns}


def _staged(
    table: DataFrame, staging: Staging, one: BatchPartition, seen: Fingerprint, files: Mapping[str, int]
) -> StagedOutput:
    directory = _directory(staging, one)
    location: Json = {
        "format": "parquet",
        "paths": [directory],
        "files": dict(files),
        "fingerprint": seen.as_json(),
        "parquet": encoding_version(staging.table, table.schema),
        "partition": {"columns": _values(one), "directory": ""},
    }
    if staging.table.partition_by:
        location["partitionBy"] = list(staging.table.partition_by)
    return StagedOutput(
        asset_id=staging.asset_id,
        step_id=staging.step_id,
        data_version=None if staging.rule.source == "none" else seen.version,
        location=location,
        schema=table.schema.jsonValue(),
        rows=seen.rows,
        bytes=sum(files.values()),
        checks=[result.as_json() for result in _checks(table, staging, one, seen.rows)],
        partition_key=one.key,
    )


def _checks(table: DataFrame, staging: Staging, one: BatchPartition, rows: int) -> Sequence[checks.Result]:
    """Check the rows of one partition, as a run of its own does."""
    if staging.produced is None or not staging.produced.checks:
        return []
    written = read_back(table, replace(staging, directory=_directory(staging, one)))
    try:
        results = checks.run_checks(written, written, rows, staging.produced.checks)
    except CheckError as error:
        error.staged = staging.directory
        raise
    if failed := checks.failure(f"{staging.asset_id}@{one.key}", results, staging.directory):
        raise failed
    return results
