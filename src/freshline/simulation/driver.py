"""A driver for a simulator: reports arrive, backfills are requested, slots claim runs, and runs end as the jobs say."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from freshline.errors import FreshlineError
from freshline.model.backfill import BackfillRequest
from freshline.simulation.records import Run
from freshline.simulation.simulator import Simulator


@dataclass(frozen=True, slots=True)
class Work:
    """The duration and the result of one run."""

    duration: timedelta = timedelta()
    fails: bool = False
    changed: bool = True


@dataclass(frozen=True, slots=True, order=True)
class Report:
    """A report of a source at a time. Without a version, the data is always new."""

    at: datetime
    asset_id: str
    version: str | None = None
    partition_key: str = ""


@dataclass(frozen=True, slots=True)
class Demanded:
    """A backfill that is requested at a time."""

    at: datetime
    request: BackfillRequest


class Jobs(Protocol):
    """The source of durations and results."""

    def work(self, run: Run) -> Work:
        """Return the work of a run. It is called once per run, when the run starts."""
        ...


class Driver:
    """Feeds reports, backfills and finished runs to a simulator, with a limited number of slots.

    `refused`: why backfills could not be requested.
    """

    def __init__(
        self,
        simulator: Simulator,
        jobs: Jobs,
        *,
        slots: int | None = None,
        reports: Iterable[Report] = (),
        demands: Iterable[Demanded] = (),
    ) -> None:
        self.simulator = simulator
        self._jobs = jobs
        self._free = slots
        self._reports: Iterator[Report] = iter(reports)
        self._report = next(self._reports, None)
        self._demands = sorted(demands, key=lambda one: one.at, reverse=True)
        self.refused: list[str] = []
        self._ends: list[tuple[datetime, int, Run, Work]] = []
        self._count = 0

    def run(self, until: datetime) -> None:
        """Continue until nothing is left to do, or until the given time."""
        simulator = self.simulator
        while True:
            simulator.settle()
            if self._fill():
                continue
            following = self._next_moment()
            if following is None or following > until:
                simulator.now = max(simulator.now, until)
                return
            simulator.now = max(simulator.now, following)
            self._apply_reports()
            self._request()
            self._finish()

    def _fill(self) -> bool:
        """Claim runs for the free slots; return whether a run has ended already."""
        while self._free is None or self._free > 0:
            run = self.simulator.claim()
            if run is None:
                break
            work = self._jobs.work(run)
            self._count += 1
            heapq.heappush(self._ends, (self.simulator.now + work.duration, self._count, run, work))
            self._free = None if self._free is None else self._free - 1
        return self._finish()

    def _finish(self) -> bool:
        ended = False
        while self._ends and self._ends[0][0] <= self.simulator.now:
            _, _, run, work = heapq.heappop(self._ends)
            self._free = None if self._free is None else self._free + 1
            if work.fails:
                self.simulator.fail(run)
            else:
                self.simulator.succeed(run, changed=work.changed)
            ended = True
        return ended

    def _apply_reports(self) -> None:
        while self._report is not None and self._report.at <= self.simulator.now:
            self.simulator.report(self._report.asset_id, self._report.version, self._report.partition_key)
            self._report = next(self._reports, None)

    def _request(self) -> None:
        while self._demands and self._demands[-1].at <= self.simulator.now:
            request = self._demands.pop().request
            try:
                self.simulator.backfills.create(request)
            except FreshlineError as error:
                self.refused.append(f"the backfill of {request.asset_id} was refused: {error.message}")

    def _next_moment(self) -> datetime | None:
        mine = (
            self._report.at if self._report else None,
            self._demands[-1].at if self._demands else None,
            self._ends[0][0] if self._ends else None,
        )
        return min((at for at in (*mine, self.simulator.next_moment()) if at is not None), default=None)
