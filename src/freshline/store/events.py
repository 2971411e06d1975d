"""The order of events, and their way to the event bus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from freshline.counters import count
from freshline.store.db import locks
from freshline.store.db.database import Database
from freshline.store.db.queries import load

SQL = load("evaluation")
DB = load("db")


class Events:
    """Transactions that number events and publish them in that order."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def stamp_positions(self, batch: int) -> int:
        """Give committed events their positions and return how many. One process at a time does; others return 0."""
        with self._database.transaction("stamp_positions") as connection:
            # A separate statement: the positions that the last holder stamped must be visible to the next one.
            mine = connection.execute(DB["try_lock"], {"key": locks.SEQUENCER}).fetchone()
            if not mine or not mine["locked"]:
                return 0
            return connection.execute(SQL["stamp_positions"], {"batch": batch}).rowcount

    def publish(self, send: Callable[[Sequence[Mapping[str, Any]]], None], *, batch: int, most_bytes: int) -> int:
        """Pass the next events to `send` in the order of positions, and return how many.

        The cursor moves only after `send` has returned: a crash publishes a batch again and omits none. The cursor's
        row is locked meanwhile. A holder that sleeps loses its session; what it still sends are repetitions.
        """
        with self._database.transaction("publish_events") as connection:
            cursor = connection.execute(SQL["lock_cursor"]).fetchone()
            if cursor is None:
                return 0
            limits = {"after": cursor["position"], "batch": batch, "most_bytes": most_bytes}
            events = connection.execute(SQL["unpublished"], limits).fetchall()
            if not events:
                return 0
            send(events)
            connection.execute(SQL["move_cursor"], {"position": events[-1]["position"]})
        count("events_published", len(events))
        return len(events)

    @contextmanager
    def intake_lock(self) -> Iterator[bool]:
        """Yield whether this process is the one that reads the inbound stream now. Only saves work."""
        with self._database.reading() as connection:
            mine = connection.execute(DB["try_lock"], {"key": locks.REDIS_CONSUMER}).fetchone()
            yield bool(mine and mine["locked"])
