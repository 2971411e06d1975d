"""Deletes backfills that ended before the retention, with the rows of their partitions, in pages."""

from __future__ import annotations

from freshline.store.db.database import Connection
from freshline.store.db.queries import load

SQL = load("backfills")


def prune(connection: Connection, days: int, batch: int) -> int:
    """Delete a page of partitions of old backfills, then old backfills without any. Return the larger number of rows.

    A backfill may have 100,000 partitions, so these go first: one page is never larger than a batch.
    """
    old = {"days": days, "batch": batch}
    partitions = connection.execute(SQL["prune_partitions"], old).rowcount
    return max(partitions, connection.execute(SQL["prune_backfills"], old).rowcount)
