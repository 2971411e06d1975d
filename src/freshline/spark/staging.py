"""Writes one output into the directory of its try, fingerprints it in the same pass, and checks what was written.

`overwrite` writes the table, `append` the rows that come to the head, `merge` the head with rows replaced by key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql.types import StructType

from freshline.definitions.schema.workflow import DataVersion, Produces, Table
from freshline.errors import CheckError, JobError
from freshline.failpoints import hit
from freshline.model.run import PinnedInput, StagedOutput
from freshline.spark import checks, merging, reading
from freshline.spark.code_distribution import check_arrived
from freshline.spark.fingerprint import MOST_TOLD, Fingerprint, aggregates, counted, fingerprint
from freshline.spark.parquet import encodings, writing
from freshline.storage import layout
from freshline.storage.base import Storage

MOST_PARTS = 10_000


@dataclass(frozen=True, slots=True)
class Staging:
    """What to write where. `head`: the table so far. `anew`: the output replaces it, whatever the mode.

    `elsewhere`: other machines may write it, so that what arrives here has to be counted.
    """

    asset_id: str
    step_id: str
    storage: Storage
    directory: str
    produced: Produces | None = None
    head: PinnedInput | None = None
    anew: bool = True
    elsewhere: bool = False

    @property
    def rule(self) -> DataVersion:
        """Where the data version comes from."""
        return (self.produced and self.produced.data_version) or DataVersion()

    @property
    def table(self) -> Table:
        """How the table is written."""
        return (self.produced and self.produced.table) or Table()

    @property
    def extended(self) -> PinnedInput | None:
        """The head that the output adds to or is merged with."""
        return self.head if self.table.mode != "overwrite" and not self.anew and self.head else None

    @property
    def told(self) -> bool:
        """Whether columns are told apart: by the size of the table so far, as that of the new one is not known yet."""
        return self.head is None or (self.head.rows or 0) <= MOST_TOLD

    @property
    def based_on(self) -> int | None:
        """The version without which the output means nothing (0: there was none)."""
        if self.table.mode == "overwrite":
            return None
        return self.head.sequence if self.head else 0


def write(table: DataFrame, staging: Staging) -> StagedOutput:
    """Stage one output: written, sealed, checked. `CheckError` leaves the data where it is."""
    _refuse(table, staging)
    head = staging.extended
    if head is not None and staging.table.mode == "append":
        return _append(table, staging, head)
    if head is None:
        return _replace(table, staging)
    seen = Observation()
    before = reading.load(table.sparkSession, staging.storage, head)
    whole = merging.merged(before, table, staging.table.keys, seen)
    return _replace(whole, staging, doubles=seen)


def _replace(table: DataFrame, staging: Staging, doubles: Observation | None = None) -> StagedOutput:
    seen = _write(table, staging)
    location = _sealed(staging, table.schema, seen, seen.rows)
    if staging.table.mode == "merge":
        _refuse_doubles(table, staging, doubles)
    return _staged(staging, table.schema, seen, location, _check(table, staging, seen.rows, seen.rows))


def _refuse_doubles(table: DataFrame, staging: Staging, seen: Observation | None) -> None:
    """Without a head nothing was grouped by the keys: then they, and no other columns, are read once more."""
    keys = staging.table.keys
    if seen is None:
        merging.refuse_doubles(staging.asset_id, keys, merging.most_per_key(_written(table, staging), keys))
        return
    merging.refuse_doubles(staging.asset_id, keys, seen.get["new"])
    if head := staging.extended:
        merging.refuse_old_doubles(staging.asset_id, head.sequence, keys, seen.get["old"])


def _append(table: DataFrame, staging: Staging, head: PinnedInput) -> StagedOutput:
    schema = merging.widened(staging.asset_id, _struct(head), table.schema)
    added = merging.aligned(table, schema)
    part = _write(added, staging)
    seen = Fingerprint.from_json((head.location or {})["fingerprint"]).extended(part)
    location = _sealed(staging, schema, seen, part.rows)
    if (head.location or {}).get("parquet") != location["parquet"]:
        location["parquet"] = None  # parts of several versions are none of them as a whole
    results = _check(added, staging, part.rows, seen.rows, head)
    return _staged(staging, schema, seen, location, results, appended=head)


def _sealed(staging: Staging, schema: StructType, seen: Fingerprint, wrote: int) -> dict[str, Any]:
    hit("stage:written")
    location = {
        **layout.seal(staging.storage, staging.directory),
        "fingerprint": seen.as_json(),
        "parquet": encodings(staging.table, schema),
    }
    if staging.elsewhere:
        check_arrived(staging.storage, location, wrote)
    if staging.table.partition_by:
        location["partitionBy"] = list(staging.table.partition_by)
    return location


def _staged(
    staging: Staging,
    schema: StructType,
    seen: Fingerprint,
    location: dict[str, Any],
    results: Sequence[checks.Result],
    *,
    appended: PinnedInput | None = None,
) -> StagedOutput:
    written = sum(location["files"].values())
    return StagedOutput(
        asset_id=staging.asset_id,
        step_id=staging.step_id,
        data_version=None if staging.rule.source == "none" else seen.version,
        location=location,
        schema=schema.jsonValue(),
        rows=seen.rows,
        bytes=written + (appended.bytes or 0 if appended else 0),
        checks=[result.as_json() for result in results],
        based_on=staging.based_on,
        appended=appended is not None,
    )


def _refuse(table: DataFrame, staging: Staging) -> None:
    """What cannot work is said before Spark computes for an hour."""
    if staging.rule.source == "reported":
        raise JobError(
            f"asset {staging.asset_id!r} has dataVersion.source 'reported', but the job returned a table without a "
            "version; use 'fingerprint' or 'none'"
        )
    known = {name.lower() for name in table.columns}
    named = {
        "dataVersion.exclude": staging.rule.exclude,
        "table.partitionBy": staging.table.partition_by,
        "table.keys": staging.table.keys,
    }
    for field, names in named.items():
        for name in names:
            if name.lower() not in known:
                raise JobError(
                    f"asset {staging.asset_id!r}: {field} names column {name!r}, which the table does not have; "
                    f"its columns are {', '.join(table.columns)}"
                )
    _refuse_schema(table.schema, staging)
    if staging.extended is not None:
        _refuse_head(staging, staging.extended)


def _refuse_head(staging: Staging, head: PinnedInput) -> None:
    """A head that rows cannot be added to."""
    location = head.location or {}
    if "fingerprint" not in location:
        raise JobError(
            f"asset {staging.asset_id!r}: version {head.sequence} is no table of ours that rows could be added to",
            hint=merging.ANEW,
        )
    before, now = tuple(location.get("partitionBy", ())), staging.table.partition_by
    known = {name.lower() for name in _struct(head).fieldNames()}
    if lacking := [key for key in staging.table.keys if known and key.lower() not in known]:
        raise JobError(
            f"asset {staging.asset_id!r}: version {head.sequence} cannot be merged by {', '.join(lacking)}: "
            "it has no such column",
            hint=merging.ANEW,
        )
    if staging.table.mode == "append" and before != now:
        raise JobError(
            f"asset {staging.asset_id!r}: its files were split by {', '.join(before) or 'nothing'}, and partitionBy is "
            f"now {', '.join(now) or 'empty'}",
            hint=merging.ANEW,
        )
    if staging.table.mode == "append" and len(head.parts) >= MOST_PARTS:
        raise JobError(
            f"asset {staging.asset_id!r} has {len(head.parts)} parts; allowed are {MOST_PARTS}, to stay quick to read",
            hint=merging.ANEW,
        )


def _refuse_schema(schema: StructType, staging: Staging) -> None:
    previous = reading.struct(staging.head.schema) if staging.head else None
    strict = staging.produced is not None and staging.produced.schema_change == "strict"
    if not strict or previous is None:
        return
    before, now = _columns(previous), _columns(schema)
    if before != now:
        raise CheckError(
            f"asset {staging.asset_id!r}: its columns changed and schemaChange is 'strict': "
            f"before {', '.join(before)}; now {', '.join(now)}; nothing was published"
        )


def _columns(schema: StructType) -> list[str]:
    return [f"{field.name} {field.dataType.simpleString()}" for field in schema.fields]


def _struct(head: PinnedInput) -> StructType:
    return reading.struct(head.schema) or StructType()


def _write(table: DataFrame, staging: Staging) -> Fingerprint:
    fields = counted(table.schema, staging.rule.exclude)
    observation = Observation()
    observed = table.observe(observation, *aggregates(fields, staging.rule.digits, told=staging.told))
    writer = observed.write.mode("error").options(**writing(staging.table, table.schema))
    if staging.table.partition_by:
        writer = writer.partitionBy(*staging.table.partition_by)
    writer.parquet(staging.storage.at(staging.directory))
    return fingerprint(observation.get, fields)


def _written(table: DataFrame, staging: Staging) -> DataFrame:
    """What was written, instead of what would be computed again."""
    written = table.sparkSession.read.schema(table.schema).parquet(staging.storage.at(staging.directory))
    return merging.aligned(written, table.schema) if staging.table.partition_by else written


def _check(
    table: DataFrame, staging: Staging, wrote: int, rows: int, head: PinnedInput | None = None
) -> list[checks.Result]:
    """Look at what was written; `head`: what it comes to."""
    if staging.produced is None or not staging.produced.checks:
        return []
    written = _written(table, staging)
    before = [reading.load(table.sparkSession, staging.storage, head)] if head else []
    whole = reading.union([*before, written])
    try:
        results = checks.run_checks(written, whole, rows, staging.produced.checks, wrote=wrote)
    except CheckError as error:
        error.staged = staging.directory
        raise
    if failed := checks.failure(staging.asset_id, results, staging.directory):
        raise failed
    return results
