"""The HTTP server of the API. It binds when it is created, so that an invalid address is reported immediately."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import uvicorn

from freshline.api.app import create_app
from freshline.api.bundle import PAGE_FILES
from freshline.api.connections import ConnectionGate, most_connections
from freshline.api.listener import HttpServer
from freshline.api.origins import is_loopback
from freshline.api.stream import Streams
from freshline.errors import UsageError
from freshline.services.heartbeat import Heartbeat
from freshline.store.store import Store

KEEP_ALIVE_S = 30
GRACE_S = 5
BACKLOG = 512


class Server:
    """Serves the API of a store in a thread. `port` 0 selects a free port; see `address`.

    `page_files`: the directory of the page's bundle.
    """

    def __init__(
        self, store: Store, *, host: str, port: int, auth: str = "loopback", page_files: Path = PAGE_FILES
    ) -> None:
        local = is_loopback(host)
        if not local:
            _require_token(store, host)
        self._socket = _bind(host, port)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        self.heartbeat = Heartbeat(store, "api", info=lambda: {"address": self.url})
        settings = store.settings
        self._streams = Streams(store.reader, poll_s=settings.poll_ms / 1000, per_token=settings.api_streams_per_token)
        anonymous = local and auth == "loopback"
        app = create_app(store, anonymous=anonymous, streams=self._streams, page_files=page_files)
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            log_level="error",
            ws="none",
            access_log=False,  # the middleware logs requests, without their queries
            server_header=False,
            proxy_headers=False,  # forwarded addresses are not trusted
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
        self._server = HttpServer(config, ConnectionGate(most_connections(settings.api_connections)))
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Return the base URL."""
        host, port = self.address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def start(self) -> None:
        """Start serving; return immediately."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="api", daemon=True)
            self._thread.start()
            self.heartbeat.start()

    def stop(self) -> None:
        """Stop after the active requests have ended, or after a grace period."""
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
            f"the API would listen on {host}, which other machines can reach, but no token exists",
            hint="create one with `freshline token create NAME`, or listen on 127.0.0.1",
        )


def _bind(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "choose another with --host and --port, or FRESHLINE_API_HOST and FRESHLINE_API_PORT"
        raise UsageError(f"the API cannot listen on {host} port {port}: {reason}", hint=hint) from None
    # Accepted connections inherit this. Headers and body are two packets: without it the second one waits 40 ms for
    # the client's acknowledgement of the first. asyncio sets it only for sockets that it has created.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made
