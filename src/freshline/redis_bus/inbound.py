"""The inbound stream: a consumer group whose messages are handled in order, and a stream of refused messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from redis.exceptions import ResponseError

from freshline.redis_bus.connection import RedisConnection
from freshline.redis_bus.keys import CONSUMER, DEAD, GROUP, INBOUND

Entry = tuple[str, Mapping[bytes, bytes]]
CLAIM_MS = 60_000
KEPT_FIELDS = 20
KEPT_BYTES = 10_000


class InboundStream:
    """All consumers read under one name and start with the messages that were delivered but not acknowledged.

    So when a message is handled, all messages before it in the stream were handled. A consumer that died leaves no
    gap, and one that was suspended repeats only what others already did. Needs Redis 6.2 (XAUTOCLAIM).
    """

    def __init__(self, bus: RedisConnection, *, dead_length: int) -> None:
        self._client = bus.guarded("inbound messages")
        self._dead_client = bus.guarded("refused messages")
        self._dead_length = dead_length

    @property
    def ready(self) -> bool:
        """Whether no backoff is in effect."""
        return self._client.ready and self._dead_client.ready

    def next(self, batch: int, wait_ms: int) -> list[Entry]:
        """Return the oldest unacknowledged messages; wait for new ones only if there are none."""
        with self._client.use() as redis, _group(redis):
            pending = _pending(redis, batch)
            if pending:
                return pending
            # Messages that another consumer name took and did not acknowledge, such as someone testing the group.
            redis.xautoclaim(INBOUND, GROUP, CONSUMER, CLAIM_MS, count=batch, justid=True)
            redis.xreadgroup(GROUP, CONSUMER, {INBOUND: ">"}, count=batch, block=wait_ms)
            return _pending(redis, batch)
        return []

    def done(self, stream_id: str) -> None:
        """Acknowledge and delete a message whose report is committed."""
        with self._client.use() as redis, redis.pipeline(transaction=True) as pipeline:
            pipeline.xack(INBOUND, GROUP, stream_id)
            pipeline.xdel(INBOUND, stream_id)
            pipeline.execute()

    def refuse(self, entry: Entry, code: str, reason: str) -> None:
        """Copy a message to the stream of refused messages with the reason, then acknowledge it."""
        stream_id, fields = entry
        refusal: dict[str, str | bytes] = {"streamId": stream_id, "code": code, "reason": reason}
        with self._dead_client.use() as redis:
            redis.xadd(DEAD, {**refusal, **_kept(fields)}, maxlen=self._dead_length, approximate=True)
        self.done(stream_id)


@contextmanager
def _group(redis: Any) -> Iterator[None]:
    """Create the consumer group if it is missing (first start, or FLUSHALL); the next round then reads from it."""
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
    """Return the message's fields under names that cannot clash with ours; long values are truncated."""
    first = list(fields.items())[:KEPT_FIELDS]
    return {f"message.{name[:200].decode('utf-8', 'replace')}": value[:KEPT_BYTES] for name, value in first}
