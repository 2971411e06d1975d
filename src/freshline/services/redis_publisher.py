"""Puts every event on the stream `freshline:events`, in the order of positions, at least once.

It does not promise that a message comes only once: the event's id is the key to drop repetitions by. It does not bring
back what Redis loses after it took it; `freshline events --follow --after POSITION` reads the truth, the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from freshline.errors import BusError
from freshline.model.events import cloud_event
from freshline.redis_bus.connection import RedisConnection
from freshline.redis_bus.keys import EVENTS
from freshline.services.service import Service
from freshline.store.store import Store

BATCH = 500
MOST_BYTES = 1_000_000


class RedisPublisher(Service):
    """Any number may run; the cursor's row lets one publish at a time."""

    name = "publisher"

    def __init__(self, store: Store, bus: RedisConnection) -> None:
        super().__init__(store)
        self._ping_client = bus.guarded("a ping")
        self._client = bus.guarded("events")

    def run_once(self) -> bool:
        """One batch; True: there was one, and there may be more."""
        if not (self._ping_client.ready and self._client.ready):
            return False
        try:
            # Connecting and signing in take several answers: a slow server must not be waited for in a transaction.
            with self._ping_client.use() as redis:
                redis.ping()
            return self.store.events.publish(self._send, batch=BATCH, most_bytes=MOST_BYTES) > 0
        except BusError:
            return False

    def _send(self, events: Sequence[Mapping[str, Any]]) -> None:
        """All or none: an event that Redis refuses must not be overtaken by the next one."""
        with self._client.use() as redis, redis.pipeline(transaction=True) as pipeline:
            for event in events:
                pipeline.xadd(EVENTS, message(event), maxlen=self.store.settings.bus_length, approximate=True)
            pipeline.execute()


def message(event: Mapping[str, Any]) -> dict[str, str]:
    """The event as a CloudEvent 1.0, one text per attribute; its data is JSON."""
    return {name: str(value) for name, value in cloud_event(event).items()}
