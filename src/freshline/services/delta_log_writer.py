"""Writes published table versions to the Delta logs of their tables.

The versions of a table are written in order (docs/semantics.md#R9.7). It does not promise that a log is up to date at
once, and it writes nothing while it cannot reach the warehouse.
"""

from __future__ import annotations

from freshline.delta.sync import DeltaSync
from freshline.services.service import Service
from freshline.storage.base import storage_at
from freshline.storage.layout import is_ours
from freshline.store.store import Store


class DeltaLogWriter(Service):
    """Any number may run; they share the tables."""

    name = "scribe"

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._storage = storage_at(store.settings.warehouse_at)
        self._log = DeltaSync(self._storage)

    def run_once(self) -> bool:
        """Write one version of one table."""
        return is_ours(self._storage, self.store.warehouse_id) and self.store.tables.write_log(self._log.append)
