"""A connection pool without a thread (docs/adr/0006).

A caller that finds no idle connection connects itself and gets the error at once; nothing is retried in the background.
Services poll, so an outage ends for them within one poll of the server's return.
"""

from __future__ import annotations

import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import psycopg
from psycopg.rows import DictRow

from freshline.errors import DatabaseError
from freshline.lazy_logger import LazyLogger

log = LazyLogger("freshline.store")

Connection: TypeAlias = psycopg.Connection[DictRow]
IDLE_S = 600.0


class UnreachableError(DatabaseError):
    """No connection could be made. `Outage` has logged it."""


class LostConnectionError(DatabaseError, psycopg.OperationalError):
    """A connection ended inside a transaction. `Outage` has logged it.

    If `unknown`, COMMIT was sent before, and its outcome is unknown. Otherwise the transaction did not happen.
    """

    def __init__(self, message: str, *, unknown: bool = False) -> None:
        super().__init__(message)
        self.unknown = unknown


class Outage:
    """Logs one line when the database becomes unreachable and one when it is back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None
        self._tries = 0

    @property
    def tries(self) -> int:
        """Count the failed tries of the current outage."""
        return self._tries

    def notice(self, error: Exception) -> None:
        """Count a failed try, and log the first."""
        with self._lock:
            self._tries += 1
            if self._since is not None:
                return
            self._since = time.monotonic()
        log.warning("database_away", error=str(error).strip())

    def end(self) -> None:
        """End the outage, and log its duration."""
        with self._lock:
            since, self._since = self._since, None
            tries, self._tries = self._tries, 0
        if since is not None:
            log.warning("database_back", after_s=round(time.monotonic() - since, 1), tries=tries)


class Pool:
    """At most `size` connections. A caller waits up to `timeout_s` for a free one."""

    def __init__(self, connect: Callable[[], Connection], *, size: int, timeout_s: float) -> None:
        self._connect = connect
        self._size = size
        self._timeout_s = timeout_s
        self._free = threading.Semaphore(size)
        self._lock = threading.Lock()
        self._idle: deque[tuple[float, Connection]] = deque()
        self._closed = False

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Yield a working connection."""
        if not self._free.acquire(timeout=self._timeout_s):
            raise DatabaseError(
                f"all {self._size} connections to the database were taken for {self._timeout_s:g} s",
                hint="is it slow, or is something locked?",
            )
        try:
            connection = self._take()
            try:
                yield connection
            finally:
                self._give(connection)
        finally:
            self._free.release()

    def close(self) -> None:
        """Close idle connections now, and the others when they are returned."""
        for connection in self.drain():
            connection.close()

    def drain(self) -> list[Connection]:
        """Lend no connection any more. Return the idle ones, which are now the caller's."""
        with self._lock:
            self._closed = True
            idle = [connection for _, connection in self._idle]
            self._idle.clear()
        return idle

    def _take(self) -> Connection:
        while (connection := self._pop()) is not None:
            if _alive(connection):
                return connection
            connection.close()
        return self._connect()

    def _pop(self) -> Connection | None:
        with self._lock:
            if self._closed:
                raise DatabaseError("the connections to the database were closed")
            return self._idle.pop()[1] if self._idle else None

    def _give(self, connection: Connection) -> None:
        now = time.monotonic()
        # A connection that was left inside a transaction is not reused.
        usable = not connection.closed and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        with self._lock:
            keep = usable and not self._closed
            if keep:
                self._idle.append((now, connection))
            old = self._idle.popleft()[1] if self._idle and self._idle[0][0] < now - IDLE_S else None
        if not keep:
            connection.close()
        if old is not None:
            old.close()


def _alive(connection: Connection) -> bool:
    """Return whether an idle session is still there, without a round trip: the server only sends to end it."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if not poll.poll(0):
        return True
    try:
        connection.execute("SELECT 1")
    except psycopg.Error:
        return False
    return True
