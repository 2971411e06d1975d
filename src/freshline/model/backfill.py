"""Backfills: durable demands to compute partitions again (docs/semantics.md#R14).

A backfill is a row with a selection of partitions, a time, the versions of its workflows at that time, and a policy.
It is not a queue of runs: `decide` sees the demand for one partition as one more cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

DEFAULT_PRIORITY = 200
DEFAULT_CONCURRENCY = 4
MOST_CONCURRENCY = 1_000
MOST_PARTITIONS = 100_000
"""How many partitions one backfill may have, over all of its workflows."""
BACKFILL_CLASS = 100_000_000
"""What is added to the priority of backfill runs: runs of other kinds are always more urgent."""


REMEMBERED = timedelta(hours=24)
"""How long after its end a backfill may extend waits for what it changed last (docs/semantics.md#R14.6)."""


class BackfillStatus(StrEnum):
    """The states of a backfill. A proposed one waits for an approval, an active one starts runs."""

    PROPOSED = "proposed"
    ACTIVE = "active"
    PAUSED = "paused"
    FINISHED = "finished"
    CANCELED = "canceled"
    DENIED = "denied"


OPEN = frozenset({BackfillStatus.PROPOSED, BackfillStatus.ACTIVE, BackfillStatus.PAUSED})


class Only(StrEnum):
    """Which of the selected partitions a backfill computes.

    `missing`: those without a success. `failed`: those whose last automatic run failed when it was requested. `stale`:
    those that are not up to date.
    """

    MISSING = "missing"
    FAILED = "failed"
    STALE = "stale"
    ALL = "all"


class PartitionState(StrEnum):
    """What became of a partition of a backfill. `open`: it had its turn and is not done yet."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand of a backfill for one partition whose turn has come.

    `version`: of the workflow when the backfill was requested. `satisfied`: a success of the partition that started
    after the request counts for it (docs/semantics.md#R14.2). `progressed_at`: when the last partition of the backfill
    ended. `paused`: it causes nothing now.
    """

    backfill_id: str
    requested_at: datetime
    version: int
    only: Only = Only.ALL
    priority: int = DEFAULT_PRIORITY
    during_quiet_hours: bool = False
    not_before: datetime | None = None
    partial: bool = False
    satisfied: bool = False
    paused: bool = False
    newest_first: bool = True
    progressed_at: datetime | None = None

    @property
    def urgency(self) -> int:
        """The priority of its runs among all runs: backfills are a class of their own (docs/semantics.md#R14.4)."""
        return BACKFILL_CLASS + self.priority

    def accepts(self, started_at: datetime, version: int) -> bool:
        """Return whether a success may count: it started after the request, with a workflow that is not older.

        The time of the start counts. A run that was requested before and started after reads what is there after.
        """
        return started_at >= self.requested_at and version >= self.version


@dataclass(frozen=True, slots=True)
class BackfillPolicy:
    """How a backfill runs.

    `batch`: how many partitions a run may compute. `concurrency`: how many of its runs may be queued or running.
    `partial`: partitions of inputs that are missing or were retired are left out.
    """

    only: Only = Only.ALL
    batch: int = 1
    concurrency: int = DEFAULT_CONCURRENCY
    newest_first: bool = True
    not_before: datetime | None = None
    during_quiet_hours: bool = False
    priority: int = DEFAULT_PRIORITY
    partial: bool = False


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """What a user asks for. `first` and `last` are keys of time partitions, both included; None: without limit.

    `keys`: single keys instead. `upstream`, `downstream`: also the partitions that these are computed from, and those
    that are computed from these.
    """

    asset_id: str
    first: str | None = None
    last: str | None = None
    keys: tuple[str, ...] = ()
    upstream: bool = False
    downstream: bool = False
    policy: BackfillPolicy = BackfillPolicy()


@dataclass(frozen=True, slots=True)
class Progress:
    """The partitions of one workflow of a backfill, by state.

    `waiting`: they had their turn, and are held or not evaluated yet.
    """

    total: int
    done: int = 0
    failed: int = 0
    refused: int = 0
    running: int = 0
    queued: int = 0
    waiting: int = 0

    @property
    def rest(self) -> int:
        """How many had no turn yet."""
        return max(0, self.total - self.ended - self.running - self.queued - self.waiting)

    @property
    def ended(self) -> int:
        """How many are done, failed or refused."""
        return self.done + self.failed + self.refused


def remaining_time(progress: Progress, elapsed: timedelta, cooldown: timedelta = timedelta(0)) -> timedelta | None:
    """Return how long the rest takes at the pace so far; None if nothing ended yet.

    `cooldown`: until the last partition that failed is tried again. It takes as long as the others after that.
    """
    if not progress.ended or elapsed <= timedelta(0):
        return None
    each = elapsed / progress.ended
    pace = each * (progress.total - progress.ended)
    return max(pace, cooldown + each) if cooldown > timedelta(0) else pace
