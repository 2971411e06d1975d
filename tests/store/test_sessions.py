"""State that a session keeps across transactions."""

from __future__ import annotations

import contextlib

import psycopg
import pytest

from freshline.store.db.database import Database

READS = 10  # the driver prepares statements that are repeated


def test_a_look_keeps_what_was_prepared(database_url: str) -> None:
    """Or every look at a state would plan its joins anew, which took ten times as long as reading them."""
    with contextlib.closing(Database(database_url, size=1)) as database:
        for _ in range(READS):
            with database.reading() as connection:
                connection.execute("SELECT 'seen before' AS text")
        with database.connection() as connection:
            rows = connection.execute("SELECT statement FROM pg_prepared_statements").fetchall()
        assert "SELECT 'seen before' AS text" in [row["statement"] for row in rows]


def test_a_look_that_failed_leaves_a_session_that_works(database_url: str) -> None:
    """Its transaction is over, whatever it ran into."""
    with contextlib.closing(Database(database_url, size=1)) as database:
        with contextlib.suppress(psycopg.errors.DivisionByZero), database.reading() as connection:
            connection.execute("SELECT 1 / 0")
        with database.reading() as connection:
            assert connection.execute("SELECT 1 AS one").fetchall() == [{"one": 1}]
            assert connection.execute("SHOW transaction_read_only").fetchall() == [{"transaction_read_only": "on"}]


def test_an_interrupted_read_is_an_interruption(database_url: str) -> None:
    """Ctrl-C in the middle of a statement is not hidden by an error of the rollback, and the next read works."""

    def interrupted(database: Database) -> None:
        with database.reading() as connection:
            connection.pgconn.send_query(b"SELECT pg_sleep(60)")
            raise KeyboardInterrupt

    with contextlib.closing(Database(database_url, size=1)) as database:
        with pytest.raises(KeyboardInterrupt):
            interrupted(database)
        with database.reading() as connection:
            assert connection.execute("SELECT 1 AS one").fetchall() == [{"one": 1}]
