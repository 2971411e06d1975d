"""Finds stale workflows that no consideration, run or event would evaluate.

It is a safety net: the tests show that the system converges without it, so a finding is a bug and is logged.
"""

from __future__ import annotations

import structlog

from freshline.services.service import Service
from freshline.store.store import Store

log = structlog.get_logger("freshline.services")


class Sweeper(Service):
    """Runs one query every ASSET_MATERIALIZER_REFRESH_INTERVAL_MS; 0 turns it off."""

    name = "sweeper"

    def __init__(self, store: Store) -> None:
        super().__init__(store, poll_s=store.settings.refresh_interval_ms / 1000)

    def start(self) -> None:
        """Start, unless it is turned off."""
        if self.store.settings.refresh_interval_ms > 0:
            super().start()

    def run_once(self) -> bool:
        """Sweep once."""
        found = self.store.evaluation.sweep()
        if found:
            log.warning("sweep_found", workflows=found)
            self.store.database.notify("considerations")
        return False
