"""Turns events into considerations. It does not decide anything, and it does not promise any order."""

from __future__ import annotations

import psycopg

from freshline.services.service import Service
from freshline.store.facade import Store


class Absorber(Service):
    """Claims batches of unabsorbed events and notes the workflows that they concern: the cost is their consumers."""

    name = "absorber"

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._batch = store.settings.batch

    def run_once(self) -> bool:
        """One batch; a full one means that there is more. One that fails or takes too long is halved (R11.3)."""
        batch = self._batch
        try:
            absorbed = self.store.absorb(batch)
        except psycopg.Error:
            self._batch = max(1, batch // 2)
            raise
        self._batch = min(batch * 2, self.store.settings.batch)
        if absorbed:
            self.store.database.ring("considerations")
        return absorbed == batch
