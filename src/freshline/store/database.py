"""Connections and transactions. A transaction has a name: its failpoint, its counter and its log event."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeAlias

import psycopg
import structlog
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from freshline.counters import count
from freshline.errors import DatabaseError
from freshline.failpoints import hit

log = structlog.get_logger("freshline.store")

Connection: TypeAlias = psycopg.Connection[DictRow]

# A dead peer must not hold locks (R11.3): the server ends what a stopped process has begun.
SESSION = {
    "statement_timeout": "60s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "5s",
    "timezone": "UTC",
}
KEEPALIVE = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
CHANNEL = "freshline"


class Database:
    """A pool of connections to one PostgreSQL database. `clock` is for tests: transactions then see its time."""

    def __init__(
        self,
        url: str,
        *,
        name: str = "freshline",
        size: int = 8,
        clock: Callable[[], datetime] | None = None,
        revive: Callable[[], object] = lambda: None,
    ) -> None:
        self.url = url
        self.clock = clock
        self.revive = revive  # starts an embedded server again that died
        self.herald: Callable[..., None] | None = None  # another way to ring, which must return at once
        self._conninfo = _conninfo(url, name)
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            conninfo=self._conninfo,
            kwargs={"row_factory": dict_row, "autocommit": True},
            min_size=1,
            max_size=size,
            timeout=10,
            reconnect_timeout=30,
            open=False,
        )

    def open(self) -> None:
        """Connect, or say in one sentence why not."""
        try:
            psycopg.connect(self._conninfo, connect_timeout=10).close()
        except psycopg.Error as error:
            raise DatabaseError(
                f"cannot reach the database {masked(self.url)}: {_first_line(error)}",
                hint="is it running, and is FRESHLINE_DATABASE_URL right?",
            ) from error
        self._pool.open()

    def close(self) -> None:
        """Give all connections back."""
        self._pool.close()

    @contextmanager
    def transaction(self, name: str) -> Iterator[Connection]:
        """One transaction: committed when the block ends, rolled back when it raises."""
        started = time.monotonic()
        with self._checkout() as connection:
            with connection.transaction():
                self._set_clock(connection)
                yield connection
                hit(f"{name}:before")
            hit(f"{name}:after")
        count("transactions", transaction=name)
        log.debug(name, ms=round((time.monotonic() - started) * 1000, 1))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read-only transaction that sees one snapshot of the database."""
        with self._checkout() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            self._set_clock(connection)
            yield connection

    @contextmanager
    def rehearsing(self) -> Iterator[Connection]:
        """A transaction that shows what its writes would lead to and is always rolled back: nothing of it stays."""
        with self._checkout() as connection, connection.transaction(force_rollback=True):
            self._set_clock(connection)
            yield connection

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection outside any transaction."""
        with self._checkout() as connection:
            yield connection

    def listen(self) -> psycopg.Connection[Any]:
        """A connection of its own that hears the doorbell."""
        connection = psycopg.connect(self._conninfo, autocommit=True)
        connection.execute(f"LISTEN {CHANNEL}")
        return connection

    def ring(self, *bells: str) -> None:
        """Tell other processes that there is something to do. A doorbell: losing it costs latency only."""
        if self.herald is not None:
            self.herald(*bells)
        try:
            with self._checkout() as connection:
                connection.execute("SELECT pg_notify(%s, bell) FROM unnest(%s::text[]) AS bell", [CHANNEL, list(bells)])
        except (psycopg.Error, DatabaseError) as error:
            log.debug("doorbell_failed", error=str(error))

    @contextmanager
    def _checkout(self) -> Iterator[Connection]:
        try:
            with self._pool.connection() as connection:
                yield connection
        except PoolTimeout as error:
            raise DatabaseError(f"no connection to the database {masked(self.url)} within 10 s") from error

    def _set_clock(self, connection: Connection) -> None:
        if self.clock is not None:
            connection.execute("SELECT set_config('freshline.now', %s, true)", [self.clock().isoformat()])


def _conninfo(url: str, name: str) -> str:
    options = " ".join(f"-c {key}={value}" for key, value in SESSION.items())
    return make_conninfo(url, application_name=name, options=options, **KEEPALIVE)


def masked(url: str) -> str:
    """The database's address without its password."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        return "(unreadable URL)"
    where = parts.get("host", "localhost")
    return f"{parts.get('dbname', '')} on {where}" + (f":{parts['port']}" if "port" in parts else "")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
