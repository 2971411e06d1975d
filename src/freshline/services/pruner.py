"""Forgets old events, decisions, logs and snapshots in small batches. Heads and last decisions are not its business."""

from __future__ import annotations

import time

from freshline.services.service import Service
from freshline.store.facade import Store
from freshline.store.history import BEGINNING, Place

BATCH = 1_000
INTERVAL_S = 60.0
HOUR_S = 3_600.0


class Pruner(Service):
    """Keeps history within FRESHLINE_KEEP_DAYS (default 30)."""

    name = "pruner"

    def __init__(self, store: Store) -> None:
        super().__init__(store, poll_s=INTERVAL_S)
        self._place: Place | None = BEGINNING
        self._look_at = 0.0

    def run_once(self) -> bool:
        """One batch, and each hour a look at all old snapshots, page by page; True: there is more."""
        days = self.store.settings.keep_days
        pruned = self.store.prune(days, BATCH)
        if self._place is None and time.monotonic() >= self._look_at:
            self._place = BEGINNING
        if self._place is not None:
            self._place = self.store.forget_snapshots(days, BATCH, self._place).next
            self._look_at = time.monotonic() + HOUR_S
        return self._place is not None or max(pruned.values(), default=0) >= BATCH
