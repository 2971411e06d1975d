"""Server-sent events: events in the order of their positions, without gaps or repetitions.

The id of a message is the event's position. After a disconnect, a client sends the last id that it received as
Last-Event-ID, as browsers do automatically, and continues from there with any API process. A stream ends after five
minutes, so that a revoked token takes effect; clients reconnect.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import psycopg
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from freshline.api.problems import RequestError
from freshline.errors import DatabaseError
from freshline.model.documents.event import Event
from freshline.store.read.reader import Reader

MEDIA = "text/event-stream"
MAX_STREAM_S = 300.0
KEEP_ALIVE_S = 15.0
RETRY_MS = 1000
MAX_STREAMS = 300
BATCH = 1000


class Wanted(NamedTuple):
    """Which events a stream has; None: all."""

    type: str | None = None
    subject: str | None = None
    asset: str | None = None
    partition: str | None = None


class Streams:
    """The event streams of one process, limited in number."""

    def __init__(self, reader: Reader, *, poll_s: float, per_token: int) -> None:
        self._reader = reader
        self._poll_s = poll_s
        self._slots = StreamSlots(per_token)
        self.stopping = threading.Event()

    def open(self, actor: str, position: int, wanted: Wanted) -> StreamingResponse:
        """Return a stream of the matching events after `position`. `actor`: who asks for it."""
        self._slots.take(actor)
        poller = EventPoller(self._reader, position, wanted)
        return _Stream(self._messages(poller), lambda: self._slots.release(actor))

    async def _messages(self, poller: EventPoller) -> AsyncIterator[str]:
        ends = time.monotonic() + MAX_STREAM_S
        silent = time.monotonic()
        yield f"retry: {RETRY_MS}\n\n"
        while time.monotonic() < ends and not self.stopping.is_set():
            found = await poller.poll()
            if found:
                silent = time.monotonic()
                yield "".join(map(message, found))
            elif time.monotonic() - silent > KEEP_ALIVE_S:
                silent = time.monotonic()
                yield ": still here\n\n"  # keeps proxies from closing the connection
            if len(found) < BATCH:
                await asyncio.sleep(self._poll_s)


class StreamSlots:
    """Limits the streams of the process, and those of each token, so that one token leaves room for others."""

    def __init__(self, per_token: int) -> None:
        self._per_token = per_token
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def take(self, actor: str) -> None:
        """Take a slot. Raise `RequestError` if there is none."""
        with self._lock:
            if self._taken[actor] >= self._per_token:
                raise RequestError(
                    429,
                    "too-many-streams",
                    f"{actor} already has {self._per_token} streams, the limit for each token; close one, or raise "
                    "FRESHLINE_API_STREAMS_PER_TOKEN",
                )
            if self._taken.total() >= MAX_STREAMS:
                raise RequestError(
                    503, "too-many-streams", f"this process already serves {MAX_STREAMS} streams; try again"
                )
            self._taken[actor] += 1

    def release(self, actor: str) -> None:
        """Return a slot."""
        with self._lock:
            self._taken[actor] -= 1
            if not self._taken[actor]:
                del self._taken[actor]


class EventPoller:
    """Reads new events from a position on."""

    def __init__(self, reader: Reader, position: int, wanted: Wanted) -> None:
        self._reader = reader
        self._position = position
        self._wanted = wanted

    async def poll(self) -> list[Event]:
        """Return new events; none while the database is unavailable."""
        try:
            return await run_in_threadpool(self._read)
        except (DatabaseError, psycopg.Error):
            return []

    def _read(self) -> list[Event]:
        # Read first: no event can appear later at or below this position, so the next poll starts after it.
        end = self._reader.position()
        if end <= self._position:
            return []
        kind, subject, asset, partition = self._wanted
        found = self._reader.events_since(self._position, kind, subject, asset=asset, partition=partition)
        last = (found[-1]["position"] or 0) if found else self._position
        self._position = last if len(found) >= BATCH else max(last, end)
        return found


class _Stream(StreamingResponse):
    """A streaming response that releases its slot when it ends."""

    def __init__(self, content: AsyncIterator[str], release: Callable[[], None]) -> None:
        super().__init__(content, media_type=MEDIA, headers={"X-Accel-Buffering": "no"})
        self._release = release

    async def __call__(self, *arguments: object) -> None:
        try:
            await super().__call__(*arguments)  # type: ignore[arg-type] # the three arguments of ASGI
        finally:
            self._release()


def message(event: Event) -> str:
    """Return one event as a message. JSON has no line breaks, so its data is one line."""
    return f"id: {event['position']}\nevent: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"
