"""Fires due timers: they become events. Never early by the database's clock; late by at most a poll interval."""

from __future__ import annotations

from freshline.services.service import Service


class Expiry(Service):
    """Turns due timers into `asset.expired` and `asset.overdue`; a timer is gone only with its event's commit."""

    name = "expiry"

    def run_once(self) -> bool:
        """One batch; a full one means that there is more."""
        fired = self.store.evaluation.fire_timers(self.store.settings.batch)
        if fired:
            self.store.database.ring("events")
        return fired == self.store.settings.batch
