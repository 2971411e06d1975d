"""The transaction of `freshline doctor --fix`: it restores the state that an apply leaves."""

from __future__ import annotations

from freshline.store.apply.timers import set_timers
from freshline.store.db import locks
from freshline.store.db.database import Connection, Database
from freshline.store.db.queries import load
from freshline.store.operations import audit

SQL = load("doctor")
DB = load("db")
APPLY = load("apply")
BACKFILLS = load("backfills")


class Doctor:
    """Repairs of the store that no service does."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def repair(self) -> None:
        """Release the assets, edges and considerations of retired workflows, and correct timers. Idempotent."""
        with self._database.transaction("mend", whole=True) as connection:
            connection.execute(DB["lock"], {"key": locks.APPLY})
            released = _release_retired(connection)
            timers = _set_timers(connection)
            audit.note(connection, "mend", "*", retiredWorkflows=released, assetsWithTimers=timers)

    def repair_digests(self) -> None:
        """Compute wrong digests of partitions again, and have those evaluated that read them. Idempotent."""
        with self._database.transaction("mend", whole=True) as connection:
            found = _wrong_digests(connection)
            # A publication in between has moved the digest with its heads: read again under the locks.
            connection.execute(SQL["lock_assets"], {"assets": found})
            wrong = {"assets": [one for one in _wrong_digests(connection) if one in found]}
            connection.execute(SQL["recompute_digests"], wrong)
            connection.execute(SQL["touch_readers"], wrong)
            audit.note(connection, "mend", "*", digests=len(wrong["assets"]))

    def repair_backfills(self) -> None:
        """Have the open partitions of backfills evaluated that nothing evaluates. Idempotent."""
        with self._database.transaction("mend", whole=True) as connection:
            found = connection.execute(SQL["backfill_stuck"], {"limit": None, "late": 0}).fetchall()
            for row in found:
                locked = connection.execute(BACKFILLS["lock_backfill"], {"id": row["id"]}).fetchone()
                origin = locked["requested_at"] if locked else None
                connection.execute(BACKFILLS["note_open"], {"id": row["id"], "origin": origin})
            audit.note(connection, "mend", "*", backfills=len(found))


def _wrong_digests(connection: Connection) -> list[str]:
    return [row["asset"] for row in connection.execute(SQL["digest_differs"], {"limit": None})]


def _release_retired(connection: Connection) -> int:
    rests = connection.execute(SQL["retired_rests"]).fetchall()
    retired = {"workflows": [row["id"] for row in rests]}
    if not rests:
        return 0
    connection.execute(APPLY["drop_considerations"], retired)
    if any(row["owns"] for row in rests):
        connection.execute(APPLY["release_assets"], retired)
        connection.execute(APPLY["drop_edges"], retired)
        connection.execute(APPLY["bump_epoch"])
    return len(rests)


def _set_timers(connection: Connection) -> int:
    """Correct the timers of assets and return how many assets had wrong ones.

    The assets are locked first and read again in a later statement: a publication in between has set its own timers.
    """
    found = _wrong_timers(connection)
    locked = connection.execute(SQL["lock_assets"], {"assets": sorted(found)}).fetchall()
    wrong = found & _wrong_timers(connection)
    owners = sorted({row["producer_id"] for row in locked if row["id"] in wrong and row["producer_id"] is not None})
    set_timers(connection, owners, only=wrong)
    return len(wrong)


def _wrong_timers(connection: Connection) -> set[str]:
    names = ("timer_missing", "timer_orphan")
    return {row["asset"] for name in names for row in connection.execute(SQL[name], {"limit": None})}
