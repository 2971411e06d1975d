"""Publishes every event on the stream `freshline:events`, in the order of positions, at least once.

It does not promise that a message comes only once: consumers drop repetitions by the event's id. It does not restore
events that Redis loses after it accepted them; `freshline events --follow --after POSITION` reads the database.
"""

from __future__ import annotations

from collections.abc import Sequence

from freshline.errors import BusError
from freshline.model.events import cloud_event
from freshline.redis_bus.connection import RedisConnection
from freshline.redis_bus.keys import EVENTS
from freshline.services.service import Service
from freshline.store.db.database import Row
from freshline.store.store import Store

BATCH = 500
MAX_BYTES = 1_000_000


class RedisPublisher(Service):
    """Any number may run; the lock on the cursor's row lets one publish at a time."""

    name = "publisher"

    def __init__(self, store: Store, bus: RedisConnection) -> None:
        super().__init__(store)
        self._ping_client = bus.guarded("a ping")
        self._client = bus.guarded("events")

    def run_once(self) -> bool:
        """Publish one batch; return whether there was one."""
        if not (self._ping_client.ready and self._client.ready):
            return False
        try:
            # Connecting takes several round trips, and a transaction must not wait for a slow server.
            with self._ping_client.use() as redis:
                redis.ping()
            return self.store.events.publish(self._send, batch=BATCH, most_bytes=MAX_BYTES) > 0
        except BusError:
            return False

    def _send(self, events: Sequence[Row]) -> None:
        """Send all or none: if Redis refuses an event, the next one must not overtake it."""
        with self._client.use() as redis, redis.pipeline(transaction=True) as pipeline:
            for event in events:
                pipeline.xadd(EVENTS, message(event), maxlen=self.store.settings.bus_length, approximate=True)
            pipeline.execute()


def message(event: Row) -> dict[str, str]:
    """Return the event as a CloudEvent 1.0, one string per attribute; the data is JSON."""
    return {name: str(value) for name, value in cloud_event(event).items()}
