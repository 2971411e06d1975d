"""Forgets old events, decisions and logs in small batches. Heads, snapshots and last decisions are not its business."""

from __future__ import annotations

from freshline.services.service import Service
from freshline.store.facade import Store

BATCH = 1_000
INTERVAL_S = 60.0


class Pruner(Service):
    """Keeps history within FRESHLINE_KEEP_DAYS (default 30)."""

    name = "pruner"

    def __init__(self, store: Store) -> None:
        super().__init__(store, poll_s=INTERVAL_S)

    def run_once(self) -> bool:
        """One batch; a full one means that there is more."""
        pruned = self.store.prune(self.store.settings.keep_days, BATCH)
        return max(pruned.values(), default=0) >= BATCH
