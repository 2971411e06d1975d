"""The expiry and overdue timers of a published asset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TypedDict

from psycopg.types.json import Jsonb

from freshline.decide.times import expires_at, milliseconds
from freshline.model.policy import Freshness
from freshline.store.db.database import Connection
from freshline.store.db.queries import load

SQL = load("runs")


class TimerRow(TypedDict):
    """A row of `timers`; without `due_at` the timer is removed."""

    asset_id: str
    partition_key: str
    kind: str
    due_at: str | None
    reason: str | None


def timers(asset_id: str, partition_key: str, freshness: Freshness, since: datetime) -> Iterator[TimerRow]:
    """Yield the timers of an asset that was produced at `since`."""
    expiry = expires_at(freshness, since)
    due, reason = expiry or (None, None)
    yield _timer(asset_id, partition_key, "expiry", due, reason)
    overdue = since + milliseconds(freshness.max_age_ms) if freshness.max_age_ms is not None else None
    yield _timer(asset_id, partition_key, "overdue", overdue, "max-age" if overdue else None)


def set_timers(connection: Connection, rows: Sequence[TimerRow]) -> None:
    """Set the timers that have a time, and remove the others."""
    due = [row for row in rows if row["due_at"] is not None]
    gone = [row for row in rows if row["due_at"] is None]
    if due:
        connection.execute(SQL["arm_timers"], {"timers": Jsonb(due)})
    if gone:
        connection.execute(SQL["disarm_timers"], {"timers": Jsonb(gone)})


def _timer(asset_id: str, partition_key: str, kind: str, due: datetime | None, reason: str | None) -> TimerRow:
    return {
        "asset_id": asset_id,
        "partition_key": partition_key,
        "kind": kind,
        "due_at": due.isoformat() if due else None,
        "reason": reason,
    }
