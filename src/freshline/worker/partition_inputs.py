"""The partitions of a run for its steps: what it reads of inputs with partitions, its window, and its columns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property

from freshline.definitions.schema.workflow import Consumes, Produces, Workflow
from freshline.definitions.steps import partitioning_of
from freshline.model.run import Location, PartitionColumn, PinnedInput, TimeCut
from freshline.partitions import Partitioning
from freshline.partitions.calendar import Window
from freshline.partitions.dimensions import Dimensions
from freshline.partitions.time_partitioning import TimePartitioning
from freshline.partitions.zone import zone

# What a consumer does not need of each of thousands of partitions.
UNREAD = ("files", "fingerprint", "tableSchema")
DIGEST = "keys:"


@dataclass(frozen=True)
class RunPartition:
    """The partitions that a run computes: none, one, or those of a batch."""

    definition: Workflow
    keys: tuple[str, ...]

    @cached_property
    def _partitioning(self) -> Partitioning:
        return partitioning_of(self.definition)

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """The times of the partitions, in order; those that follow each other are one window."""
        found: list[Window] = []
        for one in sorted({w for w in map(self._partitioning.window, self.keys) if w is not None}):
            if found and found[-1].ends >= one.begins:
                found[-1] = Window(found[-1].begins, max(found[-1].ends, one.ends))
            else:
                found.append(one)
        return tuple(found)

    @property
    def window(self) -> Window | None:
        """The time of the partitions; None if they have none, or several."""
        return self.windows[0] if len(self.windows) == 1 else None

    def columns(self, output: Produces, key: str) -> tuple[PartitionColumn, ...]:
        """Return the columns of an output that hold a partition, with their values."""
        if not key or output.partitioning is None:
            return ()
        values = output.partitioning.compiled().column_values(key)
        columns = output.partitioning.columns()
        return tuple(
            PartitionColumn(one.name, one.type, _text(value)) for one, value in zip(columns, values, strict=True)
        )

    def cut(self, item: Consumes) -> TimeCut | None:
        """Return how the rows of an input are cut to the windows, if it declares `timeColumn`."""
        column = item.partitions.time_column if item.partitions else None
        if column is None or not self.windows:
            return None
        first, *others = (
            TimeCut(column, one.begins.isoformat(), one.ends.isoformat(), *(self._whole_days(one) or (None, None)))
            for one in self.windows
        )
        return replace(first, others=others)

    def _whole_days(self, window: Window) -> tuple[str, str] | None:
        """Return the first day of the window and the one after it; None if a window begins within a day."""
        axes = self._partitioning.axes if isinstance(self._partitioning, Dimensions) else (self._partitioning,)
        time = next(one for one in axes if isinstance(one, TimePartitioning))
        if not time.grain.local:
            return None
        days = zone(time.timezone)
        first, end = (date.fromordinal(days.day_at(at)).isoformat() for at in window)
        return first, end


def combined(asset_id: str, pins: Iterable[PinnedInput], example: PinnedInput | None) -> PinnedInput | None:
    """Return the partitions of one asset that a run reads, as one input. `example`: another one, if it reads none.

    Return None if the columns of an asset without data are not known.
    """
    read = sorted(pins, key=lambda one: one.partition_key)
    newest = max(read, key=lambda one: one.table_version or 0, default=example)
    if newest is None:
        return None
    return PinnedInput(
        asset_id,
        read[0].sequence if len(read) == 1 else 0,
        data_version(read),
        _slim(next((one.location for one in (newest, *read) if one.location is not None), None)),
        read[0].payload if len(read) == 1 else {one.partition_key: one.payload for one in read},
        schema=newest.schema,
        parts=[] if read else newest.parts,
        rows=None if any(one.rows is None for one in read) else sum(one.rows or 0 for one in read),
        bytes=None if any(one.bytes is None for one in read) else sum(one.bytes or 0 for one in read),
        partitions=[_member(one, newest) for one in read],
    )


def data_version(read: Iterable[PinnedInput]) -> str:
    """Return the data version of a partition; of several, a digest of their keys and versions."""
    versions = {one.partition_key: one.data_version for one in read}
    if len(versions) == 1:
        return next(iter(versions.values()))
    text = json.dumps(sorted(versions.items()))
    return DIGEST + hashlib.sha256(text.encode()).hexdigest()[:32]


def advanced(pinned: PinnedInput, since: Mapping[str, int], changed: Mapping[str, bool]) -> PinnedInput:
    """Return a combined input with what is new in each partition. Partitions that are not in `since` are all new."""
    members = [
        replace(one, since=since.get(one.partition_key), changed=changed.get(one.partition_key, True))
        for one in pinned.partitions or ()
    ]
    return replace(pinned, partitions=members, changed=any(one.changed for one in members))


def _member(one: PinnedInput, newest: PinnedInput) -> PinnedInput:
    """Return a partition without what the step does not read; the columns only if they differ from the newest."""
    schema = None if one.schema == newest.schema else one.schema
    return replace(one, location=_slim(one.location), schema=schema)


def _slim(location: Location | None) -> Location | None:
    if location is None:
        return None
    return {name: value for name, value in location.items() if name not in UNREAD}


def _text(value: str | date | datetime) -> str:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return value.isoformat() if isinstance(value, date) else value
