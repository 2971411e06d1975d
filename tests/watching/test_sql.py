"""The kind `sql` on PostgreSQL, SQLite and MariaDB: values, limits, read-only transactions, hidden passwords."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.exc import OperationalError

from freshline.definitions.schema.watch import SqlWatch
from freshline.model.json import Json
from freshline.watching import sql
from freshline.watching.look import Look, LookError, Mode
from tests.databases import empty_database
from tests.watching.looks import context
from tests.watching.mariadb import execute, mariadb

PASSWORD = "pa%40ss-w0rd"  # noqa: S105 - of nobody
TABLE = "CREATE TABLE orders (id integer, changed timestamp)"
ROWS = "INSERT INTO orders VALUES (1, '2026-01-05 09:00:00'), (2, '2026-01-05 10:00:00')"
MANY = {
    "postgresql": "SELECT g FROM generate_series(1, 10000) g",
    "sqlite": "WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < 10000) SELECT n FROM g",
    "mariadb": "SELECT seq FROM shop.seq_1_to_10000",
}
ENDLESS = {
    "postgresql": "SELECT pg_sleep(60)::text",
    "sqlite": "WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g) SELECT max(n) FROM g",
    "mariadb": "SELECT sleep(60)",
}


class Database:
    """A database with a table. `run` executes statements on it, past the watcher."""

    def __init__(self, kind: str, url: str, run: Callable[..., None]) -> None:
        self.kind = kind
        self.url = url
        self.run = run

    def look(self, query: str, mode: Mode = "append", position: Json | None = None, *, timeout_s: float = 10) -> Look:
        """Look with this query."""
        spec = SqlWatch.model_validate({"sql": query, "url": {"env": "SHOP"}})
        return sql.look(spec, mode, position, context({"SHOP": self.url}, timeout_s=timeout_s))

    def error(self, query: str, **more: Any) -> str:
        """Return the error of a look."""
        with pytest.raises(LookError) as raised:
            self.look(query, **more)
        return str(raised.value)


@pytest.fixture(scope="module")
def mariadb_socket() -> Iterator[Path]:
    """Yield the socket of a MariaDB server."""
    with mariadb() as socket:
        yield socket


@pytest.fixture(scope="module")
def postgresql_url(postgres: str) -> Iterator[str]:
    """Yield the URL of an empty database."""
    with empty_database(postgres, "watched") as url:
        yield url


@pytest.fixture(params=["postgresql", "sqlite", pytest.param("mariadb", marks=pytest.mark.chaos)])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Yield a database of each kind with two orders."""
    if request.param == "postgresql":
        found = _postgresql(request.getfixturevalue("postgresql_url"))
        found.run("DROP TABLE IF EXISTS orders")
    elif request.param == "sqlite":
        found = _sqlite(request.getfixturevalue("tmp_path") / "shop.db")
    else:
        socket: Path = request.getfixturevalue("mariadb_socket")
        execute(socket, "DROP TABLE IF EXISTS shop.orders")
        url = f"mysql+pymysql://root@localhost/shop?unix_socket={socket}"
        found = Database("mariadb", url, lambda *texts: execute(socket, "USE shop", *texts))
    found.run(TABLE, ROWS)
    yield found
    sql._engine.cache_clear()


def _postgresql(url: str) -> Database:
    parts = conninfo_to_dict(url)
    address = f"postgresql://{parts['user']}:{PASSWORD}@/{parts['dbname']}?host={parts['host']}"

    def run(*statements: Any) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    return Database("postgresql", address + (f"&port={parts['port']}" if "port" in parts else ""), run)


