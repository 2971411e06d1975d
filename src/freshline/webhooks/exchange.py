"""HTTP with a server that is not trusted: checked addresses only, a limit on the total time, no redirects.

Nothing that a server sends appears in an error.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import ClassVar, TypeVar

from freshline import __version__
from freshline.errors import FreshlineError
from freshline.settings import Network
from freshline.webhooks.egress_policy import WEBHOOKS, Purpose, Target, resolve

T = TypeVar("T")


class Exchange:
    """Sends requests to one URL, one at a time. Another thread may interrupt it.

    `peer`: the server, as errors call it. `failure`, `interruption`: the errors that are raised.
    """

    peer: ClassVar[str]
    purpose: ClassVar[Purpose] = WEBHOOKS
    failure: ClassVar[type[FreshlineError]]
    interruption: ClassVar[type[FreshlineError]]

    def __init__(self, url: str, *, allowed: Sequence[Network], timeout_s: float) -> None:
        self._url = url
        self._allowed = allowed
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._late = False
        self._interrupted = False

    def interrupt(self) -> None:
        """Make a waiting request, and all later ones, raise `interruption` at once."""
        self._interrupted = True
        self._shut_down()

    def _request(
        self, method: str, body: bytes | None, headers: Mapping[str, str], read: Callable[[http.client.HTTPResponse], T]
    ) -> T:
        """Send a request and return what `read` makes of the reply. Raise `failure` or `AddressError` otherwise."""
        self._late = False
        target = resolve(self._url, self._allowed, self.purpose)
        try:
            with self._limited():
                found = self._exchange(target, method, body, headers, read)
                if self._late or self._interrupted:
                    raise TimeoutError  # a connection that was shut down looks like the end of the headers
        except (OSError, http.client.HTTPException) as error:
            raise self._error(error) from None
        return found

    def _exchange(
        self,
        target: Target,
        method: str,
        body: bytes | None,
        headers: Mapping[str, str],
        read: Callable[[http.client.HTTPResponse], T],
    ) -> T:
        kind = http.client.HTTPSConnection if target.secure else http.client.HTTPConnection
        connection = kind(target.host, target.port)
        try:
            # With a given socket, http.client does not resolve the name again: the checked address is the one in use.
            connection.sock = self._connect(target)
            sent = {"User-Agent": f"freshline/{__version__}", "Connection": "close", **headers}
            connection.request(method, target.path, body, sent)
            with connection.getresponse() as reply:
                return read(reply)
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

    def _error(self, error: Exception) -> FreshlineError:
        if self._interrupted:
            return self.interruption("the request was interrupted")
        if self._late or isinstance(error, TimeoutError):
            return self.failure(f"there was no answer within {self._timeout_s:g} s")
        if isinstance(error, ssl.SSLCertVerificationError):
            return self.failure(f"{self.peer}'s certificate is not valid: {error.verify_message}")
        if isinstance(error, ssl.SSLError):
            return self.failure(f"TLS failed: {error.reason or 'unknown'}")
        if isinstance(error, http.client.HTTPException):
            return self.failure(f"{self.peer}'s answer is not HTTP")
        reason = getattr(error, "strerror", None) or type(error).__name__
        return self.failure(f"{self.peer} cannot be reached: {reason}")


@cache
def _context() -> ssl.SSLContext:
    return ssl.create_default_context()
