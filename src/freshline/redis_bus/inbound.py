"""The inbound stream: a consumer group whose messages are handled in order, and a place for those that are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from redis.exceptions import ResponseError

from freshline.redis_bus.connection import Bus
from freshline.redis_bus.keys import CONSUMER, DEAD, GROUP, INBOUND

Entry = tuple[str, Mapping[bytes, bytes]]
CLAIM_MS = 60_000
KEPT_FIELDS = 20
KEPT_BYTES = 10_000


class Inbound:
    """All consumers read under one name, and begin with what was given out and not acknowledged.

    So whatever is handled, everything before it in the stream was handled: a consumer that died in between leaves no
    gap, and one that was asleep repeats only what others did already. Needs Redis 6.2 (XAUTOCLAIM).
    """

    def __init__(self, bus: Bus, *, dead_length: int) -> None:
        self._line = bus.line("inbound messages")
        self._dead = bus.line("refused messages")
        self._dead_length = dead_length

    @property
    def ready(self) -> bool:
        """Whether it is time to try."""
        return self._line.ready and self._dead.ready

    def next(self, batch: int, wait_ms: int) -> list[Entry]:
        """The oldest messages that nobody has acknowledged; new ones are waited for only if there are none."""
        with self._line.used() as redis, _group(redis):
            pending = _pending(redis, batch)
            if pending:
                return pending
            # What another name took and forgot, as a person's who tried the group by hand.
            redis.xautoclaim(INBOUND, GROUP, CONSUMER, CLAIM_MS, count=batch, justid=True)
            redis.xreadgroup(GROUP, CONSUMER, {INBOUND: ">"}, count=batch, block=wait_ms)
            return _pending(redis, batch)
        return []

    def done(self, stream_id: str) -> None:
        """It was handled: what it said is committed."""
        with self._line.used() as redis, redis.pipeline(transaction=True) as pipeline:
            pipeline.xack(INBOUND, GROUP, stream_id)
            pipeline.xdel(INBOUND, stream_id)
            pipeline.execute()

    def refuse(self, entry: Entry, code: str, reason: str) -> None:
        """Put it among the dead with the reason; only then it is done."""
        stream_id, fields = entry
        told: dict[str, str | bytes] = {"streamId": stream_id, "code": code, "reason": reason}
        with self._dead.used() as redis:
            redis.xadd(DEAD, {**told, **_kept(fields)}, maxlen=self._dead_length, approximate=True)
        self.done(stream_id)


@contextmanager
def _group(redis: Any) -> Iterator[None]:
    """A group that is not there, at first or since the server was emptied, is made; the next round finds it."""
    try:
        yield
    except ResponseError as error:
        if not str(error).startswith("NOGROUP"):
            raise
        redis.xgroup_create(INBOUND, GROUP, id="0", mkstream=True)


def _pending(redis: Any, batch: int) -> list[Entry]:
    found = redis.xreadgroup(GROUP, CONSUMER, {INBOUND: "0"}, count=batch)
    return [(stream_id.decode(), fields or {}) for _, entries in found for stream_id, fields in entries]


def _kept(fields: Mapping[bytes, bytes]) -> dict[str, bytes]:
    """The message as it came, under names that cannot clash with ours; of long values the beginning."""
    first = list(fields.items())[:KEPT_FIELDS]
    return {f"message.{name[:200].decode('utf-8', 'replace')}": value[:KEPT_BYTES] for name, value in first}
