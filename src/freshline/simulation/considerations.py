"""Considerations: the workflows to evaluate, when, and which ancestor each one waits for.

The store evaluates a waiting workflow again and again, and most evaluations change nothing. Here it is evaluated at its
deadline and when it is woken. Nothing wakes it when its blocker becomes held with a known end: then it is evaluated at
its next regular time.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from freshline.decide import Decision
from freshline.decide.holds import FIRST_WAIT_RECHECK, LONGEST_WAIT_RECHECK, doubling
from freshline.model.enums import Reason
from freshline.simulation.records import Consideration


class Considerations:
    """Considerations by workflow. An added workflow is due at once, a held one at the time of its next evaluation."""

    def __init__(self) -> None:
        self._entries: dict[int, Consideration] = {}
        self._due: set[int] = set()
        self._schedule: list[tuple[datetime, int]] = []
        self._waiting: dict[int, set[int]] = defaultdict(set)
        self._patient: set[int] = set()  # those that sleep while a backfill goes on

    def add(self, workflow_id: int, now: datetime) -> None:
        """Evaluate the workflow now."""
        known = self._entries.get(workflow_id)
        if known is None:
            self._entries[workflow_id] = Consideration(now)
        else:
            known.at, known.evaluations = min(known.at, now), 0
        self._due.add(workflow_id)

    def wake(self, blockers: Iterable[int], now: datetime) -> None:
        """Evaluate every workflow that waits for one of these now (docs/semantics.md#R11.4)."""
        for blocker in blockers:
            for workflow_id in self._waiting.get(blocker, ()):
                self.add(workflow_id, now)

    def forget_wait(self, workflow_id: int) -> None:
        """Let the wait for ancestors begin again, after a success (docs/semantics.md#R4.5)."""
        known = self._entries.get(workflow_id)
        if known is not None:
            known.waited, known.evaluated_at = timedelta(0), None

    def get(self, workflow_id: int) -> Consideration | None:
        """Return the consideration of a workflow."""
        return self._entries.get(workflow_id)

    def hold_of(self, workflow_id: int) -> Reason | None:
        """Return the reason for which the workflow was held at its last evaluation."""
        known = self._entries.get(workflow_id)
        return known.hold if known else None

    def is_due(self, workflow_id: int) -> bool:
        """Return whether the workflow is evaluated at the next `take`."""
        return workflow_id in self._due

    def priority(self, workflow_id: int, own: int) -> int:
        """Return its own priority, or that of the most urgent one that waits for it (docs/semantics.md#R11.8)."""
        waiting = (self._entries[one].priority for one in self._waiting.get(workflow_id, ()))
        return min([own, *(one for one in waiting if one is not None)])

    def take(self, now: datetime) -> set[int]:
        """Remove and return the workflows that are due."""
        while self._schedule and self._schedule[0][0] <= now:
            at, workflow_id = heapq.heappop(self._schedule)
            if self._is_current(at, workflow_id):
                self._due.add(workflow_id)
                known = self._entries[workflow_id]
                if known.wakes is not None and known.wakes[0] == at:
                    known.evaluations = known.wakes[1]
        due, self._due = self._due, set()
        return due

    def due(self) -> set[int]:
        """Return the workflows that were added since the last `take`."""
        return set(self._due)

    def next_evaluation(self) -> datetime | None:
        """Return the time of the next scheduled evaluation."""
        while self._schedule and not self._is_current(*self._schedule[0]):
            heapq.heappop(self._schedule)
        return self._schedule[0][0] if self._schedule else None

    def record(
        self,
        workflow_id: int,
        decision: Decision,
        now: datetime,
        *,
        blocker: int | None,
        priority: int | None = None,
        sleeps: bool,
        until: datetime | None = None,
        regularly_from: datetime | None = None,
    ) -> None:
        """Schedule the next evaluation after a decision.

        `blocker`: the member that it waits for, with `priority`. `sleeps`: only an event, the time `until`, or a
        regular evaluation from `regularly_from` on can end this hold.
        """
        known = self._entries[workflow_id]
        if known.blocker_id is not None:
            self._waiting[known.blocker_id].discard(workflow_id)
        self._patient.discard(workflow_id)
        if decision.next_evaluation is None:
            del self._entries[workflow_id]
            return
        known.waited, known.evaluated_at = timedelta(0) if decision.run else known.waited_until(now), now
        known.evaluations = known.evaluations + 1 if known.hold is decision.hold else 0
        known.at, known.hold, known.blocker_id = decision.next_evaluation, decision.hold, blocker
        known.priority = priority
        if known.blocker_id is not None:
            self._waiting[known.blocker_id].add(workflow_id)
        known.recheck_at = known.at
        if not sleeps:
            self._push(workflow_id, known, known.at)
            return
        if regularly_from is not None or blocker is None:
            self._patient.add(workflow_id)
        known.wakes = None if regularly_from is None else _regularly(known.at, known.evaluations, regularly_from)
        moments = [one for one in (until, known.wakes and known.wakes[0]) if one is not None]
        if moments:
            self._push(workflow_id, known, min(moments))

    def reschedule_waiting(self, blocker: int, now: datetime) -> None:
        """Schedule the next regular evaluation of every workflow that waits for the blocker.

        The blocker became held. Whether it is still worth waiting for depends on the deadline of each workflow.
        """
        for workflow_id in self._waiting.get(blocker, ()):
            self._reschedule(workflow_id, now)

    def patient(self) -> frozenset[int]:
        """Return the workflows that sleep while a backfill goes on."""
        return frozenset(self._patient)

    def reschedule_patient(self, workflows: Iterable[int], now: datetime) -> None:
        """Schedule the next regular evaluation of these: the backfill that they wait for has moved."""
        for workflow_id in workflows:
            self._reschedule(workflow_id, now)

    def _reschedule(self, workflow_id: int, now: datetime) -> None:
        known = self._entries[workflow_id]
        if known.at <= now:
            return  # it is evaluated in the same batch
        at, known.evaluations = _regularly(known.recheck_at or now, known.evaluations, now)
        known.recheck_at = at
        if at < known.at:
            self._push(workflow_id, known, at)

    def _push(self, workflow_id: int, known: Consideration, at: datetime) -> None:
        known.at = at
        heapq.heappush(self._schedule, (at, workflow_id))

    def _is_current(self, at: datetime, workflow_id: int) -> bool:
        known = self._entries.get(workflow_id)
        return known is not None and known.at == at


def _regularly(at: datetime, evaluations: int, since: datetime) -> tuple[datetime, int]:
    """Return the first regular evaluation from `since` on, and how many there were. `at`: the next one."""
    while at < since:
        at += doubling(FIRST_WAIT_RECHECK, LONGEST_WAIT_RECHECK, evaluations)
        evaluations += 1
    return at, evaluations
