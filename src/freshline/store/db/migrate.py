"""Schema migrations: numbered SQL files, each applied in one transaction.

A migration inserts its version row first. Of two concurrent migrators the second waits for that row and then finds it,
so both succeed and every file is applied once. Older versions of Freshline refuse a database with a file whose first
line is `-- breaking`. They accept newer migrations without this mark.

Schema that running processes use changes in two steps. The first file only adds, so that processes of both versions
work. The second file removes what only the older version uses. Its name ends with `_post`, and it is breaking.
`upgrade` leaves the last of these to `upgrade(finish=True)`, for when no process of the older version is left.

The checksum of each file is stored with its row and compared whenever a process opens the database.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

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
    applied_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    checksum    text
)
"""
_INSERT = """
INSERT INTO freshline_migrations (version, name, breaking, checksum) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING
"""
# Databases of 0.1 have no checksums; 0002_plain_names fills in that of 0001_init.
_ADD_CHECKSUM = "ALTER TABLE freshline_migrations ADD COLUMN IF NOT EXISTS checksum text"


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of `migrations/`."""

    version: int
    name: str
    breaking: bool
    sql: str

    @property
    def post(self) -> bool:
        """Whether it only removes what older versions use."""
        return self.name.endswith("_post")

    @property
    def checksum(self) -> str:
        """The SHA-256 of the file."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Changed:
    """A migration whose file is not the one that was applied."""

    name: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class MigrationStatus:
    """The state of a database: missing migrations, removals left to do, the newest unknown breaking version."""

    current: int
    latest: int
    pending: tuple[str, ...]
    unfinished: tuple[str, ...]
    newer_breaking: int | None
    changed: tuple[Changed, ...] = ()


@cache
def known() -> tuple[Migration, ...]:
    """Return the migrations of this Freshline, in order."""
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
        _refuse_changed(found)
        wanted = known() if finish or not found.current else needed()
        return [migration.name for migration in wanted if _apply(conn, migration)]


def needed() -> tuple[Migration, ...]:
    """Return the migrations that this version requires: all but the removals of its own changes.

    A removal that is followed by a later migration belongs to an earlier version, which has no processes any more.
    """
    last = max((migration.version for migration in known() if not migration.post), default=0)
    return tuple(migration for migration in known() if migration.version <= last)


def status(conninfo: str) -> MigrationStatus:
    """Return the state of the database. Changes nothing."""
    with _connect(conninfo) as conn:
        return _status(conn)


def require_current(conn: psycopg.Connection[Any]) -> None:
    """Refuse a database that is behind, ahead by a breaking migration, or migrated by other files."""
    _require_server(conn)
    require(_status(conn))


def require_no_newer(conn: psycopg.Connection[Any]) -> None:
    """Refuse a database that got a breaking migration after this process started."""
    _refuse_newer(_status(conn))


def require(found: MigrationStatus) -> None:
    """Refuse the same, given a status."""
    _refuse_newer(found)
    _refuse_changed(found)
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
        raise SchemaError(f"the migration {file!r} removes something and does not begin with `-- breaking`")
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
    # IF NOT EXISTS alone does not separate two creators: the second one fails on the index of the system catalogue.
    with conn.transaction():
        conn.execute("SELECT pg_advisory_xact_lock(%s)", [locks.MIGRATIONS])
        conn.execute(_TABLE)
        if not _has_checksums(conn):  # not every time: it would wait for all who read the table
            conn.execute(_ADD_CHECKSUM)


def _has_checksums(conn: psycopg.Connection[Any]) -> bool:
    query = """SELECT FROM pg_attribute
                WHERE attrelid = 'freshline_migrations'::regclass AND attname = 'checksum' AND NOT attisdropped"""
    return conn.execute(query).fetchone() is not None


def _apply(conn: psycopg.Connection[Any], migration: Migration) -> bool:
    """Apply a migration. Return False if another process did."""
    row = (migration.version, migration.name, migration.breaking, migration.checksum)
    with conn.transaction():
        inserted = conn.execute(_INSERT, row)
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
    newer = [version for version, row in applied.items() if row.breaking and version > latest]
    missing = [migration for migration in known() if migration.version not in applied]
    pending = tuple(one.name for one in missing if one in needed())
    unfinished = tuple(one.name for one in missing if one not in needed())
    changed = tuple(
        Changed(one.name, row.checksum, one.checksum)
        for one in known()
        if (row := applied.get(one.version)) and row.checksum not in {None, one.checksum}
    )
    return MigrationStatus(max(applied, default=0), latest, pending, unfinished, max(newer, default=None), changed)


class _Applied(NamedTuple):
    version: int
    breaking: bool
    checksum: str | None  # None: applied by 0.1


def _applied(conn: psycopg.Connection[Any]) -> dict[int, _Applied]:
    with conn.transaction(), conn.cursor(row_factory=tuple_row) as cursor:
        found = cursor.execute("SELECT to_regclass('freshline_migrations')").fetchone()
        if found is None or found[0] is None:
            return {}
        # By way of JSON, because the column is missing in a database of 0.1.
        rows = cursor.execute("SELECT version, breaking, to_jsonb(m) ->> 'checksum' FROM freshline_migrations m")
        return {row[0]: _Applied(*row) for row in rows}


def _refuse_newer(found: MigrationStatus) -> None:
    if found.newer_breaking is not None:
        raise SchemaError(
            f"schema version {found.newer_breaking} of the database is newer than this Freshline, "
            f"which knows versions up to {found.latest}, and cannot be used by it; upgrade Freshline"
        )


def _refuse_changed(found: MigrationStatus) -> None:
    if found.changed:
        one = found.changed[0]
        raise SchemaError(
            f"the migration {one.name} was changed after it was applied: expected checksum {one.expected[:16]}, "
            f"found {one.found[:16]}; the database is unchanged; install the released Freshline again"
        )
