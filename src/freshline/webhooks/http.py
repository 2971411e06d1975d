"""HTTP POST to untrusted receivers: checked addresses only, a limit on the total time, no redirects.

Only the status of a reply is used, so that nothing a receiver sends appears in a log or an error.
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

MAX_REPLY_BYTES = 64 * 1024
SUCCESS = range(200, 300)
REDIRECTS = range(300, 400)


class PostError(FreshlineError):
    """A POST that failed. The text contains nothing that the receiver sent."""

    code = "webhook"


class InterruptedPostError(PostError):
    """A POST that this process interrupted; whether it arrived is unknown."""


class Post:
    """Sends requests to one URL, one at a time. Another thread may interrupt it."""

    def __init__(self, url: str, *, allowed: Sequence[Network], timeout_s: float) -> None:
        self._url = url
        self._allowed = allowed
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._late = False
        self._interrupted = False

    def send(self, body: bytes, headers: Mapping[str, str]) -> int:
        """Send a request and return the status of success. Raise `PostError` or `AddressError` otherwise."""
        self._late = False
        target = resolve(self._url, self._allowed)
        try:
            with self._limited():
                status = self._exchange(target, body, headers)
                if self._late or self._interrupted:
                    raise TimeoutError  # a connection that was shut down looks like the end of the headers
        except (OSError, http.client.HTTPException) as error:
            raise self._post_error(error) from None
        if status not in SUCCESS:
            more = ", and redirects are not followed" if status in REDIRECTS else ""
            raise PostError(f"the receiver answered {status}{more}")
        return status

    def interrupt(self) -> None:
        """Make a waiting `send`, and all later ones, raise `InterruptedPostError` at once."""
        self._interrupted = True
        self._shut_down()

    def _exchange(self, target: Target, body: bytes, headers: Mapping[str, str]) -> int:
        kind = http.client.HTTPSConnection if target.secure else http.client.HTTPConnection
        connection = kind(target.host, target.port)
        try:
            # With a given socket, http.client does not resolve the name again: the checked address is the one in use.
            connection.sock = self._connect(target)
            sent = {"User-Agent": f"freshline/{__version__}", "Connection": "close", **headers}
            connection.request("POST", target.path, body, sent)
            reply = connection.getresponse()
            reply.read(MAX_REPLY_BYTES)
            return reply.status
        finally:
            connection.close()

    def _connect(self, target: Target) -> socket.socket:
        ends = time.monotonic() + self._timeout_s
        for number, address in enumerate(target.addresses, 1):
            left = max(ends - time.monotonic(), 0.001)
            try:
                connected = self._hold(socket.create_connection((address, target.port), timeout=left))
            except OSError:
                if number == len(target.addresses):
                    raise
                continue
            return _context().wrap_socket(connected, server_hostname=target.host) if target.secure else connected
        raise OSError("the name has no address")

    def _hold(self, connected: socket.socket) -> socket.socket:
        with self._lock:
            # A duplicate descriptor: it can be shut down even if http.client has closed the original.
            self._socket = connected.dup()
            given_up = self._interrupted or self._late
        if given_up:
            self._shut_down()
        return connected

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Limit the total time of the block, also if the receiver keeps sending single bytes."""
        timer = threading.Timer(self._timeout_s, self._expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._lock:
                duplicate, self._socket = self._socket, None
            if duplicate is not None:
                duplicate.close()

    def _expire(self) -> None:
        self._late = True
        self._shut_down()

    def _shut_down(self) -> None:
        with self._lock:
            if self._socket is not None:
                try:
                    self._socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    return  # the receiver has closed it

    def _post_error(self, error: Exception) -> PostError:
        if self._interrupted:
            return InterruptedPostError("the delivery was interrupted")
        if self._late or isinstance(error, TimeoutError):
            return PostError(f"there was no answer within {self._timeout_s:g} s")
        if isinstance(error, ssl.SSLCertVerificationError):
            return PostError(f"the receiver's certificate is not valid: {error.verify_message}")
        if isinstance(error, ssl.SSLError):
            return PostError(f"TLS failed: {error.reason or 'unknown'}")
        if isinstance(error, http.client.HTTPException):
            return PostError("the receiver's answer is not HTTP")
        return PostError(f"the receiver cannot be reached: {getattr(error, 'strerror', None) or type(error).__name__}")


@cache
def _context() -> ssl.SSLContext:
    return ssl.create_default_context()
