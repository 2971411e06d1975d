"""Turns events into considerations. It does not decide anything, and it does not promise any order."""

from __future__ import annotations

from freshline.services.service import Service


class Absorber(Service):
    """Claims batches of unabsorbed events and notes the workflows that they concern: the cost is their consumers."""

    name = "absorber"

    def run_once(self) -> bool:
        """One batch; a full one means that there is more."""
        absorbed = self.store.absorb(self.store.settings.batch)
        if absorbed:
            self.store.database.ring("considerations")
        return absorbed == self.store.settings.batch
