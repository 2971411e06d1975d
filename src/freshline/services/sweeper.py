"""The safety net: notes stale workflows that nothing will look at. Tests show that nothing else needs it."""

from __future__ import annotations

import structlog

from freshline.services.service import Service
from freshline.store.store import Store

log = structlog.get_logger("freshline.services")


class Sweeper(Service):
    """One set-based query every ASSET_MATERIALIZER_REFRESH_INTERVAL_MS; 0 turns it off."""

    name = "sweeper"

    def __init__(self, store: Store) -> None:
        super().__init__(store, poll_s=store.settings.refresh_interval_ms / 1000)

    def start(self) -> None:
        """Begin, unless it is turned off."""
        if self.store.settings.refresh_interval_ms > 0:
            super().start()

    def run_once(self) -> bool:
        """One sweep. What it finds should not have been there."""
        found = self.store.evaluation.sweep()
        if found:
            log.warning("sweep_found", workflows=found)
            self.store.database.ring("considerations")
        return False
