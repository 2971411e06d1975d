"""One HTTP POST to a place that may mean harm: to checked addresses only, within a time, without following redirects.

What the other side answers is read for its status and for nothing else, so it cannot show up anywhere.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

from freshline import __version__
from freshline.errors import FreshlineError
from freshline.settings import Network
from freshline.webhooks.egress_policy import Target, resolve

MOST_BYTES = 64 * 1024
SUCCESS = range(200, 300)
REDIRECTS = range(300, 400)


class PostError(FreshlineError):
    """A POST that nobody took, in one sentence without anything that the other side said."""

    code = "webhook"


class InterruptedPostError(PostError):
    """It was given up by ourselves: nothing is known about it."""


class Post:
    """Sends one thing at a time to one place. Another thread may interrupt it."""

    def __init__(self, url: str, *, allowed: Sequence[Network], timeout_s: float) -> None:
        self._url = url
        self._allowed = allowed
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._line: socket.socket | None = None
        self._late = False
        self._interrupted = False

    def send(self, body: bytes, headers: Mapping[str, str]) -> int:
        """The status, which is a success; everything else is a `PostError` or an `AddressError`."""
        self._late = False
        target = resolve(self._url, self._allowed)
        try:
            with self._limited():
                status = self._exchange(target, body, headers)
                if self._late or self._interrupted:
                    raise TimeoutError  # a line that was cut looks like the end of the headers
        except (OSError, http.client.HTTPException) as error:
            raise self._told(error) from None
        if status not in SUCCESS:
            more = ", and redirects are not followed" if status in REDIRECTS else ""
            raise PostError(f"the receiver answered {status}{more}")
        return status

    def interrupt(self) -> None:
        """Whoever waits for an answer is told at once that there will be none; later sends too."""
        self._interrupted = True
        self._cut()

    def _exchange(self, target: Target, body: bytes, headers: Mapping[str, str]) -> int:
        kind = http.client.HTTPSConnection if target.secure else http.client.HTTPConnection
        connection = kind(target.host, target.port)
        try:
            # With a socket of ours it asks for no name again: who was checked is who is connected to.
            connection.sock = self._connect(target)
            sent = {"User-Agent": f"freshline/{__version__}", "Connection": "close", **headers}
            connection.request("POST", target.path, body, sent)
            answer = connection.getresponse()
            answer.read(MOST_BYTES)
            return answer.status
        finally:
            connection.close()

    def _connect(self, target: Target) -> socket.socket:
        ends = time.monotonic() + self._timeout_s
        for number, address in enumerate(target.addresses, 1):
            left = max(ends - time.monotonic(), 0.001)
            try:
                line = self._hold(socket.create_connection((address, target.port), timeout=left))
            except OSError:
                if number == len(target.addresses):
                    raise
                continue
            return _context().wrap_socket(line, server_hostname=target.host) if target.secure else line
        raise OSError("the name has no address")

    def _hold(self, line: socket.socket) -> socket.socket:
        with self._lock:
            # The same connection under a number of its own: it can be cut whoever has closed the other one.
            self._line = line.dup()
            gone = self._interrupted or self._late
        if gone:
            self._cut()
        return line

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """The whole of it takes no longer than the limit, also if the other side sends a byte now and then."""
        timer = threading.Timer(self._timeout_s, self._expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._lock:
                line, self._line = self._line, None
            if line is not None:
                line.close()

    def _expire(self) -> None:
        self._late = True
        self._cut()

    def _cut(self) -> None:
        with self._lock:
            if self._line is not None:
                try:
                    self._line.shutdown(socket.SHUT_RDWR)
                except OSError:
                    return  # it has ended by itself

    def _told(self, error: Exception) -> PostError:
        if self._interrupted:
            return InterruptedPostError("the delivery was interrupted")
        if self._late or isinstance(error, TimeoutError):
            return PostError(f"there was no answer within {self._timeout_s:g} s")
        if isinstance(error, ssl.SSLCertVerificationError):
            return PostError(f"the receiver's certificate is not valid: {error.verify_message}")
        if isinstance(error, ssl.SSLError):
            return PostError(f"TLS failed: {error.reason or 'unknown'}")
        if isinstance(error, http.client.HTTPException):
            return PostError("the receiver's answer is no HTTP")
        return PostError(f"the receiver cannot be reached: {getattr(error, 'strerror', None) or type(error).__name__}")


@cache
def _context() -> ssl.SSLContext:
    return ssl.create_default_context()
