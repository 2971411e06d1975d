"""Backfills of a simulation and their parts, as records."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from freshline.model.backfill import BACKFILL_CLASS, OPEN, BackfillPolicy, BackfillStatus, Demand, PartitionState
from freshline.partitions.selection import Selection

if TYPE_CHECKING:
    from freshline.simulation.catalogue import Member


@dataclass(slots=True)
class Part:
    """The partitions of one workflow. `rest`: those that had no turn yet; None: all had theirs."""

    selection: Selection
    rest: Selection | None
    total: int
    version: int
    done: int = 0


@dataclass(slots=True)
class Backfill:
    """One backfill.

    `parts`: by workflow. `states`: of the members that had their turn and are not counted as done.
    `satisfied`: members with a success that counts. `made`: the snapshots of these, by reference and sequence.
    """

    id: str
    asset_id: str
    policy: BackfillPolicy
    requested_at: datetime
    parts: dict[int, Part]
    status: BackfillStatus = BackfillStatus.ACTIVE
    progressed_at: datetime | None = None
    ended_at: datetime | None = None
    states: dict[int, PartitionState] = field(default_factory=dict)
    satisfied: set[int] = field(default_factory=set)
    made: set[tuple[str, int]] = field(default_factory=set)

    @property
    def is_open(self) -> bool:
        """Whether it may still cause runs."""
        return self.status in OPEN

    @property
    def urgency(self) -> int:
        """The priority of its runs among all runs."""
        return BACKFILL_CLASS + self.policy.priority

    def demand(self, member: Member) -> Demand:
        """Return its demand for a member whose turn has come."""
        policy = self.policy
        return Demand(
            backfill_id=self.id,
            requested_at=self.requested_at,
            version=self.parts[member.workflow_id].version,
            only=policy.only,
            priority=policy.priority,
            during_quiet_hours=policy.during_quiet_hours,
            not_before=policy.not_before,
            partial=policy.partial,
            satisfied=member.id in self.satisfied,
            paused=self.status is BackfillStatus.PAUSED,
            newest_first=policy.newest_first,
        )

    def open(self) -> list[int]:
        """Return the members whose demand is open."""
        return [number for number, state in self.states.items() if state is PartitionState.OPEN]

    def count(self, state: PartitionState) -> int:
        """Return how many members that had their turn are in a state."""
        return sum(one is state for one in self.states.values())
