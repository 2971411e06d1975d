"""The connections of the HTTP server: deadlines for each, and which one is closed when there are too many.

A connection without a complete request costs its client nothing, so it must not keep others out. When the limit is
reached, the oldest of them is closed, of the address that has the most. One with a running request is never closed.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h11
import structlog
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from freshline.counters import count

log = structlog.get_logger("freshline.api")
FIRST_BYTE_S = 10.0
HEADERS_S = 10.0  # from their first byte to their last one
DRAIN_S = 30.0  # for a client that does not read its response
RESERVED_FILES = 32  # for the database, logs and modules
FEWEST = 4
LOG_EVERY_S = 60.0


class ConnectionGate:
    """Limits the number of connections. All methods are called in the thread of the event loop."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: set[Connection] = set()
        self._idle: dict[str, dict[Connection, None]] = {}  # by address, the oldest first
        self._notes: dict[str, RareNote] = {}

    def opened(self, connection: Connection) -> None:
        """Add a connection; close an idle one if there are too many. It is the new one itself if no other is idle."""
        self._open.add(connection)
        self.idle(connection)
        if len(self._open) > self.most:
            self.shed("full")

    def idle(self, connection: Connection) -> None:
        """Note that a connection has no complete request."""
        self._idle.setdefault(connection.address, {}).setdefault(connection)

    def busy(self, connection: Connection) -> None:
        """Note that a connection has a running request."""
        waiting = self._idle.get(connection.address, {})
        waiting.pop(connection, None)
        if not waiting:
            self._idle.pop(connection.address, None)

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        self._open.discard(connection)
        self.busy(connection)

    def shed(self, reason: str) -> None:
        """Close the oldest idle connection of the address that has the most."""
        if self._idle:
            most: dict[Connection, None] = max(self._idle.values(), key=len)
            victim = next(iter(most))
            self.note(reason, address=victim.address)
            victim.drop()

    def note(self, reason: str, **facts: Any) -> None:
        """Count a closed connection, and log one line a minute about each reason."""
        count("connections_closed", reason=reason)
        self._notes.setdefault(reason, RareNote(reason)).write(connections=len(self._open), **facts)


class RareNote:
    """A warning that is logged at most once a minute, with the number of those in between."""

    def __init__(self, reason: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._reason = reason
        self._clock = clock
        self._next = 0.0
        self._since = 0

    def write(self, **facts: Any) -> None:
        """Log it, or count it for the next line."""
        self._since += 1
        if self._clock() >= self._next:
            log.warning("connections_closed", reason=self._reason, count=self._since, **facts)
            self._next, self._since = self._clock() + LOG_EVERY_S, 0


class Connection(H11Protocol):
    """One connection with deadlines until its first byte, for its headers, and for reading a response."""

    def __init__(
        self, gate: ConnectionGate, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any]
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._gate = gate
        self._deadline: asyncio.TimerHandle | None = None
        self._in_headers = False

    @property
    def address(self) -> str:
        """The client's address; that of a proxy if there is one, as forwarded addresses are not trusted."""
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Begin."""
        super().connection_made(transport)
        self._limit(FIRST_BYTE_S, "no-request")
        self._gate.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._limit(None)
        self._gate.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait for the next request, or begin one that has arrived in the meantime."""
        super().on_response_complete()
        self._look(after_response=True)

    def pause_writing(self) -> None:
        """Wait for a client that does not read."""
        super().pause_writing()
        self._limit(DRAIN_S, "slow-reader")

    def resume_writing(self) -> None:
        """Go on after the client has read."""
        super().resume_writing()
        self._limit(None)

    def drop(self) -> None:
        """Close the connection now."""
        self._gate.closed(self)
        self.transport.abort()

    def _look(self, *, after_response: bool = False) -> None:
        """Note whether the client owes something: its headers or its body. The body has a deadline of its own."""
        if self.transport.is_closing():
            return
        state = self.conn.their_state
        if state is h11.IDLE or state is h11.SEND_BODY:
            self._gate.idle(self)
        else:
            self._gate.busy(self)
        if state is not h11.IDLE or after_response:
            self._in_headers = False
            self._limit(None)
        elif not self._in_headers:
            self._in_headers = True
            self._limit(HEADERS_S, "slow-headers")

    def _limit(self, seconds: float | None, reason: str = "") -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._expire, reason)

    def _expire(self, reason: str) -> None:
        self._gate.note(reason, address=self.address)
        self.drop()


def most_connections(wanted: int) -> int:
    """Return how many connections the descriptors of this process allow, at most `wanted`."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    listed = Path("/proc/self/fd")
    used = sum(1 for _ in listed.iterdir()) if listed.is_dir() else RESERVED_FILES
    return max(FEWEST, min(wanted, soft - used - RESERVED_FILES))
