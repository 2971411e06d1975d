"""Stages one output: writes it, fingerprints it in the same pass, and checks what was written.

`overwrite` writes the table, `append` the added rows, `merge` the head with rows replaced by key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, Observation
from pyspark.sql.types import StructType

from freshline.definitions.schema.workflow import DataVersion, Produces, Table
from freshline.errors import CheckError, JobError
from freshline.failpoints import hit
from freshline.model.column_names import SHOWN, is_storable
from freshline.model.column_sets import ColumnSet
from freshline.model.json import Json
from freshline.model.run import Location, PartitionColumn, PinnedInput, StagedOutput
from freshline.spark import checks, membership, merging, reading
from freshline.spark.code_distribution import check_arrived
from freshline.spark.column_sets import SetSums, set_aggregates, set_sums
from freshline.spark.fingerprint import MAX_TALLIED_ROWS, Fingerprint, aggregates, counted_fields, fingerprint
from freshline.spark.parquet import READ_OPTIONS, encoding_version, write_options
from freshline.storage import layout
from freshline.storage.base import Storage

MAX_PARTS = 10_000


@dataclass(frozen=True, slots=True)
class Staging:
    """What to write where. `head`: the current table. `replace`: the output replaces it, whatever the mode.

    `partition`: the columns of the run's partition. The head is then that of the partition.
    `remote_writers`: other machines may write the files, so the rows that this machine sees are counted.
    `column_sets`: what consumers read of the output; each set gets a fingerprint of its own.
    """

    asset_id: str
    step_id: str
    storage: Storage
    directory: str
    produced: Produces | None = None
    head: PinnedInput | None = None
    replace: bool = True
    remote_writers: bool = False
    partition: Sequence[PartitionColumn] = ()
    column_sets: Sequence[ColumnSet] = ()

    @property
    def files_at(self) -> str:
        """The directory of the files: `directory`, or that of the partition in it."""
        below = layout.partition_directory({one.name: one.value for one in self.partition})
        return f"{self.directory}/{below}" if below else self.directory

    @property
    def rule(self) -> DataVersion:
        """The rule for the data version."""
        return (self.produced and self.produced.data_version) or DataVersion()

    @property
    def table(self) -> Table:
        """The table settings of the output."""
        return (self.produced and self.produced.table) or Table()

    @property
    def extended(self) -> PinnedInput | None:
        """The head that the output adds to or is merged with."""
        return self.head if self.table.mode != "overwrite" and not self.replace and self.head else None

    @property
    def tallies_columns(self) -> bool:
        """Whether single columns are tallied. The head's size decides, as that of the new table is not known yet."""
        return self.head is None or (self.head.rows or 0) <= MAX_TALLIED_ROWS

    @property
    def based_on(self) -> int | None:
        """The version of the head that the output depends on; 0 without a head, None if it does not depend on it."""
        if self.table.mode == "overwrite":
            return None
        return self.head.sequence if self.head else 0


def write(table: DataFrame, staging: Staging) -> StagedOutput:
    """Write, seal and check one output. The data of a `CheckError` stays where it is."""
    if staging.partition:
        table, columns = membership.with_columns(staging.asset_id, table, staging.partition)
        staging = replace(staging, partition=columns)
    check_declaration(table, staging)
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
    seen, sets = _write(table, staging)
    location = _sealed(staging, table.schema, seen, sets, seen.rows)
    if staging.table.mode == "merge":
        _check_keys(table, staging, doubles)
    return _staged(staging, table.schema, seen, location, _check(table, staging, seen.rows, seen.rows))


def _check_keys(table: DataFrame, staging: Staging, seen: Observation | None) -> None:
    """Raise CheckError if rows share a key. Without a head nothing was grouped, so the key columns are read again."""
    keys = staging.table.keys
    if seen is None:
        merging.check_new_keys(staging.asset_id, keys, merging.most_per_key(read_back(table, staging), keys))
        return
    merging.check_new_keys(staging.asset_id, keys, seen.get["new"])
    if head := staging.extended:
        merging.check_head_keys(staging.asset_id, head.sequence, keys, seen.get["old"])


def _append(table: DataFrame, staging: Staging, head: PinnedInput) -> StagedOutput:
    schema = merging.widened(staging.asset_id, _struct(head), table.schema)
    added = merging.aligned(table, schema)
    part, more = _write(added, staging)
    before = head.location or {}
    seen = Fingerprint.from_json(before["fingerprint"]).extended(part)
    location = _sealed(staging, schema, seen, SetSums.from_json(before.get("columnSets")).extended(more), part.rows)
    if before.get("parquet") != location["parquet"]:
        location["parquet"] = None  # parts with different encodings have no common version
    results = _check(added, staging, part.rows, seen.rows, head)
    return _staged(staging, schema, seen, location, results, appended=head)


def _sealed(staging: Staging, schema: StructType, seen: Fingerprint, sets: SetSums, wrote: int) -> Json:
    hit("stage:written")
    location = {
        **layout.seal(staging.storage, staging.directory),
        "fingerprint": seen.as_json(),
        "parquet": encoding_version(staging.table, schema),
        **({"columnSets": sets.as_json()} if sets.sums else {}),
    }
    if staging.remote_writers:
        check_arrived(staging.storage, location, wrote)
    if staging.table.partition_by:
        location["partitionBy"] = list(staging.table.partition_by)
    if staging.partition:
        columns = {one.name: one.value for one in staging.partition}
        location["partition"] = {"columns": columns, "directory": layout.partition_directory(columns)}
    return location


