"""Weekly partitions of the event log, created ahead of time and dropped when they are old.

A partition cannot be created for a time that has rows in the default partition, so it is created weeks before.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from psycopg import sql

from freshline.store.db import locks
from freshline.store.db.database import Connection
from freshline.store.db.queries import load

SQL = load("retention")
DB = load("db")
AHEAD = 4
PREFIX = "events_week_"
WEEK = timedelta(days=7)
VACUUM = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02"  # as events_default


def lock(connection: Connection) -> bool:
    """Return whether this process holds the lock of the pruner."""
    row = connection.execute(DB["try_lock"], {"key": locks.PRUNER}).fetchone()
    return bool(row and row["locked"])


def make_partitions(connection: Connection) -> None:
    """Create the partitions of the coming weeks."""
    known = set(_names(connection))
    for ahead in range(1, AHEAD + 1):
        begins = _monday(_now(connection)) + ahead * WEEK
        name = f"{PREFIX}{begins:%Y_%m_%d}"
        if name not in known:
            statement = sql.SQL(
                "CREATE TABLE {} PARTITION OF events FOR VALUES FROM ({}) TO ({}) WITH (" + VACUUM + ")"
            )
            bounds = (sql.Literal(_midnight(begins)), sql.Literal(_midnight(begins + WEEK)))
            connection.execute(statement.format(sql.Identifier(name), *bounds))


def drop_partitions(connection: Connection, days: int) -> None:
    """Drop weeks that ended before the retention, if all their events have positions."""
    before = (_now(connection) - timedelta(days=days)).date()
    for name in _names(connection):
        if name.startswith(PREFIX) and _begins(name) + WEEK <= before and not _unstamped(connection, name):
            connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))


def _unstamped(connection: Connection, name: str) -> bool:
    statement = sql.SQL("SELECT 1 AS found FROM {} WHERE position IS NULL LIMIT 1").format(sql.Identifier(name))
    return connection.execute(statement).fetchone() is not None


def _names(connection: Connection) -> list[str]:
    return [row["name"] for row in connection.execute(SQL["partitions"])]


def _begins(name: str) -> date:
    return datetime.strptime(name.removeprefix(PREFIX), "%Y_%m_%d").replace(tzinfo=UTC).date()


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _monday(moment: datetime) -> date:
    return moment.date() - timedelta(days=moment.weekday())


def _now(connection: Connection) -> datetime:
    row = connection.execute(DB["now"]).fetchone()
    assert row is not None  # noqa: S101 - it is one value
    now: datetime = row["now"]
    return now.astimezone(UTC)
