"""The considerations of a simulator: where to look, when, and who waits for whom.

A workflow that waits for an ancestor would look again and again and find the same: here it looks at the end of its
patience, when it is woken, or, once its blocker is held with an end (which wakes nobody), at the time of its next look.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from freshline.decide import Decision
from freshline.decide.holds import FIRST_WAIT_RECHECK, LONGEST_WAIT_RECHECK, doubling
from freshline.model.enums import Reason
from freshline.simulation.records import Consideration


class Considerations:
    """Considerations by workflow. What is noted is due; what is held is due when its time comes."""

    def __init__(self) -> None:
        self._entries: dict[int, Consideration] = {}
        self._due: set[int] = set()
        self._looks: list[tuple[datetime, int]] = []
        self._waiting: dict[int, set[int]] = defaultdict(set)

    def note(self, workflow_id: int, now: datetime) -> None:
        """Look at the workflow now."""
        known = self._entries.get(workflow_id)
        if known is None:
            self._entries[workflow_id] = Consideration(now)
        else:
            known.at, known.evaluations = min(known.at, now), 0
        self._due.add(workflow_id)

    def wake(self, blockers: Iterable[int], now: datetime) -> None:
        """Whoever waits for one of these looks again now (R11.4)."""
        for blocker in blockers:
            for workflow_id in self._waiting.get(blocker, ()):
                self.note(workflow_id, now)

    def get(self, workflow_id: int) -> Consideration | None:
        """The consideration of a workflow."""
        return self._entries.get(workflow_id)

    def hold_of(self, workflow_id: int) -> Reason | None:
        """Why the workflow was held when it was last looked at."""
        known = self._entries.get(workflow_id)
        return known.hold if known else None

    def take(self, now: datetime) -> set[int]:
        """What is due, to be decided at once."""
        while self._looks and self._looks[0][0] <= now:
            at, workflow_id = heapq.heappop(self._looks)
            if self._stands(at, workflow_id):
                self._due.add(workflow_id)
        due, self._due = self._due, set()
        return due

    def next_evaluation(self) -> datetime | None:
        """When the next hold is looked at."""
        while self._looks and not self._stands(*self._looks[0]):
            heapq.heappop(self._looks)
        return self._looks[0][0] if self._looks else None

    def decided(self, workflow_id: int, decision: Decision, *, sleeps: bool, until: datetime | None = None) -> None:
        """The next look, or none. `sleeps`: nothing but an event, or the time `until`, can end this hold."""
        known = self._entries[workflow_id]
        if known.blocker_id is not None:
            self._waiting[known.blocker_id].discard(workflow_id)
        if decision.next_evaluation is None:
            del self._entries[workflow_id]
            return
        known.evaluations = known.evaluations + 1 if known.hold is decision.reason else 0
        known.at, known.hold, known.blocker_id = decision.next_evaluation, decision.reason, decision.blocker_id
        if known.blocker_id is not None:
            self._waiting[known.blocker_id].add(workflow_id)
        known.first_look = known.at
        if not sleeps:
            self._schedule(workflow_id, known, known.at)
        elif until is not None:
            self._schedule(workflow_id, known, until)

    def rouse(self, blocker: int, now: datetime) -> None:
        """The blocker may not be worth waiting for any more: those who wait for it look at their next time."""
        for workflow_id in self._waiting.get(blocker, ()):
            known = self._entries[workflow_id]
            at = known.first_look or now
            while at < now:
                at += doubling(FIRST_WAIT_RECHECK, LONGEST_WAIT_RECHECK, known.evaluations)
                known.evaluations += 1
            known.first_look = at
            if at < known.at:
                self._schedule(workflow_id, known, at)

    def _schedule(self, workflow_id: int, known: Consideration, at: datetime) -> None:
        known.at = at
        heapq.heappush(self._looks, (at, workflow_id))

    def _stands(self, at: datetime, workflow_id: int) -> bool:
        known = self._entries.get(workflow_id)
        return known is not None and known.at == at
