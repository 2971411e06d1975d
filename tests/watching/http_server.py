"""A real HTTP server for one file, whose headers and answers a test sets."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FileServer:
    """`body`, `headers`, `status`: the answer. It answers 304 to a request that names the current ETag or time."""

    def __init__(self) -> None:
        self.body = b"one"
        self.status = 200
        self.headers: dict[str, str] = {}
        self.cut = 0  # bytes of the body that are promised and not sent
        self.asked: list[dict[str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, *_: Any) -> None:
                """Nothing on stderr."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}/data.json"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        asked = dict(handler.headers.items())
        self.asked.append(asked)
        same = (
            (asked.get("If-None-Match"), self.headers.get("ETag")),
            (
                asked.get("If-Modified-Since"),
                self.headers.get("Last-Modified"),
            ),
        )
        unchanged = any(given is not None and given == current for given, current in same)
        handler.send_response(304 if unchanged and self.status == 200 else self.status)
        for name, value in self.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(0 if unchanged else len(self.body)))
        handler.end_headers()
        if not unchanged:
            handler.wfile.write(self.body[: len(self.body) - self.cut])

    def close(self) -> None:
        """Nobody listens any more."""
        self._server.shutdown()
        self._server.server_close()
