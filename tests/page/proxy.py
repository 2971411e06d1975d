"""A reverse proxy that serves a site under a path prefix, and a site of somebody else with a page of its own."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

PIECE = 65_536
OWN = {"connection", "keep-alive", "transfer-encoding", "content-length"}  # of one connection, not of the message


@contextmanager
def under_prefix(url: str, prefix: str) -> Iterator[str]:
    """Serve what is at `url` below `/prefix`, streams too; yield the new address."""
    target = urlsplit(url).netloc

    class Handler(_Quiet):
        def forward(self) -> None:
            if not self.path.startswith(f"/{prefix}/"):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            connection = http.client.HTTPConnection(target, timeout=60)
            connection.request(self.command, self.path.removeprefix(f"/{prefix}"), body, dict(self.headers))
            with suppress(OSError):
                self._answer(connection.getresponse())
            connection.close()

        def _answer(self, answer: http.client.HTTPResponse) -> None:
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in OWN:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while piece := answer.read1(PIECE):
                self.wfile.write(piece)
                self.wfile.flush()

        do_GET = do_POST = do_DELETE = forward  # noqa: N815 - as the server calls them

    with _serving(Handler) as port:
        yield f"http://127.0.0.1:{port}/{prefix}"


@contextmanager
def other_site() -> Iterator[int]:
    """Serve an empty page; yield its port. It can be reached as 127.0.0.1 and as localhost."""

    class Handler(_Quiet):
        def do_GET(self) -> None:
            content = b"<!doctype html><title>Other</title>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with _serving(Handler) as port:
        yield port


class _Quiet(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()
