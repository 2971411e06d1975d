"""Events as they happen, as server-sent events: in the order of their positions, none missing and none twice.

The id of a message is the event's position. A client that was cut off sends the last one that it has as Last-Event-ID,
as browsers do by themselves, and goes on from there, here or at another process. A stream ends after some minutes, so
that a token which was revoked meanwhile is noticed; clients come back.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator

import psycopg
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from freshline.api.problems import Refusal
from freshline.errors import DatabaseError
from freshline.model.json import Json
from freshline.store.read.reader import Reader

MEDIA = "text/event-stream"
LONGEST_S = 300.0
SILENCE_S = 15.0
RETRY_MS = 1000
MOST_STREAMS = 100
BATCH = 1000


class Streams:
    """The streams of one process: how many there are, and how they end."""

    def __init__(self, reader: Reader, *, poll_s: float) -> None:
        self._reader = reader
        self._poll_s = poll_s
        self._places = threading.Semaphore(MOST_STREAMS)
        self.stopping = threading.Event()

    def open(self, position: int, type_: str | None, subject: str | None) -> StreamingResponse:
        """All stamped events after `position` that are asked for."""
        if not self._places.acquire(blocking=False):
            raise Refusal(503, "too-many-streams", f"there are {MOST_STREAMS} streams already; try again")
        return _Stream(self._messages(Follower(self._reader, position, type_, subject)), self._places)

    async def _messages(self, follower: Follower) -> AsyncIterator[str]:
        ends = time.monotonic() + LONGEST_S
        silent = time.monotonic()
        yield f"retry: {RETRY_MS}\n\n"
        while time.monotonic() < ends and not self.stopping.is_set():
            found = await follower.poll()
            if found:
                silent = time.monotonic()
                yield "".join(map(message, found))
            elif time.monotonic() - silent > SILENCE_S:
                silent = time.monotonic()
                yield ": still here\n\n"  # or those between us would take the connection for dead
            if len(found) < BATCH:
                await asyncio.sleep(self._poll_s)


class Follower:
    """Reads on from a position."""

    def __init__(self, reader: Reader, position: int, type_: str | None, subject: str | None) -> None:
        self._reader = reader
        self._position = position
        self._type = type_
        self._subject = subject

    async def poll(self) -> list[Json]:
        """What is new; nothing while the database is away."""
        try:
            return await run_in_threadpool(self._read)
        except (DatabaseError, psycopg.Error):
            return []

    def _read(self) -> list[Json]:
        # Asked for first: what is not found up to here will never be, so the next look begins after it.
        end = self._reader.position()
        found = self._reader.events_since(self._position, self._type, self._subject)
        last = found[-1]["position"] if found else self._position
        self._position = last if len(found) >= BATCH else max(last, end)
        return found


class _Stream(StreamingResponse):
    """Gives its place back however it ends."""

    def __init__(self, content: AsyncIterator[str], places: threading.Semaphore) -> None:
        super().__init__(content, media_type=MEDIA, headers={"X-Accel-Buffering": "no"})
        self._places = places

    async def __call__(self, *arguments: object) -> None:
        try:
            await super().__call__(*arguments)  # type: ignore[arg-type] # the three of ASGI, as they come
        finally:
            self._places.release()


def message(event: Json) -> str:
    """One event: JSON has no line breaks, so its data is one line."""
    return f"id: {event['position']}\nevent: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"
