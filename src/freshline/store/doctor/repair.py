"""The doctor's own transaction: it does again what an apply should have left done."""

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
    """What `freshline doctor --fix` does to the store beside the work of the services."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def repair(self) -> None:
        """Retired workflows own nothing and are not looked at; timers are those of the freshness that is promised.

        Whatever is right stays as it is, so any number of calls is as good as one.
        """
        with self._database.transaction("mend", whole=True) as connection:
            connection.execute(DB["lock"], {"key": locks.APPLY})
            released = _release(connection)
            timers = _set_timers(connection)
            audit.note(connection, "mend", "*", retiredWorkflows=released, assetsWithTimers=timers)


def _release(connection: Connection) -> int:
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
    """Locked first and read in a later statement: a publication in between has set its timers itself."""
    found = _wrong_timers(connection)
    locked = connection.execute(SQL["lock_assets"], {"assets": sorted(found)}).fetchall()
    wrong = found & _wrong_timers(connection)
    owners = sorted({row["producer_id"] for row in locked if row["id"] in wrong and row["producer_id"] is not None})
    set_timers(connection, owners, only=wrong)
    return len(wrong)


def _wrong_timers(connection: Connection) -> set[str]:
    names = ("timer_missing", "timer_orphan")
    return {row["asset"] for name in names for row in connection.execute(SQL[name], {"limit": None})}
