"""The queued runs of a simulator, the most urgent first."""

from __future__ import annotations

import heapq

from freshline.model.enums import RunStatus
from freshline.simulation.records import Run


class Queue:
    """A heap of runs. One that is no longer queued when its turn comes is left out."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Run]] = []
        self._count = 0

    def push(self, run: Run, priority: int) -> None:
        """Ten seconds of waiting are worth one point of priority (R11.8)."""
        self._count += 1
        heapq.heappush(self._heap, (run.queued_at.timestamp() + 10 * priority, self._count, run))

    def pop(self) -> Run | None:
        """The most urgent one; None: nothing is queued."""
        while self._heap:
            run = heapq.heappop(self._heap)[2]
            if run.status is RunStatus.QUEUED:
                return run
        return None
