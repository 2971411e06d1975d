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
