"""Gives committed events their positions, the order that outside consumers follow. One process at a time does it."""

from __future__ import annotations

from collections.abc import Callable

from freshline.services.service import Service
from freshline.store.store import Store

BATCH = 5_000


class EventSequencer(Service):
    """Stamps positions under an advisory lock: an event that commits late gets a later position, never none.

    `stamped` is called when there are new ones; what waits for Redis is another thread, so that stamping never does.
    """

    name = "relay"

    def __init__(self, store: Store, *, stamped: Callable[[], None] = lambda: None) -> None:
        super().__init__(store)
        self._stamped = stamped

    def run_once(self) -> bool:
        """One batch; a full one means that there is more."""
        stamped = self.store.events.stamp_positions(BATCH)
        if stamped:
            self._stamped()
        return stamped == BATCH
