"""The flood guard of a simulation: counts, and what is proposed. A proposal that nobody approves stays held.

Counts are taken once per batch, as the store takes them, before any of its members starts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from freshline.decide import Decision
from freshline.decide.proposals import Confirmed, HeldPartition, connected, propose
from freshline.model.enums import Reason, RunStatus
from freshline.model.staleness import NOTHING_STALE, Counted, FloodCounts, Listed, Staleness
from freshline.model.state import State
from freshline.simulation.catalogue import Member
from freshline.simulation.records import Run

if TYPE_CHECKING:
    from freshline.simulation.simulator import Simulator

DAY = timedelta(hours=24)
PROPOSAL = "proposal"


class Floods:
    """How the partitions of each workflow count, and what a proposal lists about them."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._held: dict[int, dict[int, HeldPartition]] = defaultdict(dict)  # by workflow and member
        self._proposed: set[int] = set()  # members that are held for an approval and may not be listed as they are
        self._started: dict[int, list[tuple[int, Run]]] = defaultdict(list)
        self._listed: dict[int, Staleness] = {}
        self._counts: dict[int, FloodCounts] = {}
        self._batch: frozenset[int] = frozenset()

    def begin(self, batch: Iterable[int]) -> None:
        """Take the counts of a batch anew."""
        self._batch = frozenset(batch) if self._simulator.catalogue.graph.partitioned else frozenset()
        self._counts = {}

    def apply(self, member: Member, state: State) -> State:
        """Return a state with what the flood guard needs."""
        declined = self._simulator.workflow_state(member.id).declined
        if not self._simulator.catalogue.graph.partitioned:
            return state if declined is None else replace(state, declined=declined)
        listed = self._listed.get(member.id)
        newest = self._simulator.reading.is_newest(member, self._simulator.now)
        guarded = bool(member.partition_key) and not newest
        return replace(
            state,
            newest=newest,
            flood=self._count(member.workflow_id) if guarded else None,
            later=self._later(member) if guarded else 0,
            listed=None if listed is None else Listed(PROPOSAL, listed),
            declined=declined,
            asked=self._asked(),
        )

    def _asked(self) -> frozenset[datetime]:
        """Return the times of backfills that are open or ended lately."""
        since = self._simulator.now - DAY
        known = self._simulator.backfills.known.values()
        return frozenset(one.requested_at for one in known if one.ended_at is None or one.ended_at > since)

    def record(self, member: Member, decision: Decision, run: Run | None) -> None:
        """Record how a partition counts after its decision."""
        held, number = self._held[member.workflow_id], member.id
        held.pop(number, None)
        self._proposed.discard(number)
        if decision.counted is not None and decision.next_evaluation is not None:
            staleness = decision.staleness or NOTHING_STALE
            held[number] = HeldPartition(
                member.workflow_id, member.partition_key, decision.counted, staleness, decision.origin
            )
            if decision.reason is Reason.BACKFILL_PROPOSED:
                self._proposed.add(number)
        if decision.next_evaluation is None and run is None:
            self._listed.pop(number, None)
        if run is not None and decision.run is not None and decision.run.counted is not None:
            self._started[member.workflow_id].append((number, run))

    def forget(self, number: int) -> None:
        """Forget what is listed about a partition that came to rest."""
        self._listed.pop(number, None)

    def follow(self) -> bool:
        """List what is held for an approval, or release it. Return whether anything is evaluated again."""
        fresh = {one for one in self._proposed if not self._is_listed(one)}
        if not fresh:
            return False
        catalogue = self._simulator.catalogue
        held = [self._held[catalogue.members[one].workflow_id][one] for one in sorted(self._proposed)]
        confirmed = {one.workflow_id: self._confirmed(one.workflow_id) for one in held}
        released: list[HeldPartition] = []
        self._counts = {}
        for group in connected(catalogue.graph, confirmed):
            found = propose([one for one in held if one.workflow_id in group], confirmed, self._later_of)
            for one in found.listed:
                self._list(one)
            for one in found.ignored:
                state = self._simulator.workflow_state(self._number(one))
                state.decline(one.staleness)
            released += [*found.released, *found.ignored]
        for one in released:
            self._listed.pop(self._number(one), None)
            self._simulator.note(self._number(one))
        return bool(released)

    def _list(self, one: HeldPartition) -> None:
        number = self._number(one)
        self._listed[number] = one.staleness
        if one.counted is not Counted.JOINED:
            self._held[one.workflow_id][number] = one._replace(counted=Counted.LISTED)

    def _is_listed(self, number: int) -> bool:
        held = self._held[self._simulator.catalogue.members[number].workflow_id][number]
        return held.counted is Counted.LISTED or self._listed.get(number) == held.staleness

    def _number(self, one: HeldPartition) -> int:
        return self._simulator.catalogue.member(one.workflow_id, one.partition_key).id

    def _count(self, workflow_id: int) -> FloodCounts:
        known = self._counts.get(workflow_id)
        if known is None:
            due = self._due(workflow_id)
            held = {number: one for number, one in self._held[workflow_id].items() if number not in due}
            own = sum(one.counted is Counted.OWN for one in held.values())
            started = self._starts(workflow_id, {*held, *due})
            known = FloodCounts(len(due) + len(held) + started, len(due) + own + started)
            self._counts[workflow_id] = known
        return known

    def _due(self, workflow_id: int) -> set[int]:
        members = self._simulator.catalogue.members
        return {
            one for one in self._batch | self._simulator.considerations.due() if members[one].workflow_id == workflow_id
        }

    def _starts(self, workflow_id: int, without: set[int]) -> int:
        """Return how many partitions started by themselves in the last 24 hours."""
        since = self._simulator.now - DAY
        lately = [(number, run) for number, run in self._started[workflow_id] if run.queued_at > since]
        self._started[workflow_id] = lately
        return len(
            {
                number
                for number, run in lately
                if number not in without and (run.status is not RunStatus.CANCELED or run.started_at is not None)
            }
        )

    def _confirmed(self, workflow_id: int) -> Confirmed:
        held = self._held[workflow_id]
        own = sum(one.counted is Counted.OWN for one in held.values())
        policy = self._simulator.catalogue.workflows[workflow_id].policy
        return Confirmed(policy, len(held), own, self._starts(workflow_id, set(held)))

    def _later_of(self, one: HeldPartition, most: int) -> int:
        return self._simulator.reading.later(one.workflow_id, one.partition_key, self._simulator.now, most)

    def _later(self, member: Member) -> int:
        limit = member.policy.flood.limit
        return self._simulator.reading.later(member.workflow_id, member.partition_key, self._simulator.now, limit)

    def proposed(self) -> Sequence[Member]:
        """Return the partitions that are proposed, and nobody has approved."""
        return [self._simulator.catalogue.members[one] for one in sorted(self._proposed)]
