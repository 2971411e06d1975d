"""The leases of one worker: renewed at a third of their time, and given up before the database would.

The local deadline is monotonic and counted from before the renewal was sent, so that a worker always stops
before somebody else may take its run over.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import structlog

from freshline.errors import FencedError
from freshline.model.run import ClaimedRun
from freshline.services.service import Service
from freshline.store.store import Store

log = structlog.get_logger("freshline.runs")
MARGIN = 0.2  # of the lease: time to kill a runner before the lease ends
LONGEST_BEAT_S = 2.0
MOST_AT_ONCE = 10_000


@dataclass(slots=True)
class Lease:
    """One run that this worker holds. `lost` and `canceled` are read by the thread that executes it."""

    run: ClaimedRun
    deadline: float
    lost: bool = False
    canceled: bool = False
    progress: dict[str, Any] | None = None
    lines: list[dict[str, str]] = field(default_factory=list)
    flushed: int = 0
    over: bool = False  # how it ended is written

    @property
    def key(self) -> tuple[str, int]:
        """The attempt: a slot may take over the run that another slot of the worker has lost."""
        return self.run.id, self.run.attempt

    def stop_reason(self) -> str | None:
        """Why the run must stop now, if so."""
        if self.lost or time.monotonic() > self.deadline:
            return "lease-lost"
        return "canceled" if self.canceled else None


class Heart(Service):
    """Renews all leases of the worker in one statement, and writes the runs' logs."""

    name = "heart"

    def __init__(self, store: Store) -> None:
        self._span = store.settings.lease_ms / 1000
        super().__init__(store, poll_s=min(LONGEST_BEAT_S, self._span / 3))
        self._leases: dict[tuple[str, int], Lease] = {}
        self._given_up: set[tuple[str, int]] = set()
        self._lock = threading.Lock()
        self._flushing = threading.Lock()

    def hold(self, run: ClaimedRun, claimed_at: float) -> Lease:
        """Begin to renew a run that was claimed at this monotonic time."""
        lease = Lease(run, claimed_at + self._span * (1 - MARGIN))
        with self._lock:
            self._leases[lease.key] = lease
        return lease

    def release(self, lease: Lease) -> None:
        """Stop renewing. A run that has not ended here is given up, as soon as the database can be told."""
        with self._lock:
            self._leases.pop(lease.key, None)
            if not lease.over:
                self._given_up.add(lease.key)
        self.wake()

    def run_once(self) -> bool:
        """One beat."""
        with self._lock:
            leases, given_up = list(self._leases.values()), list(self._given_up)
        if leases:
            self._renew(leases)
        for lease in leases:
            self.flush(lease)
        for run_id, attempt in given_up:  # last: a row that somebody has locked must not cost the other leases
            self.store.runs.give_up(run_id, attempt)
            self._given_up.discard((run_id, attempt))
        return False

    def _renew(self, leases: list[Lease]) -> None:
        asked_at = time.monotonic()
        held = [{"id": one.run.id, "attempt": one.run.attempt, "progress": one.progress} for one in leases]
        kept = self.store.runs.renew_leases(held)
        for lease in leases:
            if lease.key in kept:
                lease.deadline = asked_at + self._span * (1 - MARGIN)
                lease.canceled = kept[lease.key]
            elif lease.key in self._leases and not lease.over:
                lease.lost = True
                log.warning("lease_lost", run=lease.run.id, attempt=lease.run.attempt, workflow=lease.run.slug)

    def flush(self, lease: Lease) -> None:
        """Write what the run printed since the last time; it is kept for the next time if the database is away."""
        with self._flushing:
            lines = lease.lines[:MOST_AT_ONCE]
            if not lines or lease.lost:
                return
            try:
                self.store.runs.append_logs(lease.run.id, lease.run.attempt, lines, after=lease.flushed)
            except FencedError:
                lease.lost = True
            del lease.lines[: len(lines)]
            lease.flushed += len(lines)
