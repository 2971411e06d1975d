"""Deletes old events, decisions, logs and snapshots in small batches, and joins old deliveries into chunks.

It never deletes heads and last decisions, and it does not promise that a row is deleted as soon as it is old enough.
"""

from __future__ import annotations

import time

from freshline.services.service import Service
from freshline.store.retention.compaction import FIRST_SOURCE, Source
from freshline.store.retention.prune import BEGINNING, START, Place, Places
from freshline.store.store import Store

BATCH = 1_000
SOURCES = 100  # whose deliveries are joined in one transaction
INTERVAL_S = 60.0
TOUR_S = 600.0


class Pruner(Service):
    """Keeps history within FRESHLINE_KEEP_DAYS (default 30).

    It reads the old rows page by page and starts again after ten minutes, so a row that stays is read once per tour.
    """

    name = "pruner"

    def __init__(self, store: Store) -> None:
        super().__init__(store, poll_s=INTERVAL_S)
        self._old: Places | None = START
        self._snapshots: Place | None = BEGINNING
        self._sources: Source | None = FIRST_SOURCE
        self._next_tour = time.monotonic() + TOUR_S

    def run_once(self) -> bool:
        """Process one page of each kind; return whether there is more."""
        days = self.store.settings.keep_days
        if self._over and time.monotonic() >= self._next_tour:
            self._old, self._snapshots, self._sources = START, BEGINNING, FIRST_SOURCE
            self._next_tour = time.monotonic() + TOUR_S
        if self._snapshots is not None:
            self._snapshots = self.store.retention.forget_snapshots(days, BATCH, self._snapshots).next
        if self._old is not None:
            self._old = self.store.retention.prune(days, BATCH, self._old).next
        if self._sources is not None:
            self._sources = self.store.retention.compact_deliveries(days, SOURCES, self._sources).next
        return not self._over

    @property
    def _over(self) -> bool:
        return self._old is None and self._snapshots is None and self._sources is None
