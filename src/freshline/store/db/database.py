"""Connections and named transactions. The name is also the failpoint, the counter and the log event."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeAlias

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from freshline.counters import count
from freshline.errors import DatabaseError
from freshline.failpoints import hit
from freshline.lazy_logger import LazyLogger
from freshline.store.db.pool import Connection, LostConnectionError, Outage, Pool, UnreachableError

__all__ = ["Connection", "Database", "LostConnectionError", "Row", "UnreachableError", "masked"]
log = LazyLogger("freshline.store")

# A row as psycopg returns it. Only the module that runs a query reads its columns; others get a typed record.
Row: TypeAlias = Mapping[str, Any]

# The server ends the transactions of a stopped process, so that it does not hold locks (docs/semantics.md#R11.3).
SESSION = {
    "statement_timeout": "60s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "5s",
    "timezone": "UTC",
    # Queues fill and empty between two rounds of autovacuum, so statistics are often wrong. Plans must not depend on
    # them: one plan per statement, whatever its values, and never a sequential scan (docs/adr/0011).
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "jit": "off",
}
# A dead server must not block a process for longer than this.
KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
    "connect_timeout": 10,
}
POOL_TIMEOUT_S = 10.0
CHANNEL = "freshline"
# A notification may get lost, so its commit need not wait for the disk.
NOTIFY = "SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, topic) FROM unnest(%s::text[]) AS topic"
WHOLE = {"enable_seqscan": "on"}
UNHURRIED = {"idle_in_transaction_session_timeout": "60s"}
# Settings and BEGIN share one round trip.
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL enable_seqscan = on"
UNHURRIED_SNAPSHOT = SNAPSHOT + "; SET LOCAL idle_in_transaction_session_timeout = '60s'"
LOCAL = "SELECT set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) AS given (name, value)"


class Database:
    """Connections to one PostgreSQL database. With `clock`, for tests, transactions see its time.

    `keeps_sessions` is False behind a pooler that gives each transaction another session (pgbouncer in transaction
    mode). Then settings go with every transaction, nothing is prepared, and LISTEN does not work.
    """

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
        self.revive = revive  # restarts an embedded server that died
        self.also_notify: Callable[..., None] | None = None  # a second channel; it must not block
        self.keeps_sessions = True
        self.outage = Outage()
        self._name = name
        self._pool = Pool(self._connect, size=size, timeout_s=POOL_TIMEOUT_S)

    def open(self) -> None:
        """Check that the database can be reached; raise a `DatabaseError` that says why not."""
        try:
            self.keeps_sessions = self._probe()
        except psycopg.Error as error:
            raise DatabaseError(
                f"cannot reach the database {masked(self.url)}: {_first_line(error)}",
                hint="is it running, and is FRESHLINE_DATABASE_URL right?",
            ) from error

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    @contextmanager
    def transaction(self, name: str, *, whole: bool = False, unhurried: bool = False) -> Iterator[Connection]:
        """Run the block in one transaction: commit at its end, roll back if it raises.

        `whole` allows sequential scans. `unhurried` allows long waits for files; such a transaction must not hold
        locks that others need.
        """
        started = time.monotonic()
        committing = False
        with self._checkout() as connection:
            try:
                with connection.transaction():
                    self._begin(connection, (WHOLE if whole else {}) | (UNHURRIED if unhurried else {}))
                    yield connection
                    hit(f"{name}:before", connection)
                    committing = True
                hit(f"{name}:after", connection)
            except psycopg.Error as error:
                if committing and connection.closed:
                    raise self._unknown(name, error) from error
                raise
        count("transactions", transaction=name)
        log.debug(name, ms=round((time.monotonic() - started) * 1000, 1))

    @contextmanager
    def reading(self, *, unhurried: bool = False) -> Iterator[Connection]:
        """Run the block in a read-only transaction on one snapshot of the database.

        `unhurried` allows long idle times, for readers that turn many rows into Python. They hold no row locks.
        """
        with self._checkout() as connection:
            connection.execute(UNHURRIED_SNAPSHOT if unhurried else SNAPSHOT)
            try:
                own = WHOLE | (UNHURRIED if unhurried else {})
                self._begin(connection, {} if self.keeps_sessions else own)
                yield connection
            except BaseException:
                _abandon(connection)
                raise
            connection.commit()  # a rollback would make the driver forget its prepared statements

    @contextmanager
    def rehearsing(self) -> Iterator[Connection]:
        """Run the block in a transaction that is always rolled back."""
        with self._checkout() as connection, connection.transaction(force_rollback=True):
            self._begin(connection, WHOLE)
            yield connection

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Yield a connection for single statements, which do not share a snapshot."""
        with self._checkout() as connection:
            if self.keeps_sessions:
                yield connection
            else:
                with connection.transaction():
                    self._begin(connection, {})
                    yield connection

    def listen(self) -> psycopg.Connection[Any]:
        """Return a separate connection that receives notifications."""
        connection = psycopg.connect(self._conninfo(session=True), autocommit=True)
        connection.execute(f"LISTEN {CHANNEL}")
        return connection

    def notify(self, *topics: str) -> None:
        """Notify other processes that there is work. A lost notification costs latency only: everything is polled."""
        if self.also_notify is not None:
            self.also_notify(*topics)
        try:
            with self._checkout() as connection:
                connection.execute(NOTIFY, [CHANNEL, list(topics)])
        except (psycopg.Error, DatabaseError) as error:
            log.debug("notification_failed", error=str(error))

    @contextmanager
    def _checkout(self) -> Iterator[Connection]:
        with self._pool.connection() as connection:
            try:
                yield connection
            except LostConnectionError:
                raise
            except psycopg.Error as error:
                # The session is gone, whatever the class of the error: an idle timeout is an InternalError.
                if not connection.closed:
                    raise
                self.outage.notice(error)
                text = f"the connection to the database {masked(self.url)} was lost: {_first_line(error)}"
                raise LostConnectionError(text) from error

    def _unknown(self, name: str, error: psycopg.Error) -> LostConnectionError:
        self.outage.notice(error)
        text = (
            f"the connection to the database {masked(self.url)} was lost before it answered to the commit of '{name}':"
            f" {_first_line(error)}; the commit may have happened, so check before you repeat it"
        )
        return LostConnectionError(text, unknown=True)

    def _connect(self) -> Connection:
        try:
            connection: Connection = psycopg.connect(
                self._conninfo(session=self.keeps_sessions),
                autocommit=True,
                row_factory=dict_row,
                prepare_threshold=5 if self.keeps_sessions else None,
            )
        except psycopg.Error as error:
            self.outage.notice(error)
            raise UnreachableError(f"cannot reach the database {masked(self.url)}: {_first_line(error)}") from error
        self.outage.end()
        return connection

    def _probe(self) -> bool:
        """Return whether session settings hold. Poolers refuse them, or ignore them if configured so."""
        try:
            with psycopg.connect(self._conninfo(session=True), autocommit=True) as connection:
                row = connection.execute("SELECT current_setting('lock_timeout')").fetchone()
                return row is not None and row[0] == SESSION["lock_timeout"]
        except psycopg.OperationalError as error:
            if "startup parameter" not in str(error):
                raise
        psycopg.connect(self._conninfo(session=False)).close()
        return False

    def _conninfo(self, *, session: bool) -> str:
        options = " ".join(f"-c {key}={value}" for key, value in SESSION.items())
        more = {"options": options} if session else {}
        return make_conninfo(self.url, application_name=self._name, **more, **KEEPALIVE)

    def _begin(self, connection: Connection, own: Mapping[str, str]) -> None:
        """Set what the session does not provide, and what this transaction needs."""
        settings = {**({} if self.keeps_sessions else SESSION), **own}
        if self.clock is not None:
            settings["freshline.now"] = self.clock().isoformat()
        if settings:
            connection.execute(LOCAL, [list(settings), list(settings.values())])


def _abandon(connection: Connection) -> None:
    """Roll back. Close a connection whose statement was interrupted, by Ctrl-C: a rollback would fail and hide that."""
    if connection.info.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
        connection.close()
    elif not connection.closed:
        connection.rollback()


def masked(url: str) -> str:
    """Return the database's address without its password."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        return "(unreadable URL)"
    where = parts.get("host", "localhost")
    return f"{parts.get('dbname', '')} on {where}" + (f":{parts['port']}" if "port" in parts else "")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
