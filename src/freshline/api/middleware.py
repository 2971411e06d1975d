"""What every request passes: limits on the size of its body and on the time that it takes, and a line in the log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import MutableMapping
from typing import Any

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from freshline import __version__
from freshline.api import VERSION
from freshline.api.problems import Refusal, unexpected

log = structlog.get_logger("freshline.api")
MOST_BYTES = 1024 * 1024
BODY_S = 20.0
# Nothing here is a page: a browser shall neither guess, nor frame, nor keep what it is told.
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    VERSION: __version__,
}


class Gate:
    """ASGI middleware, outside of everything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent = Sent(scope, send)
        try:
            await self._app(scope, await _whole(scope, receive), sent)
        except Refusal as refusal:
            await refusal.response()(scope, receive, sent)
        except Exception as error:  # noqa: BLE001 - the last line of defence before a client's eyes
            if sent.status is None:
                await unexpected(scope["path"], error)(scope, receive, sent)
        sent.note()


class Sent:
    """The answer on its way out."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._started = time.monotonic()
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        """Pass a part of it on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            _complete(message)
        await self._send(message)

    def note(self) -> None:
        """Never the query or a header: somebody may have put a secret there."""
        spent = round((time.monotonic() - self._started) * 1000, 1)
        log.info("request", method=self._scope["method"], path=self._scope["path"], status=self.status, ms=spent)


def _complete(message: MutableMapping[str, Any]) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    headers.setdefault("Cache-Control", "no-store")


async def _whole(scope: Scope, receive: Receive) -> Receive:
    """The body, read to its end before anything else is done: who sends slowly holds nothing but a connection."""
    headers = Headers(scope=scope)
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MOST_BYTES:
        raise Refusal(413, "too-large", f"the body may have {MOST_BYTES} bytes")
    if length == "0" and "transfer-encoding" not in headers:
        return receive
    try:
        async with asyncio.timeout(BODY_S):
            body = await _body(receive)
    except TimeoutError:
        raise Refusal(408, "too-slow", f"the body did not arrive within {BODY_S:g} s") from None
    return _replay(body, receive)


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size > MOST_BYTES:
            raise Refusal(413, "too-large", f"the body may have {MOST_BYTES} bytes")
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
