"""The rows of a simulation, as the store has them: assets with their timers, considerations, runs."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from freshline.decide.newness import Produced, concerns
from freshline.model.documents.decision import Trigger
from freshline.model.enums import ExpiryReason, Reason, RunStatus, TriggerType
from freshline.model.state import ActiveRun, Expiry, Head, Input, Output, Pending, Version, split_reference
from freshline.partitions.partitioning import Newness

# An asset keeps this many changes before those that every reader has consumed are dropped.
MOST_CHANGES = 256


@dataclass(slots=True)
class Asset:
    """One partition of an asset, or an asset without partitions: its head, its changes, and its two timers.

    `id`: its reference, which is the id of an asset without partitions.
    `sources`: the sequences of the sources that the head was made from.
    `foreign`: its workflow did not make the head, but `made_by` or somebody outside.
    `sequences`, `times`, `origins` and `versions`: the snapshots with changed data, when they were produced, when the
    root of each change happened, and their data versions. `columns`: by sequence, the versions of sets of columns, of
    the snapshots that have any.
    """

    id: str
    head: Head | None = None
    sources: Mapping[str, int] = field(default_factory=dict)
    foreign: bool = False
    made_by: str | None = None
    sequences: list[int] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)
    origins: list[datetime] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    columns: dict[int, Mapping[str, str]] = field(default_factory=dict)
    due_at: datetime | None = None
    due_reason: ExpiryReason | None = None
    expired: Expiry | None = None
    overdue_at: datetime | None = None
    overdue: bool = False
    retired_at: datetime | None = None  # when retention removed the data of the head
    asset_id: str = field(init=False)
    partition_key: str = field(init=False)

    def __post_init__(self) -> None:
        self.asset_id, self.partition_key = split_reference(self.id)

    def append(
        self,
        version: str,
        now: datetime,
        run_id: str | None,
        origin: datetime | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> bool:
        """Add a snapshot, which becomes the head; return whether the data changed (docs/semantics.md#R9.3)."""
        changed = self.current is None or self.current.data_version != version
        sequence = self.head.sequence + 1 if self.head else 1
        self.head = Head(sequence, version, now, run_id, origin=origin, columns=columns or {})
        if columns:
            self.columns[sequence] = columns
        self.foreign, self.retired_at = False, None
        if changed:
            self.sequences.append(self.head.sequence)
            self.times.append(now)
            self.origins.append(origin or now)
            self.versions.append(version)
        return changed

    def input(self, consumed: Version | None) -> Input:
        """Return the asset as an input of a workflow whose last success read `consumed`."""
        pending = self._pending(consumed)
        return Input(self.asset_id, self.head, consumed, pending, self.partition_key, retired_at=self.retired_at)

    @property
    def current(self) -> Head | None:
        """The head, if it has its data."""
        return self.head if self.retired_at is None else None

    def retire(self, now: datetime) -> bool:
        """Remove the data; return whether there was any."""
        if self.current is None:
            return False
        self.retired_at = now
        return True

    def input_of_newest(self, consumed: Version | None, newness: Newness) -> Input:
        """Return the asset as an input whose changes concern the partition that was the newest in this time."""
        end = len(self.times) if newness.until is None else bisect_left(self.times, newness.until)
        last = Produced(self.sequences[end - 1], self.versions[end - 1], self.times[end - 1]) if end else None
        if not concerns(consumed, last, newness):
            return Input(self.asset_id, self.head, consumed, None, self.partition_key, concerns=False)
        first = bisect_left(self.times, newness.since) if consumed is None and newness.since else 0
        pending = self._pending(consumed, first, end)
        return Input(self.asset_id, self.head, consumed, pending, self.partition_key)

    def _pending(self, consumed: Version | None, begin: int = 0, end: int | None = None) -> Pending | None:
        head = self.head
        if head is None or (consumed is not None and consumed.read_all_of(head)):
            return None
        behind = consumed.sequence if consumed else 0
        first = max(begin, bisect_right(self.sequences, behind))
        if first == len(self.times):
            return None
        last = head.sequence if end is None else self.sequences[end - 1]
        if consumed is not None and consumed.columns:
            return self._pending_columns(consumed, range(first, len(self.times) if end is None else end), last)
        origin = min(self.origins[first:end], default=None)
        return Pending(self.times[first], self.times[first:end][-1], last - behind, origin=origin)

    def _pending_columns(self, consumed: Version, places: range, last: int) -> Pending | None:
        """Return the changes of columns that a consumer reads."""
        found = [
            at for at in places if not consumed.columns.items() <= self.columns.get(self.sequences[at], {}).items()
        ]
        if not found:
            return None
        origin = min(self.origins[at] for at in found)
        return Pending(self.times[found[0]], self.times[found[-1]], last - consumed.sequence, origin=origin)

    def output(self) -> Output:
        """Return the asset as an output of its producer."""
        lost = self.retired_at is not None
        return Output(self.asset_id, self.current, self.expired, self.foreign, self.made_by, lost)

    def forget(self, consumed: int) -> None:
        """Drop the changes up to `consumed`, which every reader has consumed. The first change stays."""
        keep = bisect_right(self.sequences, consumed)
        del self.sequences[1:keep], self.times[1:keep], self.origins[1:keep], self.versions[1:keep]


@dataclass(slots=True)
class Consideration:
    """When to evaluate a workflow, and its current hold.

    `recheck_at`: the next regular evaluation of a workflow that sleeps. `wakes`: the one at which it is evaluated if
    nothing happens, and how many evaluations there were by then. `priority`: of its cause, while it waits.
    `waited`: the wait for ancestors up to `evaluated_at`, the time of the last evaluation.
    """

    at: datetime
    hold: Reason | None = None
    blocker_id: int | None = None
    evaluations: int = 0
    recheck_at: datetime | None = None
    wakes: tuple[datetime, int] | None = None
    evaluated_at: datetime | None = None
    waited: timedelta = timedelta(0)
    priority: int | None = None

    def waited_until(self, now: datetime) -> timedelta:
        """Return the wait for ancestors until now: nothing interrupts it here."""
        if self.hold is not Reason.WAITING_FOR_UPSTREAM or self.evaluated_at is None:
            return self.waited
        return self.waited + (now - self.evaluated_at)


@dataclass(slots=True)
class Run:
    """One automatic run."""

    id: str
    workflow_id: int  # the id of the member
    slug: str
    version: int
    trigger: Trigger
    pins: Mapping[str, Version]
    cause: str
    mixed: bool
    queued_at: datetime
    status: RunStatus = RunStatus.QUEUED
    attempt: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    sources: Mapping[str, int] = field(default_factory=dict)
    round: Mapping[str, int] = field(default_factory=dict)
    job_fingerprint: str | None = None  # of the definition that the run is pinned to; None: the current one
    partition_key: str = ""
    origin: datetime | None = None  # when the root of the change happened
    number: int = 0  # in the order in which runs are queued
    urgency: float = 0.0  # the lowest is claimed first

    @property
    def backfill_id(self) -> str | None:
        """The backfill that it runs for; None: it runs for a cause of its own."""
        return self.trigger.get("backfillId") if self.trigger["type"] is TriggerType.BACKFILL else None

    @property
    def reason(self) -> str:
        """The reason of the trigger."""
        return str(self.trigger["reason"])

    @property
    def read(self) -> Mapping[str, str]:
        """The data versions of its pins."""
        return {asset_id: pin.data_version for asset_id, pin in self.pins.items()}

    def active(self) -> ActiveRun:
        """Return the run as `decide` sees it."""
        return ActiveRun(
            self.id,
            self.status,
            TriggerType(self.trigger["type"]),
            self.attempt,
            self.version,
            self.pins,
            self.mixed,
            origin=self.origin,
        )


class RunQueue:
    """The queued runs, most urgent first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Run]] = []
        self._count = 0

    def push(self, run: Run, priority: int) -> None:
        """Add a run. Ten seconds of waiting are worth one point of priority (docs/semantics.md#R11.8)."""
        self._count += 1
        run.number, run.urgency = self._count, _urgency(run, priority)
        heapq.heappush(self._heap, (run.urgency, run.number, run))

    def hurry(self, run: Run, priority: int) -> None:
        """Give a queued run this priority, unless it is more urgent already."""
        urgency = _urgency(run, priority)
        if urgency < run.urgency:
            run.urgency = urgency
            heapq.heappush(self._heap, (urgency, run.number, run))

    def pop(self) -> Run | None:
        """Remove and return the most urgent run that is still queued."""
        while self._heap:
            urgency, _, run = heapq.heappop(self._heap)
            if run.status is RunStatus.QUEUED and urgency == run.urgency:
                return run
        return None


def _urgency(run: Run, priority: int) -> float:
    return run.queued_at.timestamp() + 10 * priority


def first_version(asset_id: str) -> str:
    """Return the version of an asset in a simulation that starts fresh."""
    return f"{asset_id}@1"
