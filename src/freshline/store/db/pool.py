"""Connections that outlive a transaction, and what happens when they do not.

Whoever wants a connection and finds none idle connects by itself and hears at once if that fails; nothing is retried
behind its back. Services come back at their next poll, so an outage ends for them within a poll of the server's return.
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
    """No connection could be made. `Outage` has told it."""


class LostConnectionError(DatabaseError, psycopg.OperationalError):
    """A connection ended inside a transaction. `unknown`: after COMMIT was sent, so that it may have happened.

    Otherwise nothing of it happened. `Outage` has told it.
    """

    def __init__(self, message: str, *, unknown: bool = False) -> None:
        super().__init__(message)
        self.unknown = unknown


class Outage:
    """One line when the database goes away and one when it is back, however many tries lie between."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None
        self._tries = 0

    @property
    def tries(self) -> int:
        """How often it did not answer since it went away."""
        return self._tries

    def notice(self, error: Exception) -> None:
        """The database did not answer."""
        with self._lock:
            self._tries += 1
            if self._since is not None:
                return
            self._since = time.monotonic()
        log.warning("database_away", error=str(error).strip())

    def end(self) -> None:
        """It answers."""
        with self._lock:
            since, self._since = self._since, None
            tries, self._tries = self._tries, 0
        if since is not None:
            log.warning("database_back", after_s=round(time.monotonic() - since, 1), tries=tries)


class Pool:
    """At most `size` connections at once; who finds all of them taken waits for `patience_s`."""

    def __init__(self, connect: Callable[[], Connection], *, size: int, patience_s: float) -> None:
        self._connect = connect
        self._size = size
        self._patience_s = patience_s
        self._free = threading.Semaphore(size)
        self._lock = threading.Lock()
        self._idle: deque[tuple[float, Connection]] = deque()
        self._closed = False

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection that works, for as long as the block lasts."""
        if not self._free.acquire(timeout=self._patience_s):
            raise DatabaseError(
                f"all {self._size} connections to the database were taken for {self._patience_s:g} s",
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
        """End what is idle now, and the rest when it is given back."""
        with self._lock:
            self._closed = True
            idle = [connection for _, connection in self._idle]
            self._idle.clear()
        for connection in idle:
            connection.close()

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
        # One that was left inside a transaction is not used again, whatever the reason.
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
    """Whether a session that was idle is still there. Costs no round trip: the server only speaks to end it."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if not poll.poll(0):
        return True
    try:
        connection.execute("SELECT 1")
    except psycopg.Error:
        return False
    return True
