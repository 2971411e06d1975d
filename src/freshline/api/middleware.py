"""Middleware around every request: limits on the size and the arrival time of its body, headers, and a log line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from freshline import __version__
from freshline.api import VERSION, WARNING
from freshline.api.problems import RequestError, unexpected
from freshline.counters import count

log = structlog.get_logger("freshline.api")
MAX_BODY_BYTES = 1024 * 1024
BODY_S = 20.0
MAX_LOGGED = 500  # characters of a path
MOST_WARNINGS = 10
# Data is not a page: a browser must not guess its type, frame it or store it. Pages have a policy of their own.
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    VERSION: __version__,
}


def warn(request: Request, warnings: Iterable[str]) -> None:
    """Add warnings to the response of a request, each as a header `Freshline-Warning`."""
    found: list[str] = request.scope.setdefault("state", {}).setdefault("warnings", [])
    found += warnings


class ApiMiddleware:
    """The outermost ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent = ResponseSender(scope, send)
        try:
            await self._app(scope, await _buffered(scope, receive), sent)
        except RequestError as error:
            await error.response()(scope, receive, sent)
        except Exception as error:  # noqa: BLE001 - no other text may reach the client
            if sent.status is None:
                await unexpected(scope["path"], error)(scope, receive, sent)
        sent.log_request()


class ResponseSender:
    """Sends a response, completes its headers and remembers its status."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._started = time.monotonic()
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        """Send one message of the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            _complete(message, self._scope.get("state", {}).get("warnings", ()))
        await self._send(message)

    def log_request(self) -> None:
        """Log the request and who sent it, without its query and headers, which may contain secrets."""
        scope, status = self._scope, self.status
        if status in {401, 403}:
            count("requests_refused", status=str(status))
        log.info(
            "request",
            method=scope["method"],
            path=scope["path"][:MAX_LOGGED],
            status=status,
            ms=round((time.monotonic() - self._started) * 1000, 1),
            client=scope["client"][0] if scope.get("client") else None,
            actor=scope.get("state", {}).get("actor"),
        )


def _complete(message: Message, warnings: Iterable[str]) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    headers.setdefault("Cache-Control", "no-store")
    for one in list(warnings)[:MOST_WARNINGS]:  # a header has printable ASCII only, and no line break
        headers.append(WARNING, "".join(c if " " <= c <= "~" else "?" for c in one)[:MAX_LOGGED])


async def _buffered(scope: Scope, receive: Receive) -> Receive:
    """Read the whole body first, so that a slow client holds only a connection."""
    headers = Headers(scope=scope)
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
        raise RequestError(413, "too-large", f"the body is larger than {MAX_BODY_BYTES} bytes")
    if length == "0" and "transfer-encoding" not in headers:
        return receive
    try:
        async with asyncio.timeout(BODY_S):
            body = await _body(receive)
    except TimeoutError:
        raise RequestError(408, "too-slow", f"the body did not arrive within {BODY_S:g} s") from None
    return _replay(body, receive)


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestError(400, "incomplete", "the connection ended before the whole body had arrived")
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise RequestError(413, "too-large", f"the body is larger than {MAX_BODY_BYTES} bytes")
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting = [body]

    async def again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return again
