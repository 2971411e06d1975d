"""Databases for tests: copies of a migrated template, which are cleaned and used again, with their sessions.

A copy costs the server 0.6 s of a processor, and a new session 0.2 s: it reads the catalogue and plans every statement.
Together they were most of the time of the gate. Deleting all rows costs 10 ms. A database whose schema or statistics a
test changed is not used again, and neither is a session that has ended or is inside a transaction.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from freshline.store.db.database import Connection, Database

TEMPLATE = "freshline_template"
COPY = "CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY"
USES = 25  # then the tables are truncated, because deleted rows stay in their files
MOST_KEPT = 3  # sessions of a database that are handed on
OTHERS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
   AND pid <> ALL (%s)
"""
# What DISCARD ALL does, except for prepared statements: the driver has its own list of them.
FORGET = """
SET SESSION AUTHORIZATION DEFAULT; RESET ALL; CLOSE ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD TEMP;
DISCARD SEQUENCES
"""
TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
   AND NOT relispartition ORDER BY 1
"""
SEQUENCES = """
SELECT setval(seqrelid::regclass, seqstart, false) FROM pg_sequence
"""
# Everything that a test might change apart from rows. Statistics count, because plans depend on them.
SIGNATURE = """
SELECT md5(string_agg(x.text, ';' ORDER BY x.text)) FROM (
    SELECT nspname AS text FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'
    UNION ALL
    SELECT concat_ws(' ', relname, relkind, relowner, reloptions) FROM pg_class
     WHERE relnamespace = 'public'::regnamespace
    UNION ALL
    SELECT concat_ws(' ', attrelid::regclass, attname, atttypid, atttypmod, attnotnull, attisdropped, attstattarget)
      FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relnamespace = 'public'::regnamespace
    UNION ALL
    SELECT concat_ws(' ', adrelid::regclass, adnum, pg_get_expr(adbin, adrelid)) FROM pg_attrdef
    UNION ALL
    SELECT concat_ws(' ', conrelid::regclass, conname, convalidated, pg_get_constraintdef(oid)) FROM pg_constraint
     WHERE connamespace = 'public'::regnamespace
    UNION ALL
    SELECT concat_ws(' ', proname, provolatile, md5(prosrc)) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    UNION ALL
    SELECT concat_ws(' ', tgrelid::regclass, tgname, tgenabled) FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL
    SELECT concat_ws(' ', indexrelid::regclass, indisvalid, pg_get_indexdef(indexrelid)) FROM pg_index i
      JOIN pg_class c ON c.oid = i.indrelid WHERE c.relnamespace = 'public'::regnamespace
    UNION ALL
    SELECT concat_ws(' ', starelid::regclass, staattnum) FROM pg_statistic s
      JOIN pg_class c ON c.oid = s.starelid WHERE c.relnamespace = 'public'::regnamespace
    UNION ALL
    SELECT concat_ws(' ', setrole, setconfig) FROM pg_db_role_setting
     WHERE setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
) x
"""


class KeptDatabase(Database):
    """Connections of a test: it takes over the sessions of the test before it, and leaves its own to the next."""

    kept: ClassVar[dict[str, deque[Connection]]] = {}  # by URL, of the databases that a test uses

    def open(self) -> None:
        """Check that the database can be reached, unless there is a session already."""
        if not self.kept.get(self.url):
            super().open()

    def close(self) -> None:
        """Keep the idle sessions that were used last."""
        kept = self.kept.get(self.url, deque(maxlen=0))
        for connection in reversed(self._pool.drain()):
            if len(kept) != kept.maxlen and _answers(connection, FORGET):
                kept.append(connection)
            else:
                connection.close()

    def _connect(self) -> Connection:
        kept = self.kept.get(self.url, deque())
        with suppress(IndexError):
            while True:
                connection = kept.popleft()
                if _answers(connection):
                    return connection
        return super()._connect()


class Databases:
    """The databases of one server. `_rows` is what the migrations insert, by table, as COPY writes it."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._numbers = itertools.count(1)
        self._clean: list[str] = []
        self._uses: dict[str, int] = {}
        self._cleaners: dict[str, psycopg.Connection[Any]] = {}
        with psycopg.connect(make_conninfo(server, dbname=TEMPLATE), autocommit=True) as connection:
            self._tables = [row[0] for row in connection.execute(TABLES)]
            self._signature = _one(connection, SIGNATURE)
            self._rows = {name: data for name in self._tables if (data := _dumped(connection, name))}

    @contextmanager
    def database(self) -> Iterator[str]:
        """Yield the URL of a database that is equal to the template."""
        name = self._clean.pop() if self._clean else self._copied()
        url = make_conninfo(self._server, dbname=name)
        kept = KeptDatabase.kept.setdefault(url, deque(maxlen=MOST_KEPT))
        yield url
        self._uses[name] = self._uses.get(name, 0) + 1
        if self._cleaned(name, [connection.info.backend_pid for connection in kept if not connection.closed]):
            self._clean.append(name)
            return
        self._leave(name)
        administer(self._server, "DROP DATABASE {} WITH (FORCE)", name)

    def close(self) -> None:
        """End the sessions of all databases."""
        for name in self._uses:
            self._leave(name)

    def _leave(self, name: str) -> None:
        kept = KeptDatabase.kept.pop(make_conninfo(self._server, dbname=name), deque())
        for connection in (*kept, self._cleaners.pop(name, None)):
            if connection is not None:
                connection.close()

    def _copied(self) -> str:
        name = f"test_{next(self._numbers)}"
        administer(self._server, COPY, name, TEMPLATE)
        return name

    def _cleaned(self, name: str, kept: list[int]) -> bool:
        """Give the database the rows of the template; return False if it differs in anything else, or is gone."""
        try:
            with self._cleaner(name).transaction() as transaction:
                connection = transaction.connection
                connection.execute(OTHERS, [kept])
                if _one(connection, SIGNATURE) != self._signature:
                    return False
                self._empty(connection, thoroughly=self._uses[name] % USES == 0)
                for table, data in self._rows.items():
                    with connection.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(table))) as copy:
                        copy.write(data)
                connection.execute(SEQUENCES)
        except psycopg.Error:
            return False
        return True

    def _empty(self, connection: psycopg.Connection[Any], *, thoroughly: bool) -> None:
        tables = [sql.Identifier(table) for table in self._tables]
        if thoroughly:
            connection.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(tables)))
            return
        with connection.pipeline():
            for table in tables:
                connection.execute(sql.SQL("DELETE FROM {}").format(table), prepare=True)

    def _cleaner(self, name: str) -> psycopg.Connection[Any]:
        """Return the session that cleans a database; a test may have ended the one that there was."""
        found = self._cleaners.get(name)
        if found is None or not _answers(found):
            # Without triggers: foreign keys would cost most of the time.
            options = "-c session_replication_role=replica"
            found = psycopg.connect(make_conninfo(self._server, dbname=name, options=options), autocommit=True)
            self._cleaners[name] = found
        return found


@contextmanager
def empty_database(server: str, name: str) -> Iterator[str]:
    """Yield the URL of a database without any schema."""
    administer(server, "CREATE DATABASE {}", name)
    yield make_conninfo(server, dbname=name)
    administer(server, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


def administer(server: str, statement: str, *names: str) -> None:
    """Execute a statement about whole databases."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def _answers(connection: psycopg.Connection[Any], query: LiteralString = "SELECT 1") -> bool:
    """Return whether a session is still there; close it if not."""
    try:
        connection.execute(query, prepare=False)
    except psycopg.Error:
        connection.close()
        return False
    return True


def _one(connection: psycopg.Connection[Any], query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None


def _dumped(connection: psycopg.Connection[Any], table: str) -> bytes:
    with connection.cursor().copy(sql.SQL("COPY (SELECT * FROM {}) TO STDOUT").format(sql.Identifier(table))) as copy:
        return b"".join(bytes(part) for part in copy)
