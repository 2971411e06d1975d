"""Databases for tests: copies of a migrated template, which are cleaned and used again.

A copy costs two checkpoints of the server, 0.3 s on a busy machine and a third of the time of the whole gate. Deleting
all rows costs 10 ms. A database whose schema or statistics a test changed is not used again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

TEMPLATE = "freshline_template"
COPY = "CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY"
USES = 25  # then the deleted rows of the earlier tests are left behind with the database
OTHERS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
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


class Databases:
    """The databases of one server. `_rows` is what the migrations insert, by table, as COPY writes it."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._numbers = itertools.count(1)
        self._clean: list[str] = []
        self._uses: dict[str, int] = {}
        with psycopg.connect(make_conninfo(server, dbname=TEMPLATE), autocommit=True) as connection:
            self._tables = [row[0] for row in connection.execute(TABLES)]
            self._signature = _one(connection, SIGNATURE)
            self._rows = {name: data for name in self._tables if (data := _dumped(connection, name))}

    @contextmanager
    def database(self) -> Iterator[str]:
        """Yield the URL of a database that is equal to the template."""
        name = self._clean.pop() if self._clean else self._copied()
        yield make_conninfo(self._server, dbname=name)
        self._uses[name] = self._uses.get(name, 0) + 1
        if self._uses[name] < USES and self._cleaned(name):
            self._clean.append(name)
        else:
            administer(self._server, "DROP DATABASE {} WITH (FORCE)", name)

    def _copied(self) -> str:
        name = f"test_{next(self._numbers)}"
        administer(self._server, COPY, name, TEMPLATE)
        return name

    def _cleaned(self, name: str) -> bool:
        """Give the database the rows of the template; return False if it differs in anything else, or is gone."""
        try:
            with psycopg.connect(make_conninfo(self._server, dbname=name)) as connection:
                connection.execute(OTHERS)
                if _one(connection, SIGNATURE) != self._signature:
                    return False
                connection.execute("SET LOCAL session_replication_role = replica")  # foreign keys would cost most of it
                for table in self._tables:
                    connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
                for table, data in self._rows.items():
                    with connection.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(table))) as copy:
                        copy.write(data)
                connection.execute(SEQUENCES)
        except psycopg.Error:
            return False
        return True


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


def _one(connection: psycopg.Connection[Any], query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None


def _dumped(connection: psycopg.Connection[Any], table: str) -> bytes:
    with connection.cursor().copy(sql.SQL("COPY (SELECT * FROM {}) TO STDOUT").format(sql.Identifier(table))) as copy:
        return b"".join(bytes(part) for part in copy)
