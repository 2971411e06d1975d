"""Decides due workflows as the materializer does in the store: ancestors first, until none is due.

A hold that only an event can end is not evaluated in between: no event is lost here, so the result would be the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from freshline.decide import Decision, NewRun, Renewal, decide
from freshline.decide.batch import in_order, moving_after, wants_oldest
from freshline.decide.times import milliseconds
from freshline.model.enums import Reason, RunStatus, When
from freshline.model.state import State
from freshline.simulation.catalogue import Catalogue, Member
from freshline.simulation.motion import PartitionMotion
from freshline.simulation.records import Run
from freshline.simulation.timers import EXPIRY

if TYPE_CHECKING:
    from freshline.simulation.simulator import Simulator

ENDED_BY_EVENTS = frozenset({Reason.INPUT_MISSING, Reason.CANCELED, Reason.PAUSED, Reason.BACKFILL_PROPOSED})


class Reconciler:
    """Fires timers and decides considerations."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._count = 0
        self._waiting: dict[int, int] = {}  # the blockers of the batch, and the priority of who waits for them

    def settle(self) -> None:
        """Decide due workflows until none is due."""
        simulator = self._simulator
        while True:
            self._fire_timers()
            moved = simulator.backfills.advance()
            simulator.motion.rest(simulator.backfills.resting())
            batch = simulator.considerations.take(simulator.now)
            if not batch and not moved:
                if simulator.floods.follow():
                    continue
                simulator.report_groups.settle()
                return
            if isinstance(simulator.motion, PartitionMotion) and simulator.catalogue.graph.latest_edges:
                simulator.motion.set_newest(simulator.reading.newest_at(simulator.now))
            self._decide_batch(self._in_order(batch))
            simulator.report_groups.settle()

    def _in_order(self, batch: Iterable[int]) -> list[int]:
        simulator, catalogue = self._simulator, self._simulator.catalogue

        def from_oldest(number: int) -> bool:
            member = catalogue.members[number]
            return bool(catalogue.graph.own_input(member.workflow_id)) or wants_oldest(
                simulator.backfills.demands(member)
            )

        def key(number: int) -> str:
            return catalogue.members[number].partition_key

        return in_order(batch, place=catalogue.place, key=key, from_oldest=from_oldest)

    def decide(self, member: Member, state: State) -> Decision:
        """Return the decision about a workflow. Without an ancestor in motion there is nothing to wait for."""
        motion = self._simulator.motion
        searches = member.policy.when is When.ALL or motion.above(member.id)
        return decide(member.policy, state, self._simulator.now, motion if searches else None)

    def _fire_timers(self) -> None:
        simulator = self._simulator
        for asset, kind in simulator.timers.fire(simulator.now, simulator.arrivals.is_clocked):
            producer = simulator.producer(asset)
            if kind != EXPIRY:
                simulator.observer.overdue(simulator, asset)
            elif producer is not None:
                simulator.note(producer)
        simulator.arrivals.add()  # it stops clocks, after what was due has fired
        simulator.retirement.fire()

    def _decide_batch(self, batch: list[int]) -> None:
        simulator = self._simulator
        settled = []
        simulator.floods.begin(batch)
        for workflow_id in batch:
            member = simulator.catalogue.members[workflow_id]
            state = simulator.state(member)
            decision = self.decide(member, state)
            self._apply(member, state, decision)
            simulator.motion.settle(workflow_id, moving_after(state, decision))
            if decision.blocks_until is not None:
                simulator.considerations.reschedule_waiting(workflow_id, simulator.now)
            elif decision.rests:
                settled.append(workflow_id)
        self._hurry()
        simulator.floods.begin(())
        simulator.considerations.wake(settled, simulator.now)

    def _hurry(self) -> None:
        """Give queued blockers the priority of the workflows that wait for them (docs/semantics.md#R11.8)."""
        for blocker, priority in self._waiting.items():
            run = self._simulator.active.get(blocker)
            if run is not None and run.status is RunStatus.QUEUED:
                self._simulator.queue.hurry(run, priority)
        self._waiting.clear()

    def _apply(self, member: Member, state: State, decision: Decision) -> None:
        simulator, run = self._simulator, None
        if decision.renewal is not None:
            run = _renew(simulator.active[member.id], decision.renewal)
            simulator.queue.hurry(run, _own_priority(member, decision.renewal.urgency))
            run.sources, run.origin = simulator.sources_of(member), decision.origin
        if decision.superseded is not None:
            simulator.end(simulator.active[member.id], RunStatus.CANCELED)
        if decision.run is not None:
            run = self._queue(member, decision.run)
        sleeps = decision.next_evaluation is not None and _ends_by_event(member, state, decision)
        sleeps = sleeps and (decision.reason is Reason.INPUT_MISSING or not self._may_be_held_first(member))
        if decision.run is not None or decision.reason is Reason.UP_TO_DATE:
            simulator.workflow_states[member.id].waited = state.waited if decision.run else timedelta(0)
        ends_at, progress_ends = _wait_ends_at(decision), _progress_ends_at(member, state, decision, simulator.now)
        if progress_ends is not None and _goes_on(member, state, decision, simulator.now):
            ends_at = None
        blocker = priority = None
        if decision.blocker_id is not None:
            blocker = _member(simulator.catalogue, decision.blocker_id, decision.blocker_key)
            priority = simulator.considerations.priority(member.id, _own_priority(member, decision.urgency))
            if blocker is not None:
                self._waiting[blocker] = min(priority, self._waiting.get(blocker, priority))
            sleeps = sleeps and (blocker is not None or simulator.backfills.have_begun())
        simulator.considerations.record(
            member.id,
            decision,
            simulator.now,
            blocker=blocker,
            priority=priority,
            sleeps=sleeps,
            until=ends_at,
            regularly_from=progress_ends,
        )
        simulator.backfills.record(member, decision.demands)
        simulator.floods.record(member, decision, run)
        simulator.observer.decided(simulator, member, decision, run)

    def _may_be_held_first(self, member: Member) -> bool:
        """Return whether time alone may bring a hold that comes before all others: a missing input, or frozen."""
        simulator = self._simulator
        if not simulator.catalogue.graph.partitioned:
            return False
        return member.policy.frozen_after_ms is not None or simulator.reading.grows(member, simulator.now)

    def _queue(self, member: Member, new: NewRun) -> Run:
        simulator = self._simulator
        self._count += 1
        run = Run(
            id=f"r{self._count}",
            workflow_id=member.id,
            slug=member.slug,
            version=member.version,
            trigger=new.trigger,
            pins=new.pins,
            cause=new.cause,
            mixed=new.mixed,
            queued_at=simulator.now,
            sources=simulator.sources_of(member),
            round=new.round,
            partition_key=member.partition_key,
            origin=new.origin,
        )
        simulator.active[member.id] = run
        own = _own_priority(member, new.urgency)
        simulator.queue.push(run, simulator.considerations.priority(member.id, own))
        return run


