"""Deletes the directories of removed versions that no other version needs."""

from __future__ import annotations

from freshline.storage.base import Storage
from freshline.store.store import Store
from freshline.store.tables.versions import GRACE_MS


def clean(store: Store, storage: Storage, batch: int, *, only: str | None = None, grace_ms: int = GRACE_MS) -> int:
    """Delete one batch of versions and return how many. The database forgets them first, then the files go."""
    removed = store.tables.remove_versions(batch, only=only, grace_ms=grace_ms)
    paths = sorted({path for row in removed for path in (row["location"] or {}).get("paths", ())})
    for path in sorted(store.tables.unnamed(sorted({row["asset_id"] for row in removed}), paths)):
        storage.clear(path)
    return len(removed)
