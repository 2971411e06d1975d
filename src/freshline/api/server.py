"""The process that serves the API: binds first, so that a wrong address is told at once, and ends cleanly."""

from __future__ import annotations

import socket
import threading

import uvicorn

from freshline.api.app import create_app
from freshline.api.auth import is_loopback
from freshline.api.stream import Streams
from freshline.errors import UsageError
from freshline.services.heartbeat import Heartbeat
from freshline.store.store import Store

KEEP_ALIVE_S = 30
GRACE_S = 5
MOST_CONNECTIONS = 500
BACKLOG = 128


class Server:
    """Serves the API of a store in a thread. `port` 0 takes a free one; `address` tells which."""

    def __init__(self, store: Store, *, host: str, port: int, auth: str = "loopback") -> None:
        local = is_loopback(host)
        if not local:
            _require_token(store, host)
        self._socket = _bind(host, port)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        self.heartbeat = Heartbeat(store, "api", info=lambda: {"address": self.url})
        self._streams = Streams(store.reader, poll_s=store.settings.poll_ms / 1000)
        app = create_app(store, anonymous=local and auth == "loopback", streams=self._streams)
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,  # the gate notes requests, without their queries
            server_header=False,
            proxy_headers=False,  # nobody is believed about where a request comes from
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        host, port = self.address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def start(self) -> None:
        """Begin to serve; returns at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="api", daemon=True)
            self._thread.start()
            self.heartbeat.start()

    def stop(self) -> None:
        """End when the requests that are under way have ended, or after a grace period."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._streams.stopping.set()
            self._server.should_exit = True
            thread.join()
            self.heartbeat.stop()
        self._socket.close()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])


def _require_token(store: Store, host: str) -> None:
    if not any(one["active"] for one in store.reader.tokens()):
        raise UsageError(
            f"the API would listen on {host}, where others can reach it, and there is no token that keeps them out",
            hint="make one with `freshline token create NAME`, or listen on 127.0.0.1",
        )


def _bind(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "choose another with --host and --port, or FRESHLINE_API_HOST and FRESHLINE_API_PORT"
        raise UsageError(f"the API cannot listen on {host} port {port}: {reason}", hint=hint) from None
    # Those that it accepts inherit this. Headers and body are two packets: without it the second one waits 40 ms for
    # the client's system to acknowledge the first. asyncio sees to it only for sockets that it has made itself.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made
