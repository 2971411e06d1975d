"""Joins old deliveries of append sources into chunks: the number of rows stays small, and no delivery is lost.

A reader sees the rows before or after, never a part, because it reads a page in one statement. The lock of the head
excludes reports and skips of the source.
"""

from __future__ import annotations

from typing import NamedTuple

from freshline.store.db.database import Connection
from freshline.store.db.queries import load

SQL = load("retention")
CHUNK = 1_000  # the schema allows at most this many deliveries per row
MAX_CHUNK_BYTES = 1024 * 1024  # of large deliveries a chunk has fewer


class Source(NamedTuple):
    """A source of deliveries. They are visited in this order."""

    asset_id: str = ""
    partition_key: str = ""


FIRST_SOURCE = Source()


class Candidate(NamedTuple):
    """A source with its first delivery that is not joined. `due`: this one and those after it fill a chunk."""

    source: Source
    first_number: int
    due: bool


def sources(connection: Connection, days: int, batch: int, after: Source, chunk: int) -> list[Candidate]:
    """Return the next sources with deliveries that are not joined."""
    asked = {"asset": after.asset_id, "partition": after.partition_key, "days": days, "batch": batch, "chunk": chunk}
    rows = connection.execute(SQL["compactable"], asked).fetchall()
    return [Candidate(Source(row["asset_id"], row["partition_key"]), row["first_number"], row["due"]) for row in rows]


def join(connection: Connection, one: Candidate, chunk: int) -> int:
    """Join the first deliveries of a source; return how many. Return 0 while a report is being written."""
    where = {"asset": one.source.asset_id, "partition": one.source.partition_key}
    if connection.execute(SQL["lock_source"], where).fetchone() is None:
        return 0
    asked = {**where, "first": one.first_number, "chunk": chunk, "bytes": MAX_CHUNK_BYTES}
    row = connection.execute(SQL["join_deliveries"], asked).fetchone()
    return row["joined"] if row else 0