def _staged(
    staging: Staging,
    schema: StructType,
    seen: Fingerprint,
    location: Json,
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
        merged=appended is None and staging.extended is not None,
        column_versions=_column_versions(staging, schema, seen, location),
    )


def _column_versions(staging: Staging, schema: StructType, seen: Fingerprint, location: Json) -> dict[str, str]:
    """Return the versions of the sets of columns; none if every version counts as changed."""
    if staging.rule.source == "none":
        return {}
    return SetSums.from_json(location.get("columnSets")).versions(seen.rows, schema)


def check_declaration(table: DataFrame, staging: Staging) -> None:
    """Raise an error for what cannot work, before Spark computes for an hour."""
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
    _check_names(table.schema, staging)
    check_schema_change(table.schema, staging)
    if staging.extended is not None:
        _check_head(staging, staging.extended)


def _check_names(schema: StructType, staging: Staging) -> None:
    """Raise JobError for a column that a Delta table cannot have: other engines could not read the table."""
    for name in _names(schema.jsonValue()):
        if not is_storable(name):
            raise JobError(
                f"asset {staging.asset_id!r}: the name of column {name!r} has one of the characters {SHOWN}, which no "
                "Delta table can have",
                hint="give it another name: `… AS name` in SQL, `.alias('name')` in Python",
            )


def _names(kind: object) -> Iterator[str]:
    """Yield the names of all fields of a type, also of those inside structs, arrays and maps."""
    match kind:
        case {"type": "struct", "fields": list(fields)}:
            for field in fields:
                yield field["name"]
                yield from _names(field["type"])
        case {"type": "array", "elementType": element}:
            yield from _names(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            yield from _names(key)
            yield from _names(value)


def _check_head(staging: Staging, head: PinnedInput) -> None:
    """Raise JobError for a head that rows cannot be added to."""
    location = head.location or {}
    if "fingerprint" not in location:
        raise JobError(
            f"asset {staging.asset_id!r}: version {head.sequence} is not a table of Freshline; rows cannot be added",
            hint=merging.REWRITE_HINT,
        )
    before, now = _split_by(location), (*(one.name for one in staging.partition), *staging.table.partition_by)
    known = {name.lower() for name in _struct(head).fieldNames()}
    if lacking := [key for key in staging.table.keys if known and key.lower() not in known]:
        raise JobError(
            f"asset {staging.asset_id!r}: version {head.sequence} cannot be merged by {', '.join(lacking)}: "
            "it has no such column",
            hint=merging.REWRITE_HINT,
        )
    if staging.table.mode == "append" and before != now:
        raise JobError(
            f"asset {staging.asset_id!r}: its files were split by {', '.join(before) or 'nothing'}, and now they are "
            f"split by {', '.join(now) or 'nothing'}",
            hint=merging.REWRITE_HINT,
        )
    if staging.table.mode == "append" and len(head.parts) >= MAX_PARTS:
        raise JobError(
            f"asset {staging.asset_id!r} has {len(head.parts)} parts; allowed are {MAX_PARTS}, to stay quick to read",
            hint=merging.REWRITE_HINT,
        )


def _split_by(location: Location) -> tuple[str, ...]:
    """Return the columns of the partition, and those of `table.partitionBy`."""
    return (*location.get("partition", {}).get("columns", {}), *location.get("partitionBy", ()))


def check_schema_change(schema: StructType, staging: Staging) -> None:
    """Raise CheckError if the columns differ from those of the head, and a change is not allowed."""
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


def _write(table: DataFrame, staging: Staging) -> tuple[Fingerprint, SetSums]:
    fields = counted_fields(table.schema, staging.rule.exclude)
    observation = Observation()
    counts = aggregates(fields, staging.rule.digits, tally=staging.tallies_columns)
    sets = set_aggregates(staging.column_sets, table.schema, fields, staging.rule.digits)
    observed = table.observe(observation, *counts, *sets, *membership.aggregates(staging.partition))
    writer = observed.write.mode("error").options(**write_options(staging.table, table.schema))
    if staging.table.partition_by:
        writer = writer.partitionBy(*staging.table.partition_by)
    writer.parquet(staging.storage.at(staging.files_at))
    membership.check(staging.asset_id, staging.partition, observation.get, staging.directory)
    return fingerprint(observation.get, fields), set_sums(staging.column_sets, table.schema, observation.get)


def read_back(table: DataFrame, staging: Staging) -> DataFrame:
    """Read the written rows, instead of computing them again."""
    reader = table.sparkSession.read.schema(table.schema).options(**READ_OPTIONS)
    written = reader.parquet(staging.storage.at(staging.files_at))
    return merging.aligned(written, table.schema) if staging.table.partition_by else written


def _check(
    table: DataFrame, staging: Staging, wrote: int, rows: int, head: PinnedInput | None = None
) -> list[checks.Result]:
    """Check the written rows; `head`: the table that they are added to."""
    if staging.produced is None or not staging.produced.checks:
        return []
    written = read_back(table, staging)
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
