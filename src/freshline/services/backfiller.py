"""Proposes backfills, gives turns to the partitions of active ones, and finishes those that have none left."""

from __future__ import annotations

from freshline.services.service import Service


class Backfiller(Service):
    """Lets proposals follow what is held, and advances active backfills. Without any, a round is two statements."""

    name = "backfiller"

    def run_once(self) -> bool:
        """Propose, and advance all active backfills; return whether anything moved."""
        proposed = self.store.backfills.propose()
        return self.store.backfills.advance() or proposed
