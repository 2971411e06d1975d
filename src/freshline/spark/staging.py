"""Writes one output into the directory of its try, fingerprints it in the same pass, and checks what was written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql.types import StructType

from freshline.definitions.schema import DataVersion, Produces
from freshline.errors import CheckError, JobError
from freshline.model.run import StagedOutput
from freshline.spark import checks, tables
from freshline.spark.fingerprint import Fingerprint, aggregates, counted, fingerprint, row_hash
from freshline.spark.shipping import check_arrived

COMMITTER = "mapreduce.fileoutputcommitter.algorithm.version"


@dataclass(frozen=True, slots=True)
class Staging:
    """What to write where. `previous`: the schema of the head, for `schemaChange: strict`.

    `elsewhere`: other machines may write it, so that what arrives here has to be counted.
    """

    asset_id: str
    step_id: str
    warehouse: Path
    directory: Path
    produced: Produces | None = None
    previous: Any = None
    elsewhere: bool = False

    @property
    def rule(self) -> DataVersion:
        """Where the data version comes from."""
        return (self.produced and self.produced.data_version) or DataVersion()

    @property
    def partition_by(self) -> tuple[str, ...]:
        """Columns that split the files."""
        return self.produced.table.partition_by if self.produced and self.produced.table else ()


def write(table: DataFrame, staging: Staging) -> StagedOutput:
    """Stage one output: written, sealed, checked. `CheckError` leaves the data where it is."""
    _refuse(table, staging)
    seen = _write(table, staging)
    location = {**tables.seal(staging.warehouse, staging.directory), "fingerprint": seen.as_json()}
    if staging.elsewhere:
        check_arrived(staging.warehouse, location, seen.rows)
    results = _check(table, staging, seen.rows)
    return StagedOutput(
        asset_id=staging.asset_id,
        step_id=staging.step_id,
        data_version=None if staging.rule.source == "none" else seen.version,
        location=location,
        schema=table.schema.jsonValue(),
        rows=seen.rows,
        bytes=sum(location["files"].values()),
        checks=[result.as_json() for result in results],
    )


def _refuse(table: DataFrame, staging: Staging) -> None:
    """What cannot work is said before Spark computes for an hour."""
    produced = staging.produced
    if produced and produced.table and produced.table.mode != "overwrite":
        raise JobError(
            f"asset {staging.asset_id!r}: table mode {produced.table.mode!r} comes with a later version; "
            "this one knows 'overwrite'"
        )
    if staging.rule.source == "reported":
        raise JobError(
            f"asset {staging.asset_id!r} has dataVersion.source 'reported', but the job returned a table without a "
            "version; use 'fingerprint' or 'none'"
        )
    known = {name.lower() for name in table.columns}
    for field, names in (("dataVersion.exclude", staging.rule.exclude), ("table.partitionBy", staging.partition_by)):
        for name in names:
            if name.lower() not in known:
                raise JobError(
                    f"asset {staging.asset_id!r}: {field} names column {name!r}, which the table does not have; "
                    f"its columns are {', '.join(table.columns)}"
                )
    _refuse_schema(table.schema, staging)


def _refuse_schema(schema: StructType, staging: Staging) -> None:
    strict = staging.produced is not None and staging.produced.schema_change == "strict"
    if not strict or not isinstance(staging.previous, dict) or staging.previous.get("type") != "struct":
        return
    before, now = _columns(StructType.fromJson(staging.previous)), _columns(schema)
    if before != now:
        raise CheckError(
            f"asset {staging.asset_id!r}: its columns changed and schemaChange is 'strict': "
            f"before {', '.join(before)}; now {', '.join(now)}; nothing was published"
        )


def _columns(schema: StructType) -> list[str]:
    return [f"{field.name} {field.dataType.simpleString()}" for field in schema.fields]


def _write(table: DataFrame, staging: Staging) -> Fingerprint:
    fields = counted(table.schema, staging.rule.exclude)
    observation = Observation()
    observed = table.observe(observation, *aggregates(row_hash(fields, staging.rule.digits)))
    # Whatever a server's own settings say: with v2 a task that dies while it commits leaves files among the others.
    writer = observed.write.mode("error").option(COMMITTER, "1")
    if staging.partition_by:
        writer = writer.partitionBy(*staging.partition_by)
    writer.parquet(str(staging.directory))
    return fingerprint(observation.get, fields)


def _check(table: DataFrame, staging: Staging, rows: int) -> list[checks.Result]:
    if staging.produced is None or not staging.produced.checks:
        return []
    written = table.sparkSession.read.schema(table.schema).parquet(str(staging.directory))
    results = checks.run_checks(written, rows, staging.produced.checks)
    if error := checks.failure(staging.asset_id, results, str(staging.directory)):
        raise error
    return results
