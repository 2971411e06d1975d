"""Turns new events into considerations: notes to evaluate the workflows that an event concerns.

It decides nothing, and it does not promise any order.
"""

from __future__ import annotations

from freshline.services.adaptive_batch import AdaptiveBatch
from freshline.services.service import Service
from freshline.store.store import Store


class InboxConsumer(Service):
    """Consumes the inbox in batches. The cost of an event is proportional to the consumers of its asset."""

    name = "absorber"

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._batch = AdaptiveBatch(store.settings.batch)

    def run_once(self) -> bool:
        """Consume one batch; return whether it was full. A batch that fails or is slow is halved."""
        with self._batch.batch() as size:
            consumed = self.store.evaluation.consume_inbox(size)
        if consumed:
            self.store.database.notify("considerations")
        return consumed == size
