"""Turns due timers into events.

A timer never fires early by the database's clock. It may fire late, normally by at most one poll interval.
"""

from __future__ import annotations

from freshline.services.service import Service


class Expiry(Service):
    """Emits `asset.expired` and `asset.overdue`. A timer is deleted in the transaction that adds its event."""

    name = "expiry"

    def run_once(self) -> bool:
        """Fire one batch; return whether it was full."""
        fired = self.store.evaluation.fire_timers(self.store.settings.batch)
        if fired:
            self.store.database.notify("events")
        return fired == self.store.settings.batch
