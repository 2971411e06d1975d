"""The state of one workflow partition at one moment: the input of `decide`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from freshline.model.backfill import REMEMBERED, Demand
from freshline.model.enums import ExpiryReason, OnRetire, RunStatus, TriggerType
from freshline.model.json import Json
from freshline.model.staleness import FloodCounts, Listed, Staleness


@dataclass(frozen=True, slots=True)
class Version:
    """A snapshot of an asset partition, by sequence number and data version.

    `columns`: of a head, the versions of the sets of columns that consumers read; of a consumed version, that of the
    set that the consumer has read (docs/semantics.md#R1.6).
    """

    sequence: int
    data_version: str
    columns: Mapping[str, str] = field(default_factory=dict, compare=False, kw_only=True)

    def as_json(self) -> Json:
        """Return the form in which the store keeps pins and consumed versions."""
        return {"sequence": self.sequence, "dataVersion": self.data_version}

    def read_all_of(self, other: Version) -> bool:
        """Return whether a consumer of this version has read what it would read of another one."""
        same = bool(self.columns) and self.columns.items() <= other.columns.items()
        return same or self.data_version == other.data_version


@dataclass(frozen=True, slots=True)
class Head(Version):
    """The current snapshot of an asset partition.

    `mixed`: a run that made it, or something that it descends from, may have read a mix that was not healed yet.
    `origin`: when the root of the change happened that it was made for; None: when it was produced.
    """

    produced_at: datetime
    run_id: str | None = None
    mixed: bool = False
    origin: datetime | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """The changes of one input that the last success did not read.

    `event_ids`: the first and the last 20 events (docs/semantics.md#R5.5).
    `origin`: when the first of their roots happened; None: when the first change arrived.
    """

    first_at: datetime
    last_at: datetime
    count: int
    event_ids: tuple[str, ...] = ()
    origin: datetime | None = None


def reference(asset_id: str, partition_key: str = "") -> str:
    """Return the text that identifies a partition of an asset in pins and consumed versions: `sales.daily@2024-01-31`.

    The whole of an asset without partitions is its id. An asset id contains no `@`.
    """
    return f"{asset_id}@{partition_key}" if partition_key else asset_id


def is_whole(text: str) -> bool:
    """Return whether a reference names all partitions of an asset, as a consumer of very many reads them: `sales@`."""
    return text.endswith("@")


def split_reference(text: str) -> tuple[str, str]:
    """Return the asset id and the partition key of a reference."""
    asset_id, _, partition_key = text.partition("@")
    return asset_id, partition_key


@dataclass(frozen=True, slots=True)
class Input:
    """One partition of a consumed asset: its head, and the version that the last success read.

    An asset without partitions has one, with an empty key. A consumer that reads several partitions has an input for
    each. `partitions`: it is all partitions of the asset, and so many have data. Then versions are digests, and their
    sequences are numbers of changes. `accepted`: the data version that a user accepted beside the consumed one.
    `concerns`: its changes may make the partition stale. If not, they concern other partitions
    (docs/semantics.md#R13.17).

    `retired_at`: when retention removed the data of the head. `retired`: what follows from that. With `keep` the last
    version counts as consumed, and the consumer is sealed. With `recompute` there is no head, which is a change.
    """

    asset_id: str
    head: Head | None = None
    consumed: Version | None = None
    pending: Pending | None = None
    partition_key: str = ""
    partitions: int | None = None
    retired_at: datetime | None = None
    retired: OnRetire | None = None
    accepted: str | None = None
    concerns: bool = True

    @property
    def missing(self) -> bool:
        """Whether it has no data yet."""
        return self.head is None and self.retired is None

    @property
    def reference(self) -> str:
        """The text that identifies it in pins and consumed versions."""
        return reference(self.asset_id, self.partition_key) if self.partitions is None else f"{self.asset_id}@"

    def accepting(self, data_version: str | None) -> Input:
        """Return the input with a data version that a user accepted beside the consumed one; None: as it is."""
        if data_version is None:
            return self
        accepted = self.head is not None and self.head.data_version == data_version
        return replace(self, accepted=data_version, pending=None if accepted else self.pending)

    @property
    def changed(self) -> bool:
        """Whether the data version differs from the consumed one. Times are never compared."""
        if self.head is None:  # nobody accepts that an input is gone
            return self.differs
        return self.differs and self.head.data_version != self.accepted

    @property
    def differs(self) -> bool:
        """Whether a change that concerns the partition made another data version, accepted or not."""
        if self.head is None:
            return self.retired is OnRetire.RECOMPUTE
        if not self.concerns:
            return False
        return self.consumed is None or not self.consumed.read_all_of(self.head)

    @property
    def passed_over(self) -> bool:
        """Whether only columns changed that the consumer does not read."""
        if self.head is None or self.consumed is None or not self.concerns:
            return False
        return self.consumed.data_version != self.head.data_version and self.consumed.read_all_of(self.head)

    @property
    def newer(self) -> bool:
        """Whether there is a later snapshot, with changed data or not (docs/semantics.md#R1.4)."""
        return self.head is not None and (self.consumed is None or self.head.sequence > self.consumed.sequence)


@dataclass(frozen=True, slots=True)
class Expiry:
    """The end of an output's freshness."""

    at: datetime
    reason: ExpiryReason
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """One produced asset.

    `foreign`: its head was made by another workflow, or reported from outside. `made_by`: the slug of that workflow.
    `lost`: retention removed its data, so that it has no head.
    """

    asset_id: str
    head: Head | None = None
    expired: Expiry | None = None
    foreign: bool = False
    made_by: str | None = None
    lost: bool = False


class Moved(NamedTuple):
    """The sequence of a source now, and when the last success was decided."""

    now: int
    before: int


class Window(NamedTuple):
    """A time from its begin to its end, without the end."""

    begins: datetime
    ends: datetime


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """The active run of the workflow partition: the running one, or else the queued one."""

    id: str
    status: RunStatus
    trigger_type: TriggerType
    attempt: int
    version: int
    pins: Mapping[str, Version]
    mixed: bool = False
    quiet: Window | None = None  # the quiet hours in which no worker may start it
    origin: datetime | None = None  # when the root of what it computes happened

    @property
    def replaceable(self) -> bool:
        """Whether no worker has claimed it: its pins may be renewed, and it may end (docs/semantics.md#R6.3)."""
        return self.trigger_type.decided and self.status is RunStatus.QUEUED and self.attempt == 0


@dataclass(frozen=True, slots=True)
class Failures:
    """Consecutive failed automatic runs (docs/semantics.md#R7.2)."""

    count: int = 0
    last_at: datetime | None = None
    eligible_at: datetime | None = None
    breaker_at: datetime | None = None
    probed_versions: Mapping[str, str] | None = None  # the data versions that the last failed run read


@dataclass(frozen=True, slots=True)
class Canceled:
    """A canceled run. It is not queued again with the same versions (docs/semantics.md#R5.3)."""

    version: int
    pins: Mapping[str, str]
    expired_at: datetime | None = None
    backfill_id: str | None = None  # of the backfill whose run it was


class RecentBackfill(NamedTuple):
    """A backfill that is active, or ended lately: what it changed last may still be in motion.

    `priority`: of its runs. `progressed_at`: when one of its partitions ended last, or when it began.
    """

    priority: int
    progressed_at: datetime
    ended: bool = False

    def extends_until(self, wait: timedelta) -> datetime:
        """Return until when waits of this length for what it changes do not end (docs/semantics.md#R14.6)."""
        return self.progressed_at + (min(wait, REMEMBERED) if self.ended else wait)


@dataclass(frozen=True, slots=True)
class Blocker:
    """An ancestor in motion whose result could make a run read a mix of generations (docs/semantics.md#R4.2).

    `until`: the end of its hold; None: it is active. `cannot_run`: it is held without a known end, or not automatic.
    `mixes`: a run that does not wait for it reads a mix. `origin`: when the root of its motion happened.
    `together`: the sources that were reported together, if that is why it would be a mix (docs/semantics.md#R4.7).
    """

    workflow_id: int
    slug: str
    motion: str
    until: datetime | None = None
    cannot_run: bool = False
    mixes: bool = True
    partition_key: str = ""
    origin: datetime | None = None
    together: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """All facts about one workflow partition.

    `evaluations`: how often the current hold was evaluated without a change.
    `waited`: for how long it has waited for ancestors since the last success, evaluation by evaluation.
    `sources`: with `when: all`, how far the sources above have moved since the last success.
    `partial`: input partitions are missing, and a run goes on without them. `grace_ends`: when it may.
    `came_at`: when the partition came to exist, if it came with the time. `window_ends`: when its window ends.
    `demands`: of backfills for this partition, the earliest first. `backfills`: the active ones by their time, which
    is the origin of what they change.
    `newest`: no partition is newer. `flood`: how many partitions of the workflow count; None: they are not guarded.
    `later`: how many partitions follow from this one in a chain of predecessors. `listed`: what a proposal lists about
    it. `declined`: versions of a denied proposal, which cause nothing. `asked`: the times of backfills, open and
    lately.
    """

    workflow_id: int
    slug: str
    partition_key: str
    version: int
    job_fingerprint: str
    applied_at: datetime
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    succeeded_fingerprint: str | None = None  # of the last success; None: never
    succeeded_at: datetime | None = None
    started_at: datetime | None = None  # of the last automatic run
    success_cause: str | None = None
    cause_repeats: int = 0
    mixed: bool = False  # the last success may have read several generations (ADR 0004)
    active: ActiveRun | None = None
    paused: bool = False
    paused_until: datetime | None = None
    failures: Failures = Failures()
    canceled: Canceled | None = None
    blockers: tuple[Blocker, ...] = ()
    evaluations: int = 0
    waited: timedelta = timedelta(0)
    sources: Mapping[str, Moved] = field(default_factory=dict)
    partial: bool = False
    grace_ends: datetime | None = None
    came_at: datetime | None = None
    window_ends: datetime | None = None
    demands: tuple[Demand, ...] = ()
    backfills: Mapping[datetime, RecentBackfill] = field(default_factory=dict)
    newest: bool = True
    flood: FloodCounts | None = None
    later: int = 0
    listed: Listed | None = None
    declined: Staleness | None = None
    asked: frozenset[datetime] = frozenset()

    @property
    def moved_sources(self) -> list[str]:
        """The sources that moved since the last success."""
        return [one for one, moved in self.sources.items() if moved.now > moved.before]

    @property
    def round(self) -> dict[str, int]:
        """Where the sources are now: the begin of the next round, if a run starts."""
        return {one: moved.now for one, moved in self.sources.items()}
