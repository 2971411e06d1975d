"""Decides due workflows as the materializer does in the store: ancestors first, until none is due.

A hold that only an event can end is not evaluated in between: no event is lost here, so the result would be the same.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from freshline.decide import Decision, NewRun, Renewal, decide
from freshline.decide.batch import moving_after
from freshline.model.enums import Reason, RunStatus, When
from freshline.model.state import State
from freshline.simulation.catalogue import Member
from freshline.simulation.records import Run
from freshline.simulation.timers import EXPIRY

if TYPE_CHECKING:
    from freshline.simulation.simulator import Simulator

ENDED_BY_EVENTS = frozenset({Reason.INPUT_MISSING, Reason.CANCELED, Reason.PAUSED})


class Reconciler:
    """Fires timers and decides considerations."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._count = 0

    def settle(self) -> None:
        """Decide due workflows until none is due."""
        simulator = self._simulator
        while True:
            self._fire_timers()
            batch = simulator.considerations.take(simulator.now)
            if not batch:
                return
            self._decide_batch(sorted(batch, key=simulator.catalogue.order))

    def decide(self, member: Member, state: State) -> Decision:
        """Return the decision about a workflow. Without an ancestor in motion there is nothing to wait for."""
        motion = self._simulator.motion
        searches = member.policy.when is When.ALL or motion.above(member.id)
        return decide(member.policy, state, self._simulator.now, motion if searches else None)

    def _fire_timers(self) -> None:
        simulator = self._simulator
        simulator.add_partitions()
        for asset, kind in simulator.timers.fire(simulator.now):
            producer = simulator.producer(asset)
            if kind != EXPIRY:
                simulator.observer.overdue(simulator, asset)
            elif producer is not None:
                simulator.note(producer)

    def _decide_batch(self, batch: list[int]) -> None:
        simulator = self._simulator
        settled = []
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
        simulator.considerations.wake(settled, simulator.now)

    def _apply(self, member: Member, state: State, decision: Decision) -> None:
        simulator, run = self._simulator, None
        if decision.renewal is not None:
            run = _renew(simulator.active[member.id], decision.renewal)
            run.sources, run.origin = simulator.sources_of(member), decision.origin
        if decision.superseded is not None:
            simulator.end(simulator.active[member.id], RunStatus.CANCELED)
        if decision.run is not None:
            run = self._queue(member, decision.run)
        sleeps = decision.next_evaluation is not None and _ends_by_event(member, state, decision)
        if decision.run is not None or decision.reason is Reason.UP_TO_DATE:
            simulator.workflow_states[member.id].waited = state.waited if decision.run else timedelta(0)
        ends_at = _wait_ends_at(decision)
        blocker = None
        if decision.blocker_id is not None:
            blocker = simulator.catalogue.member(decision.blocker_id, decision.blocker_key).id
        simulator.considerations.record(
            member.id, decision, simulator.now, blocker=blocker, sleeps=sleeps, until=ends_at
        )
        simulator.observer.decided(simulator, member, decision, run)

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
        simulator.queue.push(run, new.priority)
        return run


def _renew(run: Run, renewal: Renewal) -> Run:
    run.trigger, run.pins, run.cause, run.mixed = renewal.trigger, renewal.pins, renewal.cause, renewal.mixed
    run.round = renewal.round
    return run


def _ends_by_event(member: Member, state: State, decision: Decision) -> bool:
    """Return whether only an event can end the hold, so that the next evaluation can be skipped."""
    if decision.reason is Reason.IN_FLIGHT:
        return state.active is not None and state.active.status is RunStatus.RUNNING
    if decision.reason is Reason.WAITING_FOR_UPSTREAM:
        return not member.changes_with_time
    unending = decision.reason in ENDED_BY_EVENTS and decision.blocks_until is None and state.grace_ends is None
    return unending and (decision.reason is Reason.INPUT_MISSING or not member.changes_with_time)


def _wait_ends_at(decision: Decision) -> datetime | None:
    """Return the deadline of a wait for ancestors (docs/semantics.md#R4.5)."""
    end = decision.evidence.get("deadline") if decision.reason is Reason.WAITING_FOR_UPSTREAM else None
    return datetime.fromisoformat(end) if end else None
