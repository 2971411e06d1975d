"""Executes runs on the real store in virtual time, with a given duration for every workflow."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from freshline.model.run import ClaimedRun
from tests.store_harness import Lab

NEXT = "SELECT least((SELECT min(not_before) FROM considerations), (SELECT min(due_at) FROM timers))"
MOST_MOMENTS = 100_000


class Factory:
    """Unlimited workers; `seconds` is the duration of each workflow, 0 for those not named."""

    def __init__(self, lab: Lab, seconds: Mapping[str, float]) -> None:
        self.lab = lab
        self._seconds = seconds
        self._ends: list[tuple[datetime, str, ClaimedRun]] = []

    def work(self, until: datetime | None = None) -> None:
        """Advance the clock to each next event until nothing is left to do, or until the given time."""
        for _ in range(MOST_MOMENTS):
            self._fill()
            following = self._next_moment()
            if following is None or (until is not None and following > until):
                self.lab.now = max(self.lab.now, until or self.lab.now)
                return
            self.lab.now = max(self.lab.now, following)
        raise AssertionError("it never comes to rest")

    def _fill(self) -> None:
        """Do everything that is due: finish runs, decide, start runs, and finish those that take no time."""
        while True:
            self._finish()
            self.lab.settle()
            if not self._begin():
                return

    def _finish(self) -> None:
        while self._ends and self._ends[0][0] <= self.lab.now:
            self.lab.finish(heapq.heappop(self._ends)[2])

    def _begin(self) -> bool:
        """Claim all queued runs; return whether a run has ended already."""
        while run := self.lab.claim():
            heapq.heappush(self._ends, (self.lab.later(seconds=self._seconds.get(run.slug, 0)), run.id, run))
        return bool(self._ends) and self._ends[0][0] <= self.lab.now

    def _next_moment(self) -> datetime | None:
        mine = self._ends[0][0] if self._ends else None
        return min((at for at in (mine, self.lab.one(NEXT)) if at is not None), default=None)


def generations(lab: Lab, slug: str, source: str) -> list[set[int]]:
    """Return the snapshots of `source` from which the inputs of each run of the workflow come, oldest run first."""
    return [_generations(lab, run["pins"], source) for run in lab.runs(slug)]


def _generations(lab: Lab, pins: Mapping[str, Any], source: str) -> set[int]:
    found = {pins[source]["sequence"]} if source in pins else set()
    for asset_id, pin in pins.items():
        query = "SELECT sources -> %s ->> 'sequence' FROM snapshots WHERE asset_id = %s AND sequence = %s"
        stems = lab.one(query, source, asset_id, pin["sequence"])
        found |= {int(stems)} if stems is not None else set()
    return found
