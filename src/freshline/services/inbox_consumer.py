"""Turns events into considerations. It does not decide anything, and it does not promise any order."""

from __future__ import annotations

from freshline.services.adaptive_batch import AdaptiveBatch
from freshline.services.service import Service
from freshline.store.store import Store


class InboxConsumer(Service):
    """Claims batches of unabsorbed events and notes the workflows that they concern: the cost is their consumers."""

    name = "absorber"

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._pace = AdaptiveBatch(store.settings.batch)

    def run_once(self) -> bool:
        """One batch; a full one means that there is more. One that fails or takes too long is halved (R11.3)."""
        with self._pace.batch() as size:
            absorbed = self.store.evaluation.consume_inbox(size)
        if absorbed:
            self.store.database.ring("considerations")
        return absorbed == size
