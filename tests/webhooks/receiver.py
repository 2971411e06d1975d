"""A real receiver of webhooks on its own port. It records deliveries, and fails on request."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from freshline.webhooks.signature import new_secret, read_secret

Answer = int | Callable[[BaseHTTPRequestHandler, dict[str, Any]], int | None]


class Received:
    """One request."""

    def __init__(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.path = path
        self.headers = headers
        self.body = body

    @property
    def event(self) -> dict[str, Any]:
        """The body as JSON."""
        found: dict[str, Any] = json.loads(self.body)
        return found


class Receiver:
    """`answer`: the status for everything, or a function of the event; `received` has all that it answered 2xx to."""

    def __init__(self, certificate: Path | None = None) -> None:
        self.secret = new_secret()
        self.answer: Answer = 204
        self.asked: list[Received] = []
        self.received: list[Received] = []
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.take(self)

            def log_message(self, *_: Any) -> None:
                """Nothing on stderr."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}/hook"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def take(self, handler: BaseHTTPRequestHandler) -> None:
        """One request: verified, noted, answered."""
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        one = Received(handler.path, headers, body)
        with self._lock:
            self.asked.append(one)
            answer = self.answer
        status = answer if isinstance(answer, int) else answer(handler, one.event)
        if status is None:
            return
        with self._lock:
            if status < 300:
                self.received.append(one)
        handler.send_response(status)
        if 300 <= status < 400:
            handler.send_header("Location", self.url)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    @property
    def ids(self) -> list[str]:
        """The ids of accepted deliveries, repetitions included."""
        return [one.headers["webhook-id"] for one in self.received]

    def close(self) -> None:
        """Nobody listens any more."""
        self._server.shutdown()
        self._server.server_close()


def verify(secret: str, one: Received) -> bool:
    """Verify a delivery, as the Standard Webhooks specification says and independently of our code."""
    signed = b".".join([one.headers["webhook-id"].encode(), one.headers["webhook-timestamp"].encode(), one.body])
    key = base64.b64decode(secret.removeprefix("whsec_"))
    wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return any(
        hmac.compare_digest(wanted, given.removeprefix("v1,")) for given in one.headers["webhook-signature"].split()
    )


def secret_bytes(receiver: Receiver) -> bytes:
    """Return the secret as the store keeps it."""
    return read_secret(receiver.secret)