def _member(catalogue: Catalogue, workflow_id: int, partition_key: str) -> int | None:
    """Return a blocker; None if it is not one partition, but several of a backfill whose turn has not come."""
    several = not partition_key and bool(catalogue.graph.partitioning_of(workflow_id).columns)
    return None if several else catalogue.member(workflow_id, partition_key).id


def _own_priority(member: Member, urgency: int | None) -> int:
    return member.policy.priority if urgency is None else urgency


def _renew(run: Run, renewal: Renewal) -> Run:
    run.trigger, run.pins, run.cause, run.mixed = renewal.trigger, renewal.pins, renewal.cause, renewal.mixed
    run.round = renewal.round
    return run


def _ends_by_event(member: Member, state: State, decision: Decision) -> bool:
    """Return whether only an event can end the hold, so that the next evaluation can be skipped."""
    if decision.reason is Reason.IN_FLIGHT:
        return state.active is not None and state.active.status is RunStatus.RUNNING
    if decision.reason is Reason.WAITING_FOR_UPSTREAM:
        return not member.changes_with_time and (not state.backfills or bool(state.waited))
    if state.demands or any(not one.ended for one in state.backfills.values()):
        return False
    unending = decision.reason in ENDED_BY_EVENTS and decision.blocks_until is None and state.grace_ends is None
    return unending and (decision.reason is Reason.INPUT_MISSING or not member.changes_with_time)


def _wait_ends_at(decision: Decision) -> datetime | None:
    """Return the deadline of a wait for ancestors (docs/semantics.md#R4.5)."""
    end = decision.evidence.get("deadline") if decision.reason is Reason.WAITING_FOR_UPSTREAM else None
    return datetime.fromisoformat(end) if end else None


def _progress_ends_at(member: Member, state: State, decision: Decision, now: datetime) -> datetime | None:
    """Return when a backfill has not gone on for so long that a wait for it may end (docs/semantics.md#R14.6).

    The backfill may go on before then, but it ends no wait earlier.
    """
    if decision.reason is not Reason.WAITING_FOR_UPSTREAM:
        return None
    longest = milliseconds(member.policy.max_wait_ms)
    ends = (one.extends_until(longest) for one in state.backfills.values())
    return min((at for at in ends if at > now), default=None)


def _goes_on(member: Member, state: State, decision: Decision, now: datetime) -> bool:
    """Return whether the deadline of a wait moves on with the time, because it waits for a backfill."""
    return bool(state.waited) and _wait_ends_at(decision) == now + milliseconds(member.policy.max_wait_ms)
