"""Turns due timers into events.

A timer never fires early by the database's clock. It fires when it is due. A timer that was set after the last poll,
and whose notification was lost, may fire late by one poll interval.
"""

from __future__ import annotations

from freshline.services.due_service import DueService


class Expiry(DueService):
    """Emits `asset.expired`, `asset.overdue` and `asset.partition.retired`.

    A timer is deleted or moved in the transaction that adds its events.
    """

    name = "expiry"

    def run_once(self) -> bool:
        """Fire one batch, and remove one batch of partitions; return whether there is more to do."""
        fired = self.store.evaluation.fire_timers(self.store.settings.batch)
        if fired:
            self.store.database.notify("events")
        retired = self.store.retirement.retire_partitions()
        return fired == self.store.settings.batch or bool(retired)

    def time_left(self) -> float | None:
        """Return the seconds until the next timer is due."""
        return self.store.evaluation.until_timer()
