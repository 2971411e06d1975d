"""Deletes the files of table versions that are no longer needed, in two phases (docs/semantics.md#R9.8).

It does not promise when space is freed: files are deleted minutes after they are marked, and only by a process that
reaches the warehouse. While the database is older than the warehouse nothing is deleted: what the database does not
know may be all that is left of the time that a restore has lost.
"""

from __future__ import annotations

import time

from freshline.services.service import Service
from freshline.storage.base import storage_at
from freshline.storage.layout import is_ours
from freshline.store.doctor.restore import SUMMARY, RestoreCheck
from freshline.store.doctor.warehouse import Warehouse
from freshline.store.store import Store
from freshline.store.tables.vacuum import clean

BATCH = 200
INTERVAL_S = 60.0
HOUR_S = 3_600.0


class Vacuum(Service):
    """Keeps tables within `keepVersions` and `keep`, page by page."""

    name = "vacuum"

    def __init__(self, store: Store) -> None:
        super().__init__(store, poll_s=INTERVAL_S)
        self._storage = storage_at(store.settings.warehouse_at)
        self._restore_check = RestoreCheck(store.database, self._storage)
        self._after = ""
        self.trouble: str | None = None  # why nothing is deleted
        self._next_cleanup = time.monotonic()  # at once: a process that often starts again may not live for an hour

    def run_once(self) -> bool:
        """Mark one page of tables, delete one batch of marked versions, and at the start and hourly the leftovers."""
        page = self.store.tables.mark_versions(self._after, BATCH)
        self._after = page.last if page.last is not None and page.tables == BATCH else ""
        reachable = is_ours(self._storage, self.store.warehouse_id) and self._is_continuous()
        removed = clean(self.store, self._storage, BATCH) if reachable else 0
        if reachable and time.monotonic() >= self._next_cleanup:
            self._next_cleanup = time.monotonic() + HOUR_S
            Warehouse(self.store).remove_leftovers()
        return bool(self._after) or removed == BATCH

    def _is_continuous(self) -> bool:
        """Return whether the database has all that the warehouse knows of, and renew the mark if so."""
        continuous = self._restore_check.advance()
        self.trouble = None if continuous else SUMMARY
        return continuous
