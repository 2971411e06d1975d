"""Assigns positions to committed events: the order that outside consumers follow.

It does not promise the order of commits: an event that commits late gets a later position, but it always gets one.
"""

from __future__ import annotations

from collections.abc import Callable

from freshline.services.service import Service
from freshline.store.store import Store

BATCH = 5_000


class EventSequencer(Service):
    """Works under an advisory lock: one process at a time.

    `stamped` is called when events got positions. It must return at once; senders have their own threads.
    """

    name = "relay"

    def __init__(self, store: Store, *, stamped: Callable[[], None] = lambda: None) -> None:
        super().__init__(store)
        self._stamped = stamped

    def run_once(self) -> bool:
        """Assign positions to one batch; return whether it was full."""
        stamped = self.store.events.stamp_positions(BATCH)
        if stamped:
            self._stamped()
        return stamped == BATCH
