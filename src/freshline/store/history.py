"""The transactions that forget: prune and forget_snapshots. What the present rests on stays, however old it is."""

from __future__ import annotations

from dataclasses import dataclass

from freshline.counters import count
from freshline.store import access, delivering, partitions
from freshline.store.database import Database
from freshline.store.queries import load

SQL = load("history")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a look through old snapshots has come to, by their time and their event."""

    at: str = "-infinity"
    event: str = "00000000-0000-0000-0000-000000000000"


BEGINNING = Place()


@dataclass(frozen=True, slots=True)
class Forgotten:
    """One page of old snapshots: how many were forgotten, and where the next page begins; None: this was the last."""

    snapshots: int
    next: Place | None


class History:
    """How an installation stays as large as its retention, and not as its age."""

    database: Database

    def prune(self, days: int, batch: int) -> dict[str, int]:
        """Forget a batch of what is older than the retention, and have partitions for the events to come."""
        with self.database.transaction("prune") as connection:
            if not partitions.lock(connection):
                return {}
            partitions.make_partitions(connection)
            partitions.drop_partitions(connection, days)
            row = connection.execute(SQL["prune"], {"days": days, "batch": batch}).fetchone()
            connection.execute(load("catalogue")["forget_workers"])
            access.prune(connection, days, batch)
            delivering.prune(connection, days)
        return dict(row or {})

    def forget_snapshots(self, days: int, batch: int, after: Place = BEGINNING) -> Forgotten:
        """Forget those of a page that were replaced before the retention and whose data nobody has any more."""
        with self.database.transaction("forget_snapshots") as connection:
            if not partitions.lock(connection):
                return Forgotten(0, None)
            asked = {"days": days, "batch": batch, "at": after.at, "event": after.event}
            row = connection.execute(SQL["forget_snapshots"], asked).fetchone()
            assert row is not None  # noqa: S101 - it is a row of counts
        count("snapshots_forgotten", row["forgotten"])
        more = row["looked"] == batch
        return Forgotten(row["forgotten"], Place(row["at"], row["event"]) if more else None)
