"""Brings a database to the schema of this Freshline: numbered SQL files, each one transaction.

A migration inserts its version row first. Of two migrators at once the second one waits on that row and then finds it
there, so both end well and every file is applied once. A file whose first line is `-- breaking` cannot be used by older
versions of Freshline: they refuse a database that has it, and accept newer migrations that are not marked.

What running processes rely on changes in two steps. The first file only adds, so that processes of both versions work;
the second one, whose name ends with `_post` and which is breaking, takes away what only the older version uses.
`upgrade` leaves the last of these for `upgrade(finish=True)`, when no process of the older version is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import tuple_row

from freshline.errors import DatabaseError, SchemaError
from freshline.store.db import locks

OLDEST_SERVER = 15
_NAME = re.compile(r"(\d{4})_(\w+)\.sql")
_TABLE = """
CREATE TABLE IF NOT EXISTS freshline_migrations (
    version     integer PRIMARY KEY CHECK (version > 0),
    name        text NOT NULL,
    breaking    boolean NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of `migrations/`."""

    version: int
    name: str
    breaking: bool
    sql: str

    @property
    def post(self) -> bool:
        """Whether it only takes away what older versions use."""
        return self.name.endswith("_post")


@dataclass(frozen=True, slots=True)
class MigrationStatus:
    """Where a database stands: what it lacks, what is still to be taken away, the newest unknown breaking version."""

    current: int
    latest: int
    pending: tuple[str, ...]
    unfinished: tuple[str, ...]
    newer_breaking: int | None


@cache
def known() -> tuple[Migration, ...]:
    """The migrations of this Freshline, in order."""
    files = sorted((Path(__file__).parents[1] / "migrations").glob("*.sql"))
    return tuple(_parse(file.name, file.read_text(encoding="utf-8")) for file in files)


def upgrade(conninfo: str, *, finish: bool = False) -> list[str]:
    """Apply what is pending and return the names, in order. Safe to be called by any number of processes at once.

    `finish`: also the last steps, after which older versions cannot go on. A new database has nobody to wait for.
    """
    with _connect(conninfo) as conn:
        _ensure_table(conn)
        found = _status(conn)
        _refuse_newer(found)
        wanted = known() if finish or not found.current else needed()
        return [migration.name for migration in wanted if _apply(conn, migration)]


def needed() -> tuple[Migration, ...]:
    """What this version cannot do without: everything but the last steps of what it changes itself.

    A last step that something later follows belongs to an earlier version, whose processes are long gone.
    """
    last = max((migration.version for migration in known() if not migration.post), default=0)
    return tuple(migration for migration in known() if migration.version <= last)


def status(conninfo: str) -> MigrationStatus:
    """Where the database stands; nothing is changed."""
    with _connect(conninfo) as conn:
        return _status(conn)


def require_current(conn: psycopg.Connection[Any]) -> None:
    """Refuse a database that is behind, or ahead by a breaking migration."""
    _require_server(conn)
    require(_status(conn))


def require_no_newer(conn: psycopg.Connection[Any]) -> None:
    """Refuse a database that was changed, since this process began, into what it cannot use."""
    _refuse_newer(_status(conn))


def require(found: MigrationStatus) -> None:
    """The same about a status that is known."""
    _refuse_newer(found)
    if found.pending:
        raise SchemaError(
            f"the database has schema version {found.current} and this Freshline needs {found.latest} "
            f"({', '.join(found.pending)} not applied); run `freshline db upgrade`"
        )


def _parse(file: str, sql: str) -> Migration:
    match = _NAME.fullmatch(file)
    if match is None:
        raise SchemaError(f"the migration {file!r} is not named like 0001_init.sql; reinstall Freshline")
    breaking = sql.partition("\n")[0].strip() == "-- breaking"
    found = Migration(int(match[1]), file.removesuffix(".sql"), breaking, sql)
    if found.post and not breaking:
        raise SchemaError(f"the migration {file!r} takes something away and does not begin with `-- breaking`")
    return found


@contextmanager
def _connect(conninfo: str) -> Iterator[psycopg.Connection[Any]]:
    try:
        with psycopg.connect(conninfo, autocommit=True, connect_timeout=10, prepare_threshold=None) as conn:
            _require_server(conn)
            yield conn
    except (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction) as error:
        raise DatabaseError(
            f"the schema of {_address(conninfo)} cannot be changed: {_first_line(error)}; "
            "use a database that belongs to this user"
        ) from error
    except psycopg.OperationalError as error:
        raise DatabaseError(
            f"the database {_address(conninfo)} cannot be reached: {_first_line(error)}; check FRESHLINE_DATABASE_URL"
        ) from error
    except psycopg.ProgrammingError as error:
        raise DatabaseError(
            f"the database cannot be used: {_first_line(error)}; "
            "FRESHLINE_DATABASE_URL is written like postgresql://user@host:5432/database"
        ) from error


def _address(conninfo: str) -> str:
    parts = conninfo_to_dict(conninfo)
    return f"{parts.get('dbname', '')!r} at {parts.get('host', 'localhost')}"


def _first_line(error: psycopg.Error) -> str:
    return str(error).strip().partition("\n")[0]


def _require_server(conn: psycopg.Connection[Any]) -> None:
    major = conn.info.server_version // 10_000
    if major < OLDEST_SERVER:
        raise DatabaseError(
            f"the database runs PostgreSQL {major}; Freshline needs {OLDEST_SERVER} or newer; upgrade the server"
        )


def _ensure_table(conn: psycopg.Connection[Any]) -> None:
    # IF NOT EXISTS alone does not keep two creators apart: the second one fails on the catalogue's own index.
    with conn.transaction():
        conn.execute("SELECT pg_advisory_xact_lock(%s)", [locks.MIGRATIONS])
        conn.execute(_TABLE)


def _apply(conn: psycopg.Connection[Any], migration: Migration) -> bool:
    """Whether it was this call that applied the migration."""
    row = (migration.version, migration.name, migration.breaking)
    with conn.transaction():
        inserted = conn.execute(
            "INSERT INTO freshline_migrations (version, name, breaking) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", row
        )
        if inserted.rowcount == 0:
            return False
        try:
            conn.execute(migration.sql.encode())
        except psycopg.Error as error:
            raise SchemaError(
                f"the migration {migration.name} failed and was undone: {_first_line(error)}; "
                "the database must be empty, or have been made by Freshline alone"
            ) from error
    return True


def _status(conn: psycopg.Connection[Any]) -> MigrationStatus:
    applied = _applied(conn)
    latest = known()[-1].version
    newer = [version for version, breaking in applied.items() if breaking and version > latest]
    missing = [migration for migration in known() if migration.version not in applied]
    pending = tuple(one.name for one in missing if one in needed())
    unfinished = tuple(one.name for one in missing if one not in needed())
    return MigrationStatus(max(applied, default=0), latest, pending, unfinished, max(newer, default=None))


def _applied(conn: psycopg.Connection[Any]) -> dict[int, bool]:
    with conn.transaction(), conn.cursor(row_factory=tuple_row) as cursor:
        found = cursor.execute("SELECT to_regclass('freshline_migrations')").fetchone()
        if found is None or found[0] is None:
            return {}
        return dict(cursor.execute("SELECT version, breaking FROM freshline_migrations").fetchall())


def _refuse_newer(found: MigrationStatus) -> None:
    if found.newer_breaking is not None:
        raise SchemaError(
            f"schema version {found.newer_breaking} of the database is newer than this Freshline, "
            f"which knows versions up to {found.latest}, and cannot be used by it; upgrade Freshline"
        )
