"""Connections and transactions. A transaction has a name: its failpoint, its counter and its log event."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from freshline.counters import count
from freshline.errors import DatabaseError
from freshline.failpoints import hit
from freshline.lazy_logger import LazyLogger
from freshline.store.db.pool import Connection, LostConnectionError, Outage, Pool, UnreachableError

__all__ = ["Connection", "Database", "LostConnectionError", "UnreachableError", "masked"]
log = LazyLogger("freshline.store")

# A dead peer must not hold locks (R11.3): the server ends what a stopped process has begun.
SESSION = {
    "statement_timeout": "60s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "5s",
    "timezone": "UTC",
    # Queues go from empty to full between two rounds of autovacuum, so statistics lie. Plans must not depend on them:
    # one plan for a statement, whatever its values, and never by reading a table from end to end (ADR 0011).
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "jit": "off",
}
# And a dead server must not hold up a process for longer than this, whether it waits for an answer or for a connection.
KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
    "connect_timeout": 10,
}
PATIENCE_S = 10.0
CHANNEL = "freshline"
# A notification is a commit of its own, for which nobody should wait until it is on the disk: it may get lost.
RING = "SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, bell) FROM unnest(%s::text[]) AS bell"
WHOLE = {"enable_seqscan": "on"}
UNHURRIED = {"idle_in_transaction_session_timeout": "60s"}
# The settings go with the beginning, in one round trip.
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL enable_seqscan = on"
UNHURRIED_SNAPSHOT = SNAPSHOT + "; SET LOCAL idle_in_transaction_session_timeout = '60s'"
LOCAL = "SELECT set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) AS given (name, value)"


class Database:
    """Connections to one PostgreSQL database. `clock` is for tests: transactions then see its time.

    `keeps_sessions` is False behind a pooler that gives each transaction another session (pgbouncer in transaction
    mode): settings then go with every transaction, nothing is prepared, and LISTEN would hear nothing.
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
        self.revive = revive  # starts an embedded server again that died
        self.also_notify: Callable[..., None] | None = None  # another way to ring, which must return at once
        self.keeps_sessions = True
        self.outage = Outage()
        self._name = name
        self._pool = Pool(self._connect, size=size, patience_s=PATIENCE_S)

    def open(self) -> None:
        """Connect, or say in one sentence why not."""
        try:
            self.keeps_sessions = self._probe()
        except psycopg.Error as error:
            raise DatabaseError(
                f"cannot reach the database {masked(self.url)}: {_first_line(error)}",
                hint="is it running, and is FRESHLINE_DATABASE_URL right?",
            ) from error

    def close(self) -> None:
        """Give all connections back."""
        self._pool.close()

    @contextmanager
    def transaction(self, name: str, *, whole: bool = False, unhurried: bool = False) -> Iterator[Connection]:
        """One transaction: committed when the block ends, rolled back when it raises.

        `whole`: it reads whole tables, which the others must not. `unhurried`: it waits for files, for longer than the
        others may; it locks nothing that these need.
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
        """A read-only transaction that sees one snapshot of the database.

        `unhurried`: it turns so many rows into Python that it idles for longer than writers may; it holds no row locks.
        """
        with self._checkout() as connection:
            connection.execute(UNHURRIED_SNAPSHOT if unhurried else SNAPSHOT)
            try:
                own = WHOLE | (UNHURRIED if unhurried else {})
                self._begin(connection, {} if self.keeps_sessions else own)
                yield connection
            except BaseException:
                if not connection.closed:
                    connection.rollback()
                raise
            connection.commit()  # there is nothing to keep, but a rollback makes the driver forget what it prepared

    @contextmanager
    def rehearsing(self) -> Iterator[Connection]:
        """A transaction that shows what its writes would lead to and is always rolled back: nothing of it stays."""
        with self._checkout() as connection, connection.transaction(force_rollback=True):
            self._begin(connection, WHOLE)
            yield connection

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection for single statements, which see no common snapshot."""
        with self._checkout() as connection:
            if self.keeps_sessions:
                yield connection
            else:
                with connection.transaction():
                    self._begin(connection, {})
                    yield connection

    def listen(self) -> psycopg.Connection[Any]:
        """A connection of its own that hears the doorbell."""
        connection = psycopg.connect(self._conninfo(session=True), autocommit=True)
        connection.execute(f"LISTEN {CHANNEL}")
        return connection

    def ring(self, *bells: str) -> None:
        """Tell other processes that there is something to do. A doorbell: losing it costs latency only."""
        if self.also_notify is not None:
            self.also_notify(*bells)
        try:
            with self._checkout() as connection:
                connection.execute(RING, [CHANNEL, list(bells)])
        except (psycopg.Error, DatabaseError) as error:
            log.debug("doorbell_failed", error=str(error))

    @contextmanager
    def _checkout(self) -> Iterator[Connection]:
        with self._pool.connection() as connection:
            try:
                yield connection
            except LostConnectionError:
                raise
            except psycopg.Error as error:
                # Whatever it is called (an end for idleness is an InternalError): the session is gone.
                if not connection.closed:
                    raise
                self.outage.notice(error)
                text = f"the connection to the database {masked(self.url)} was lost: {_first_line(error)}"
                raise LostConnectionError(text) from error

    def _unknown(self, name: str, error: psycopg.Error) -> LostConnectionError:
        self.outage.notice(error)
        text = (
            f"the connection to the database {masked(self.url)} was lost before it answered to the commit of '{name}':"
            f" {_first_line(error)}; it may have happened, so look before you repeat it"
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
        """Whether the settings of a session hold. Poolers refuse them, or ignore them if they are told to."""
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
        """What a transaction cannot take from its session, and what is its own."""
        settings = {**({} if self.keeps_sessions else SESSION), **own}
        if self.clock is not None:
            settings["freshline.now"] = self.clock().isoformat()
        if settings:
            connection.execute(LOCAL, [list(settings), list(settings.values())])


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
