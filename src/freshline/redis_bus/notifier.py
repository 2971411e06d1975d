"""Notifications over Redis, for hosts whose connections receive no PostgreSQL NOTIFY, as behind a pooler.

They are an optimisation: a thread sends them, nothing waits for them, and one that cannot be sent is dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from freshline.errors import BusError
from freshline.redis_bus.connection import RedisConnection
from freshline.redis_bus.keys import NOTIFICATIONS

LISTEN_S = 0.5
MAX_WAITING = 64


class NotificationSender:
    """Sends notifications from a thread. Repeated names before the next send are merged."""

    def __init__(self, bus: RedisConnection) -> None:
        self._client = bus.guarded("notifications", reports_trouble=False)
        self._lock = threading.Lock()
        self._waiting: set[str] = set()
        self._wakeup = threading.Event()

    def notify(self, *names: str) -> None:
        """Queue these names; return at once."""
        with self._lock:
            if len(self._waiting) < MAX_WAITING:
                self._waiting.update(names)
        self._wakeup.set()

    def run(self, stopping: threading.Event) -> None:
        """Send until `stopping` is set."""
        while not stopping.is_set():
            if self._wakeup.wait(LISTEN_S):
                self._wakeup.clear()
                self.send()

    def send(self) -> None:
        """Send the queued names once."""
        with self._lock:
            names, self._waiting = sorted(self._waiting), set()
        if not names or not self._client.ready:
            return
        with suppress(BusError), self._client.use() as redis:
            for name in names:
                redis.publish(NOTIFICATIONS, name)


class NotificationListener:
    """Calls `notified(name)` for each notification, and `connected()` after each subscription."""

    def __init__(self, bus: RedisConnection, notified: Callable[[str], None], connected: Callable[[], None]) -> None:
        self._client = bus.guarded("notifications")
        self._notified = notified
        self._connected = connected

    def run(self, stopping: threading.Event) -> None:
        """Listen until `stopping` is set. Notifications sent while it was not subscribed are lost: see `connected`."""
        while not stopping.is_set():
            if self._client.ready:
                with suppress(BusError):
                    self._listen(stopping)
            stopping.wait(0.05)

    def _listen(self, stopping: threading.Event) -> None:
        with self._client.use() as redis:
            channel = redis.pubsub(ignore_subscribe_messages=True)
            channel.subscribe(NOTIFICATIONS)
            channel.get_message(timeout=LISTEN_S)
        try:
            self._connected()
            while not stopping.is_set():
                with self._client.use():
                    message = channel.get_message(timeout=LISTEN_S)
                if message is not None and isinstance(message.get("data"), bytes):
                    self._notified(message["data"].decode("utf-8", "replace"))
        finally:
            channel.close()
