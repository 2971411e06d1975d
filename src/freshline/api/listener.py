"""Accepts connections. When descriptors run out, it frees one and waits, instead of trying again at once.

The loop of asyncio logs a traceback for each attempt, and tries as often as the backlog is long.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any

import structlog
import uvicorn

from freshline.api.connections import Connection, ConnectionGate

log = structlog.get_logger("freshline.api")
BURST = 5  # accepted at once; a few turns of the loop pass before those that they replace are closed
PAUSE_S = 0.05
FREED = 4 * BURST  # connections that make room when descriptors run out: for new ones, and for the database
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Listener:
    """Accepts the connections of one socket."""

    def __init__(self, listening: socket.socket, gate: ConnectionGate, protocol: Callable[[], Connection]) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = listening
        self._gate = gate
        self._protocol = protocol
        self._tasks: set[asyncio.Task[Any]] = set()
        self._pause: asyncio.TimerHandle | None = None
        listening.settimeout(0)
        self._resume()

    def close(self) -> None:
        """Stop accepting."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._socket)

    async def wait_closed(self) -> None:
        """Return when no connection is being made."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        for _ in range(BURST):
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._back_off(error)
                return
            accepted.settimeout(0)
            task = self._loop.create_task(self._begin(accepted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _begin(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, accepted)
        except OSError:  # the client is gone
            accepted.close()

    def _back_off(self, error: OSError) -> None:
        """Close some idle connections, and try again after a moment: the socket stays readable until then."""
        self._gate.note("descriptors", error=errno.errorcode.get(error.errno or 0, "OSError"))
        if error.errno in EXHAUSTED:
            for _ in range(FREED):
                self._gate.shed("full")
        self._loop.remove_reader(self._socket)
        self._pause = self._loop.call_later(PAUSE_S, self._resume)


class HttpServer(uvicorn.Server):
    """The server of uvicorn with its own way to accept and to limit connections."""

    def __init__(self, config: uvicorn.Config, gate: ConnectionGate) -> None:
        super().__init__(config)
        self._gate = gate

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on the sockets."""
        asyncio.get_running_loop().set_exception_handler(_log_once)
        listeners = [Listener(one, self._gate, self._connection) for one in sockets or ()]
        self.servers = listeners  # type: ignore[assignment]  # it needs only close() and wait_closed()
        self.started = True

    def _connection(self) -> Connection:
        return Connection(self._gate, self.config, self.server_state, {})


def _log_once(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error of the event loop in one line."""
    error = context.get("exception")
    log.error(
        "event_loop", message=str(context.get("message", ""))[:200], error=type(error).__name__ if error else None
    )
