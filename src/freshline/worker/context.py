"""The `ctx` argument of a job function: pinned inputs, parameters, a logger and progress."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from freshline.errors import JobError
from freshline.model.deliveries import Deliveries
from freshline.model.run import PinnedInput
from freshline.storage.input_files import InputFiles
from freshline.worker.log_capture import MAX_LOGGED
from freshline.worker.progress_reporter import ProgressReporter

if TYPE_CHECKING:
    from freshline.worker.table_reader import TableReader


class Tables(Protocol):
    """The part of Spark that a context needs; implemented by `freshline.spark.engine.Engine`."""

    @property
    def spark(self) -> Any:
        """The session of this step."""

    def read(self, pinned: PinnedInput, *, new: bool = False) -> Any:
        """Return the DataFrame of one pinned snapshot, or of the rows that are new to the step."""


class Files(Protocol):
    """The files of one input, for jobs that read without Spark."""

    def __call__(self, *, new: bool) -> TableReader:
        """Return the reader of a step, and note that the files of the input, or the new ones, are read."""


@dataclass(frozen=True, slots=True)
class Input:
    """One consumed asset, at the version that this run is pinned to.

    `version` is the number of the snapshot; `data_version` changes if and only if the content does. `deliveries`: of a
    source with `mode: append`, all deliveries in order, each with `number`, `path`, `version`, `payload` and
    `reported_at`. They are loaded when they are looked at.

    Of an asset with partitions, the rows are those of the partitions that this run reads. `keys` are these partitions,
    and `versions` their data versions. `data_version` is a digest if there are several, `version` is 0, and `payload`
    has one entry for each key.

    `arrow`, `polars`, `duckdb`, `path` and `paths` need no Spark. With `new=True` they hold only the rows that were
    appended since the last run of this step succeeded.
    """

    asset_id: str
    version: int
    data_version: str
    payload: Any
    deliveries: Deliveries
    _read: Callable[[PinnedInput, int | None], Any] = field(repr=False)
    _files: Files = field(repr=False)
    _pinned: PinnedInput = field(repr=False)

    @property
    def keys(self) -> tuple[str, ...]:
        """The partitions that this run reads, in order; none for an asset without partitions."""
        return tuple(self.versions)

    @property
    def versions(self) -> dict[str, str]:
        """The data version of each partition that this run reads."""
        return {one.partition_key: one.data_version for one in self._pinned.partitions or ()}

    def df(self) -> Any:
        """Return the rows as a Spark DataFrame."""
        return self._read(self._pinned, None)

    def at(self, version: int) -> Any:
        """Return the rows of another version that is still kept, as a Spark DataFrame.

        Raise an error if this run reads several partitions: each has its own versions.
        """
        members = self._pinned.partitions
        if members is not None and len(members) != 1:
            raise JobError(
                f"ctx.inputs[{self.asset_id!r}].at({version}) needs one partition; this run reads {len(members)}"
            )
        return self._read(members[0] if members else self._pinned, version)

    def arrow(self, *, new: bool = False) -> Any:
        """Return the rows as a `pyarrow.Table`, in memory."""
        return self._files(new=new).arrow(self._pinned, new=new)

    def polars(self, *, new: bool = False) -> Any:
        """Return the rows as a `polars.DataFrame`, in memory."""
        return self._files(new=new).polars(self._pinned, new=new)

    def duckdb(self, *, new: bool = False) -> Any:
        """Return the rows as a lazy DuckDB relation. All inputs are on one connection, so they can be joined.

        Only what a query needs is read, when its result is fetched. The relation ends with the step.
        """
        return self._files(new=new).relation(self._pinned, new=new)

    @property
    def paths(self) -> tuple[str, ...]:
        """Where the data is: every directory of a table, every path of an append source, or the path of a source."""
        return self._files(new=False).paths(self._pinned)

    @property
    def path(self) -> str | None:
        """The one path or address of the data; None if there is only a payload. Raise an error if there are several."""
        found = self.paths
        if len(found) > 1:
            raise JobError(f"asset {self.asset_id!r} has {len(found)} paths; use ctx.inputs[{self.asset_id!r}].paths")
        return found[0] if found else None


class PartitionWindow(NamedTuple):
    """The time of a partition in UTC: from `start`, before `end`."""

    start: datetime
    end: datetime


class Context:
    """The one argument of a job function.

    `partition_keys` has one key for each partition that the run computes: several in a batch, none without partitions.
    """

    def __init__(
        self,
        *,
        run_id: str,
        attempt: int,
        partition_keys: Sequence[str],
        window: PartitionWindow | None,
        gaps: bool = False,
        parameters: Mapping[str, Any],
        inputs: Mapping[str, PinnedInput],
        empty: Collection[str] = (),
        full_refresh: bool,
        tables: Tables | None,
        warehouse: str,
        reporter: ProgressReporter,
        find_version: Callable[[str, str, int], PinnedInput],
        deliveries: Callable[[PinnedInput], Deliveries],
        files: InputFiles | None = None,
    ) -> None:
        self.run_id = run_id
        self.attempt = attempt
        self.partition_keys = tuple(partition_keys)
        self._window = window
        self._gaps = gaps
        self.parameters = dict(parameters)
        self.full_refresh = full_refresh
        self.log = job_logger(reporter)
        self._read_files = files or InputFiles(warehouse, remote=tables is None)
        self.inputs = Inputs({asset: self._input(pinned, deliveries(pinned)) for asset, pinned in inputs.items()})
        self.inputs.empty = {asset: without_data(asset, "".join(self.partition_keys[:1])) for asset in empty}
        self._pinned = dict(inputs)
        self._tables = tables
        self._warehouse = warehouse
        self._deliveries = deliveries
        self._files: TableReader | None = None
        self._reporter = reporter
        self._find_version = find_version

    @property
    def partition_key(self) -> str:
        """The partition that the run computes; empty without partitions. A batch has several: raise an error."""
        if len(self.partition_keys) > 1:
            raise JobError(
                f"ctx.partition_key: this run computes {len(self.partition_keys)} partitions",
                hint="use ctx.partition_keys, or remove 'batch: true' from the step",
            )
        return self.partition_keys[0] if self.partition_keys else ""

    @property
    def partition_window(self) -> PartitionWindow | None:
        """The time of the partition, of a batch from the first to the last one; None if partitions have no time.

        Raise an error if the partitions of a batch do not follow each other.
        """
        if self._gaps:
            raise JobError(
                f"ctx.partition_window: the {len(self.partition_keys)} partitions of this run, from "
                f"{self.partition_keys[0]} to {self.partition_keys[-1]}, do not follow each other",
                hint="use ctx.partition_keys, or remove 'batch: true' from the step",
            )
        return self._window

    def _input(self, pinned: PinnedInput, deliveries: Deliveries) -> Input:
        def read(one: PinnedInput, version: int | None) -> Any:
            tables = self._need_spark(f"ctx.inputs[{one.asset_id!r}].df()")
            if version is not None:
                one = replace(self._find_version(one.asset_id, one.partition_key, version), cut=pinned.cut)
            return self._read(tables, one)

        def files(*, new: bool) -> TableReader:
            self._read_files.add(pinned, self._deliveries, new=new)
            return self._table_reader()

        seen = deliveries.each(self._read_files.add_delivery)
        return Input(
            pinned.asset_id,
            *(pinned.sequence, pinned.data_version, pinned.payload, seen),
            *(read, files, pinned),
        )

    def _read(self, tables: Tables, pinned: PinnedInput, *, new: bool = False) -> Any:
        """Return the rows of an input as a DataFrame. Its files count as read."""
        table = tables.read(pinned, new=new) if new else tables.read(pinned)
        self._read_files.add(pinned, self._deliveries, new=new)
        return table

    def _table_reader(self) -> TableReader:
        """Return the reader without Spark. It is imported by the first job that uses it."""
        if self._files is None:
            from freshline.worker.table_reader import TableReader  # noqa: PLC0415 - DuckDB takes 50 ms to import

            self._files = TableReader(self._warehouse, self._deliveries)
        return self._files

    def close(self) -> None:
        """End what the inputs have opened. Freshline calls it when the function has returned."""
        if self._files is not None:
            self._files.close()

    @property
    def spark(self) -> Any:
        """The Spark session."""
        return self._need_spark("ctx.spark").spark

    def new(self, asset_id: str) -> Any:
        """Return the rows of an input that were appended since the last run of this step succeeded.

        An input that did not change has no new rows. All rows are new if `ctx.full_refresh` is true or the step
        produces the input itself; the log then says so.
        """
        known = self.inputs[asset_id]
        pinned = self._pinned[asset_id]
        if pinned.since is None:
            why = "everything is read again" if self.full_refresh else "which of its rows are new is not known"
            self.log.info("ctx.new(%r) is the whole input: %s", asset_id, why)
        return self._read(self._need_spark(f"ctx.new({known.asset_id!r})"), pinned, new=True)

    def changed_partitions(self, asset_id: str) -> tuple[str, ...]:
        """Return the partitions of an input that changed since the last run of this step succeeded, in order.

        Those that were not read before count too. All do if it never succeeded, or if the run replaces everything.
        """
        known = self.inputs[asset_id]
        members = self._pinned[asset_id].partitions
        if members is None:
            raise JobError(f"ctx.changed_partitions({known.asset_id!r}): the asset has no partitions")
        return tuple(one.partition_key for one in members if one.changed)

    def new_deliveries(self, asset_id: str) -> Deliveries:
        """Return the deliveries of an append source that came since the last run of this step succeeded."""
        return self.inputs[asset_id].deliveries.after(self._pinned[asset_id].since)

    def progress(self, done: float, total: float | None = None) -> None:
        """Report how far the job is; shown while it runs, in place of Spark's tasks."""
        self._reporter.job_progress(done, total)

    def _need_spark(self, what: str) -> Tables:
        if self._tables is None:
            raise JobError(
                f"{what} needs Spark, and a 'python' job has none; use the job kind 'spark.python'",
                hint="without Spark, .arrow(), .polars() and .duckdb() of an input give its rows",
            )
        return self._tables


