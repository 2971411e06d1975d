"""Delta logs of tables of which the database has no version: a restored database may be older than the whole table.

The next run would publish version 0 again, and an existing commit is never overwritten.
"""

from __future__ import annotations

from freshline.delta.log import DeltaLog
from freshline.delta.repair import clear
from freshline.storage.base import Storage
from freshline.store.store import Store

BATCH = 500


def unknown_logs(store: Store, storage: Storage) -> dict[str, int]:
    """Return the last version of each such log, by table. Tables may be published and logged meanwhile."""
    known = _known(store)
    logs = {name: DeltaLog(storage, name).files() for name in storage.children("") if name not in known}
    found = {name: max(files.values()) for name, files in logs.items() if files}
    known = _known(store) if found else known  # what was logged is published, so this read is the later one
    return {name: last for name, last in found.items() if name not in known}


def clear_unknown_logs(store: Store, storage: Storage) -> list[str]:
    """Move the commits of such logs aside, and return the tables."""
    tables = [*unknown_logs(store, storage)]
    return [one for one in tables if store.tables.clear_log(one, lambda one=one: clear(DeltaLog(storage, one)))]  # type: ignore[misc]


def _known(store: Store) -> set[str]:
    known: set[str] = set()
    while page := store.tables.logged(max(known, default=""), BATCH):
        known.update(one.asset_id for one in page)
    return known
