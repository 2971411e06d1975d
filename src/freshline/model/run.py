"""A claimed run and the outputs of its steps: plain data that crosses the process boundary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from freshline.model.deliveries import DeliveryRange

Location = Mapping[str, Any]
"""Where data is: `format`, and `paths` of a table (with `files`, `fingerprint`, `parquet`, `partitionBy`) or `path`.

`partition` of a table with partitions: the `columns` that hold the partition, each with its value as text, and the
`directory` of the files below each of the `paths`.
"""


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A column that holds the partition: its type in Spark, and its value as Spark and Delta write it in texts."""

    name: str
    type: str
    value: str


@dataclass(frozen=True, slots=True)
class TimeCut:
    """Cuts the rows of an input to a window by a column. `start` and `end` are times in UTC, as ISO 8601.

    `first_day` and `end_day` are the same as days of the consumer's time zone; None if a window begins within a day.
    `others`: the other windows of a batch whose partitions do not follow each other.
    """

    column: str
    start: str
    end: str
    first_day: str | None = None
    end_day: str | None = None
    others: Sequence[TimeCut] = ()


@dataclass(frozen=True, slots=True)
class PinnedInput:
    """The snapshot of one asset that a run reads, and the location of its data.

    `location`: {"format": "parquet", "paths": [...]}. Paths of tables are relative to the warehouse, paths of sources
    are not.
    `parts`: all directories of a table, each with the version that added it. `location` has those of the last version.
    `since`: rows of later versions are new to the step that reads them. None: all rows are new. A source has only
    version 0.
    `allowed`: what reports of this source may name (`AllowedPaths`). None: the location was not named by a report.
    `deliveries`: those of an append source, which are loaded when they are read; their numbers are its versions. None
    for other assets.
    `partitions`: of an asset with partitions, those that the run reads; `data_version` is then a digest of theirs, and
    `location` and `schema` are those of the newest, or of another one if it reads none. None for other assets.
    `changed`: whether the data differs from what the last success of the step has read. `change`: the number of the
    change that made a partition what it is.
    `cut`: rows outside of this time are left out.
    """

    asset_id: str
    sequence: int
    data_version: str
    location: Location | None
    payload: Any = None
    table_version: int | None = None
    schema: Any = None
    base_version: int | None = None
    parts: Sequence[tuple[int, str]] = ()
    since: int | None = None
    rows: int | None = None
    bytes: int | None = None
    allowed: Mapping[str, Any] | None = None
    deliveries: DeliveryRange | None = None
    partition_key: str = ""
    partitions: Sequence[PinnedInput] | None = None
    changed: bool = True
    cut: TimeCut | None = None
    change: int | None = None


@dataclass(frozen=True, slots=True)
class BatchPartition:
    """One of the partitions of a batch: its key, the columns that hold it, and its current snapshot."""

    key: str
    columns: Sequence[PartitionColumn]
    head: PinnedInput | None = None


@dataclass(frozen=True, slots=True)
class OutputTarget:
    """Where a step stages one produced asset: `staging` is a directory relative to the warehouse.

    `head`: the current snapshot. `replace`: the output replaces it, whatever the mode of the table.
    `partition`: the columns of the run's partition, whose values all rows must have. `batch`: the partitions of a run
    that computes several; then the others are empty.
    `column_sets`: the sets of columns that consumers read of it, each of which gets a version.
    """

    staging: str
    head: PinnedInput | None = None
    replace: bool = True
    partition: Sequence[PartitionColumn] = ()
    batch: Sequence[BatchPartition] = ()
    column_sets: Sequence[Sequence[str]] = ()


@dataclass(frozen=True, slots=True)
class Position:
    """The snapshot of an input up to which a run has read, and its version in the input's table.

    `change`: of all partitions of an input, read as one, the number of the last change that it had read.
    """

    data_version: str
    table_version: int | None
    base_version: int | None
    change: int | None = None


@dataclass(frozen=True, slots=True)
class StagedOutput:
    """One produced asset of a finished step: written and checked, not yet published.

    `data_version` None: every publication counts as changed (docs/semantics.md#R9.6).
    `location`: {"format": "parquet", "paths": ["<asset>/data/<run>-<attempt>-<try>"], "files": {path: size}} or None.
    `partition_key`: of a run that computes several partitions, the one of this output.
    `rows` and `bytes` are those of the whole table. `appended`: the location holds only the rows added to the head.
    `merged`: it has rows of the head besides new ones, in directories of its own.
    `based_on`: the sequence of the head that it was computed from, 0 without a head. It is void if the head has moved.
    `column_versions`: the versions of sets of its columns, by their keys. `reads`: the columns that its step reads of
    each input; an input that is not in it is read as a whole.
    """

    asset_id: str
    step_id: str
    data_version: str | None
    location: Location | None = None
    schema: Any = None
    rows: int | None = None
    bytes: int | None = None
    checks: Any = None
    payload: Any = None
    partition_key: str = ""
    freshness: Mapping[str, Any] | None = None
    based_on: int | None = None
    appended: bool = False
    merged: bool = False
    column_versions: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[str, Sequence[str]] = field(default_factory=dict)


def staged_json(output: StagedOutput) -> dict[str, Any]:
    """Return the stored form, without what an older worker does not know, if there is none of it."""
    return {name: value for name, value in asdict(output).items() if value or name not in {"column_versions", "reads"}}


@dataclass(frozen=True, slots=True)
class FinishedStep:
    """The staged outputs of an attempt. A later attempt reuses them unless an earlier step ran again since."""

    attempt: int
    outputs: tuple[StagedOutput, ...]


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run that this worker holds. `attempt` is the fencing token of every write.

    `inputs`: the pinned snapshots by reference (`sales.daily@2024-01-31`), and the heads of the outputs of `definition`
    by asset. `positions`: by output and reference, the position up to which the head of the output has read the input.
    `partitioned`: the consumed assets that have partitions; of those that the run reads nothing of, a snapshot of
    another partition, whose columns are known.
    `sessions`: sessions on a Spark Connect server of tries that never reported their end. They may still compute
    (docs/semantics.md#R12.1).
    `batch`: the partitions of a batch, in order; none of a run that computes one. It is the run that leads the batch,
    `inputs` are those of all of its runs, and the heads of outputs are by reference.
    `rebuilt`: the output because of whose changed code everything is computed again (docs/semantics.md#R9.9).
    `column_sets`: by output, the sets of columns that consumers read.
    """

    id: str
    workflow_id: int
    slug: str
    partition_key: str
    version: int
    attempt: int
    definition: Mapping[str, Any]
    parameters: Mapping[str, Any]
    trigger: Mapping[str, Any]
    inputs: Mapping[str, PinnedInput]
    positions: Mapping[str, Mapping[str, Position]]
    finished_steps: Mapping[str, FinishedStep]
    code_hash: str | None
    lease_ms: int
    sessions: tuple[str, ...] = ()
    partitioned: Mapping[str, PinnedInput | None] = field(default_factory=dict)
    batch: tuple[str, ...] = ()
    rebuilt: str | None = None
    column_sets: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