def _sqlite(path: Path) -> Database:
    def run(*statements: str) -> None:
        with closing(sqlite3.connect(path)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    return Database("sqlite", f"sqlite:///{path}", run)


def test_a_watermark_that_rises_becomes_deliveries(database: Database) -> None:
    """Each has the range since the last one; nothing is delivered twice, and nothing without a change."""
    query = "SELECT max(id) FROM orders;"
    first = database.look(query)
    assert [one.payload for one in first.found] == [{"from": None, "to": "2"}]
    assert database.look(query, position=first.position).found == ()
    database.run("INSERT INTO orders VALUES (7, NULL)")
    second = database.look(query, position=first.position)
    assert [one.payload for one in second.found] == [{"from": "2", "to": "7"}]


def test_a_time_is_a_version(database: Database) -> None:
    """Also where the database has it as a text."""
    (found,) = database.look("SELECT max(changed) FROM orders", "snapshot").found
    assert found.data_version in {"2026-01-05T10:00:00", "2026-01-05 10:00:00"}


def test_a_query_is_sent_as_it_is(database: Database) -> None:
    """Signs that drivers use for parameters, and semicolons in texts, have no meaning here."""
    query = "SELECT max(id) FROM orders WHERE 'a%s:b;' LIKE 'a%' -- 100 % of :all; orders"
    assert database.look(query).found[0].payload["to"] == "2"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT max(id) FROM orders WHERE id > 99", "the watermark is NULL"),
        ("SELECT id FROM orders WHERE id > 99", "the query returned no row"),
        ("SELECT id FROM orders", "the query returned more than one row"),
        ("SELECT id, changed FROM orders", "the query returned 2 columns; allowed is one"),
        ("SELECT max(id) FROM missing_table", "the query failed: "),
        ("SELECT 1; SELECT 2", "the query has 2 statements; allowed is one"),
        ("DELETE FROM orders", "the query begins with 'DELETE'; allowed are queries"),
        ("SELECT 'no end", "the query "),
    ],
)
def test_what_is_not_one_value_is_an_error(database: Database, query: str, message: str) -> None:
    """Each says what came back, and what to do."""
    assert message in database.error(query)


def test_ten_thousand_rows_are_an_error_at_once(database: Database) -> None:
    """They are not read, and the next look works."""
    assert "more than one row" in database.error(MANY[database.kind])
    assert len(database.look("SELECT 1").found) == 1


def test_an_endless_query_ends(database: Database) -> None:
    """The database ends it after the timeout of the watch."""
    began = time.monotonic()
    database.error(ENDLESS[database.kind], timeout_s=0.5)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "query",
    ["DELETE FROM orders RETURNING id", "INSERT INTO orders VALUES (9, NULL) RETURNING id", "DROP TABLE orders"],
)
def test_a_watcher_cannot_write(database: Database, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database refuses it, also if a statement would pass the check of the text."""
    monkeypatch.setattr(sql, "check_query", lambda *_: None)
    database.error(query)
    assert database.look("SELECT count(*) FROM orders").found[0].payload["to"] == "2"


def test_a_second_statement_is_not_executed(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database refuses it too: a text that ends the read-only transaction must not get further."""
    monkeypatch.setattr(sql, "check_query", lambda *_: None)
    database.error("SELECT 1; COMMIT; DELETE FROM orders")
    assert database.look("SELECT count(*) FROM orders").found[0].payload["to"] == "2"


def test_a_missing_file_is_not_made(tmp_path: Path) -> None:
    """SQLite makes a database out of a mistyped path."""
    wrong = _sqlite(tmp_path / "typo.db")
    assert "unable to open database file" in wrong.error("SELECT 1")
    assert not (tmp_path / "typo.db").exists()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (f"postgresql://reader:{PASSWORD}@127.0.0.1:1/shop", "Connection refused"),
        (f"reader:{PASSWORD}@shop", "the value of SHOP is not the URL of a database"),
        (f"postgresql://reader:{PASSWORD}@host:port/shop", "the value of SHOP is not the URL of a database"),
        (f"nosql://reader:{PASSWORD}@host/shop", "begins with nosql, and no installed package knows it"),
        (f"oracle+oracledb://reader:{PASSWORD}@host/shop", "needs the Python package oracledb"),
    ],
)
def test_no_error_shows_the_password(url: str, message: str) -> None:
    """Nor the URL, in which it may be written in another way."""
    found = Database("any", url, lambda: None).error("SELECT 1")
    assert message in found
    assert all(secret not in found for secret in (PASSWORD, "pa@ss-w0rd", url))


def test_a_driver_that_shows_the_password_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each form in which the driver may quote it."""
    spec = SqlWatch.model_validate({"sql": "SELECT 1", "url": {"env": "SHOP"}})
    url = f"sqlite:///x?password={PASSWORD}"

    def fail(*_: Any) -> None:
        raise OperationalError("", {}, Exception(f"no login with {url} and pa@ss-w0rd"))

    monkeypatch.setattr(sql, "_value", fail)
    for address in (url, f"postgresql://reader:{PASSWORD}@host/shop"):
        with pytest.raises(LookError) as raised:
            sql.look(spec, "append", None, context({"SHOP": address}))
        assert "w0rd" not in str(raised.value)


def test_a_variable_that_is_not_set_is_named() -> None:
    """With what to do."""
    assert "names the variable SHOP, which is not set" in Database("any", "", lambda: None).error("SELECT 1")
