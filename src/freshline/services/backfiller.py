"""Gives turns to the partitions of active backfills, and finishes backfills that have none left."""

from __future__ import annotations

from freshline.services.service import Service


class Backfiller(Service):
    """Advances every active backfill. While none is active, a round is one statement."""

    name = "backfiller"

    def run_once(self) -> bool:
        """Advance all active backfills; return whether anything moved."""
        return self.store.backfills.advance()
