"""Deletes old history in pages. Rows that the current state refers to stay, however old they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from freshline.counters import count
from freshline.store.alerts import messages
from freshline.store.backfills import retention
from freshline.store.db.database import Database, Row
from freshline.store.db.queries import load
from freshline.store.operations import tokens
from freshline.store.retention import compaction, event_partitions
from freshline.store.retention.compaction import FIRST_SOURCE, Source
from freshline.store.webhooks import delivery

SQL = load("retention")


@dataclass(frozen=True, slots=True)
class Place:
    """A position in old rows: time and id (of a snapshot: the id of its event)."""

    at: str = "-infinity"
    id: str = "00000000-0000-0000-0000-000000000000"


BEGINNING = Place()


@dataclass(frozen=True, slots=True)
class Places:
    """The positions of `prune`. Kept rows are passed over; there may be one per workflow."""

    decisions: Place = BEGINNING
    runs: Place = BEGINNING


START = Places()


@dataclass(frozen=True, slots=True)
class Pruned:
    """One page: deleted rows per table, and where the next page begins, or None after the last."""

    rows: Mapping[str, int]
    next: Places | None


@dataclass(frozen=True, slots=True)
class Forgotten:
    """One page of snapshots: how many were deleted, and where the next page begins, or None after the last."""

    snapshots: int
    next: Place | None


@dataclass(frozen=True, slots=True)
class Compacted:
    """One page of append sources: how many deliveries were joined, and the last source, or None after all pages."""

    deliveries: int
    next: Source | None


class Retention:
    """Keeps the size of the database bounded by the retention."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def prune(self, days: int, batch: int, after: Places = START) -> Pruned:
        """Delete a page of rows older than the retention, and create partitions for coming events."""
        with self._database.transaction("prune") as connection:
            if not event_partitions.lock(connection):
                return Pruned({}, None)
            event_partitions.make_partitions(connection)
            event_partitions.drop_partitions(connection, days)
            row = connection.execute(SQL["prune"], _parameters(days, batch, after)).fetchone()
            assert row is not None  # noqa: S101 - it is a row of counts
            connection.execute(SQL["forget_workers"])
            tokens.prune(connection, days, batch)
            delivery.prune(connection, days)
            messages.prune(connection, days)
            backfills = retention.prune(connection, days, batch)
        return _pruned({**row, "backfills": backfills}, batch, after)

    def forget_snapshots(self, days: int, batch: int, after: Place = BEGINNING) -> Forgotten:
        """Delete a page of snapshots that were replaced before the retention and whose data is gone."""
        with self._database.transaction("forget_snapshots") as connection:
            if not event_partitions.lock(connection):
                return Forgotten(0, None)
            asked = {"days": days, "batch": batch, "at": after.at, "event": after.id}
            row = connection.execute(SQL["forget_snapshots"], asked).fetchone()
            assert row is not None  # noqa: S101 - it is a row of counts
        count("snapshots_forgotten", row["forgotten"])
        more = row["looked"] == batch
        return Forgotten(row["forgotten"], Place(row["at"], row["event"]) if more else None)

    def compact_deliveries(
        self, days: int, batch: int, after: Source = FIRST_SOURCE, *, chunk: int = compaction.CHUNK
    ) -> Compacted:
        """Join the oldest deliveries of a page of append sources into chunks, at most one chunk per source."""
        with self._database.transaction("compact_deliveries") as connection:
            if not event_partitions.lock(connection):
                return Compacted(0, None)
            page = compaction.sources(connection, days, batch, after, chunk)
            joined = sum(compaction.join(connection, one, chunk) for one in page if one.due)
        count("deliveries_joined", joined)
        if joined:  # these sources may have more
            return Compacted(joined, after)
        return Compacted(0, page[-1].source if len(page) == batch else None)


def _parameters(days: int, batch: int, after: Places) -> Row:
    places = {"decided_at": after.decisions.at, "decision": after.decisions.id}
    return {"days": days, "batch": batch, **places, "queued_at": after.runs.at, "run": after.runs.id}


def _pruned(row: Row, batch: int, after: Places) -> Pruned:
    rows = {name: row[name] for name in ("events", "decisions", "runs", "logs", "backfills")}
    full = max(row["events"], row["logs"], row["backfills"], row["decisions_seen"], row["runs_seen"]) >= batch
    decisions = Place(row["decided_at"], row["decision"]) if row["decision"] else after.decisions
    runs = Place(row["queued_at"], row["run"]) if row["run"] else after.runs
    return Pruned(rows, Places(decisions, runs) if full else None)
