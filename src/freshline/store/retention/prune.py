"""The transactions that forget: prune and forget_snapshots. What the present rests on stays, however old it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from freshline.counters import count
from freshline.store.db.database import Database
from freshline.store.db.queries import load
from freshline.store.operations import tokens
from freshline.store.retention import event_partitions
from freshline.store.webhooks import delivery

SQL = load("retention")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a look through old rows has come to, by their time and their id (of a snapshot: its event's)."""

    at: str = "-infinity"
    id: str = "00000000-0000-0000-0000-000000000000"


BEGINNING = Place()


@dataclass(frozen=True, slots=True)
class Places:
    """Where `prune` has come to. What stays is passed by: it may be as much as there are workflows."""

    decisions: Place = BEGINNING
    runs: Place = BEGINNING


START = Places()


@dataclass(frozen=True, slots=True)
class Pruned:
    """One page: how many rows of each table went, and where the next one begins; None: this was the last."""

    rows: Mapping[str, int]
    next: Places | None


@dataclass(frozen=True, slots=True)
class Forgotten:
    """One page of old snapshots: how many were forgotten, and where the next page begins; None: this was the last."""

    snapshots: int
    next: Place | None


class Retention:
    """How an installation stays as large as its retention, and not as its age."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def prune(self, days: int, batch: int, after: Places = START) -> Pruned:
        """Forget a page of what is older than the retention, and have partitions for the events to come."""
        with self._database.transaction("prune") as connection:
            if not event_partitions.lock(connection):
                return Pruned({}, None)
            event_partitions.make_partitions(connection)
            event_partitions.drop_partitions(connection, days)
            row = connection.execute(SQL["prune"], _asked(days, batch, after)).fetchone()
            assert row is not None  # noqa: S101 - it is a row of counts
            connection.execute(SQL["forget_workers"])
            tokens.prune(connection, days, batch)
            delivery.prune(connection, days)
        return _pruned(row, batch, after)

    def forget_snapshots(self, days: int, batch: int, after: Place = BEGINNING) -> Forgotten:
        """Forget those of a page that were replaced before the retention and whose data nobody has any more."""
        with self._database.transaction("forget_snapshots") as connection:
            if not event_partitions.lock(connection):
                return Forgotten(0, None)
            asked = {"days": days, "batch": batch, "at": after.at, "event": after.id}
            row = connection.execute(SQL["forget_snapshots"], asked).fetchone()
            assert row is not None  # noqa: S101 - it is a row of counts
        count("snapshots_forgotten", row["forgotten"])
        more = row["looked"] == batch
        return Forgotten(row["forgotten"], Place(row["at"], row["event"]) if more else None)


def _asked(days: int, batch: int, after: Places) -> dict[str, Any]:
    places = {"decided_at": after.decisions.at, "decision": after.decisions.id}
    return {"days": days, "batch": batch, **places, "queued_at": after.runs.at, "run": after.runs.id}


def _pruned(row: Mapping[str, Any], batch: int, after: Places) -> Pruned:
    rows = {name: row[name] for name in ("events", "decisions", "runs", "logs")}
    full = max(row["events"], row["logs"], row["decisions_seen"], row["runs_seen"]) >= batch
    decisions = Place(row["decided_at"], row["decision"]) if row["decision"] else after.decisions
    runs = Place(row["queued_at"], row["run"]) if row["run"] else after.runs
    return Pruned(rows, Places(decisions, runs) if full else None)
