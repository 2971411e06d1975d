"""Removes the files of table versions that nobody needs any more, in two phases (R9.8)."""

from __future__ import annotations

from freshline.services.service import Service
from freshline.store.facade import Store
from freshline.warehouse.cleaning import clean
from freshline.warehouse.files import is_ours

BATCH = 200
INTERVAL_S = 60.0


class Vacuum(Service):
    """Keeps tables within `keepVersions` and `keep`, page by page; what it marks is deleted some minutes later."""

    name = "vacuum"

    def __init__(self, store: Store) -> None:
        super().__init__(store, poll_s=INTERVAL_S)
        self._after = ""

    def run_once(self) -> bool:
        """One page of tables, and one batch of versions that were marked before."""
        page = self.store.mark_versions(self._after, BATCH)
        self._after = page.last if page.last is not None and page.tables == BATCH else ""
        reachable = is_ours(self.store.settings.warehouse_path, self.store.warehouse_id)
        removed = clean(self.store, BATCH) if reachable else 0
        return bool(self._after) or removed == BATCH
