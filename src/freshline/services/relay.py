"""Gives committed events their positions, the order that outside consumers follow. One process at a time does it."""

from __future__ import annotations

from freshline.services.service import Service

BATCH = 5_000


class Relay(Service):
    """Stamps positions under an advisory lock: an event that commits late gets a later position, never none."""

    name = "relay"

    def run_once(self) -> bool:
        """One batch; a full one means that there is more."""
        return self.store.stamp_positions(BATCH) == BATCH
