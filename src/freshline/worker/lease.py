"""The leases of one worker: renewed at a third of their duration, and treated as lost before the database does.

The local deadline is monotonic and counts from before the renewal was sent, so that a worker always stops a run
before another worker may take it over.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import structlog

from freshline.errors import FencedError
from freshline.model.json import Json
from freshline.model.run import ClaimedRun
from freshline.services.service import Service
from freshline.store.store import Store

log = structlog.get_logger("freshline.runs")
MARGIN = 0.2  # of the lease: time to kill a runner before the lease ends
MAX_INTERVAL_S = 2.0
MAX_LINES = 10_000  # written in one statement


@dataclass(slots=True)
class Lease:
    """One run that this worker holds. The thread that executes it reads `lost` and `canceled`."""

    run: ClaimedRun
    deadline: float
    lost: bool = False
    canceled: bool = False
    progress: Json | None = None
    lines: list[dict[str, str]] = field(default_factory=list)
    flushed: int = 0
    over: bool = False  # its end is written

    @property
    def key(self) -> tuple[str, int]:
        """The run and its attempt: a slot may take over a run that another slot of the same worker has lost."""
        return self.run.id, self.run.attempt

    def stop_reason(self) -> str | None:
        """Return why the run must stop now; None if it need not."""
        if self.lost or time.monotonic() > self.deadline:
            return "lease-lost"
        return "canceled" if self.canceled else None


class LeaseKeeper(Service):
    """Renews all leases of the worker in one statement, and writes the runs' logs."""

    name = "leases"

    def __init__(self, store: Store) -> None:
        self._span = store.settings.lease_ms / 1000
        super().__init__(store, poll_s=min(MAX_INTERVAL_S, self._span / 3))
        self._leases: dict[tuple[str, int], Lease] = {}
        self._given_up: set[tuple[str, int]] = set()
        self._lock = threading.Lock()
        self._flushing = threading.Lock()

    def hold(self, run: ClaimedRun, claimed_at: float) -> Lease:
        """Renew the lease of a run that was claimed at this monotonic time, until `release`."""
        lease = Lease(run, claimed_at + self._span * (1 - MARGIN))
        with self._lock:
            self._leases[lease.key] = lease
        return lease

    def release(self, lease: Lease) -> None:
        """Stop renewing. A run that has not ended here is given up as soon as the database can be reached."""
        with self._lock:
            self._leases.pop(lease.key, None)
            if not lease.over:
                self._given_up.add(lease.key)
        self.wake()

    def run_once(self) -> bool:
        """Renew all leases, write new log lines, and give up runs that were left."""
        with self._lock:
            leases, given_up = list(self._leases.values()), list(self._given_up)
        if leases:
            self._renew(leases)
        for lease in leases:
            self.flush(lease)
        for run_id, attempt in given_up:  # last: a row locked by another transaction must not delay the renewals
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
        """Write new log lines; they are kept for the next call if the database is away."""
        with self._flushing:
            lines = lease.lines[:MAX_LINES]
            if not lines or lease.lost:
                return
            try:
                self.store.runs.append_logs(lease.run.id, lease.run.attempt, lines, after=lease.flushed)
            except FencedError:
                lease.lost = True
            del lease.lines[: len(lines)]
            lease.flushed += len(lines)