class Inputs(dict[str, Input]):
    """The inputs by asset id; an unknown id raises an error that lists the known ones.

    `empty`: the errors of inputs of which nothing can be read.
    """

    empty: Mapping[str, JobError] = MappingProxyType({})

    def __missing__(self, asset_id: str) -> Input:
        if asset_id in self.empty:
            raise self.empty[asset_id]
        declared = ", ".join(sorted(self)) or "none"
        raise JobError(
            f"asset {asset_id!r} is not an input of this step; its inputs are: {declared}; add it to 'consumes'"
        )


def without_data(asset_id: str, key: str) -> JobError:
    """Return the error of an input that has partitions, of which none has data. `key`: what the run computes."""
    nothing = f"has no data for partition {key!r}, and none of its partitions has" if key else "has no partition with"
    return JobError(
        f"input {asset_id!r} {nothing} data yet, so its columns are not known",
        hint="`freshline validate` warns about partitions after the end of their inputs" if key else None,
    )


class _Handler(logging.Handler):
    def __init__(self, reporter: ProgressReporter) -> None:
        super().__init__()
        self._reporter = reporter
        self.setFormatter(logging.Formatter("%(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        for line in self.format(record).splitlines():
            self._reporter.log(line[:MAX_LOGGED].replace("\x00", "\ufffd"))


def job_logger(reporter: ProgressReporter) -> logging.Logger:
    """Return the logger of one step. Its lines go to the supervisor."""
    logger = logging.Logger("freshline.job", logging.DEBUG)  # noqa: LOG001 - it belongs to one step, not to the process
    logger.addHandler(_Handler(reporter))
    return logger
