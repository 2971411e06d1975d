"""Doorbells over Redis, beside PostgreSQL's: for hosts whose connections hear no NOTIFY, as behind a pooler.

Nobody waits for them: rings are sent by a thread, and a ring that cannot be sent is forgotten.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from freshline.errors import BusError
from freshline.redis_bus.connection import Bus
from freshline.redis_bus.keys import BELLS

LISTEN_S = 0.5
MOST_BELLS = 64


class Herald:
    """Sends rings. `ring` returns at once; any number of rings before the next sending are one."""

    def __init__(self, bus: Bus) -> None:
        self._line = bus.line("doorbells", told=False)
        self._lock = threading.Lock()
        self._waiting: set[str] = set()
        self._bell = threading.Event()

    def ring(self, *bells: str) -> None:
        """Have these rung everywhere."""
        with self._lock:
            if len(self._waiting) < MOST_BELLS:
                self._waiting.update(bells)
        self._bell.set()

    def run(self, stopping: threading.Event) -> None:
        """Send until it is to stop."""
        while not stopping.is_set():
            if self._bell.wait(LISTEN_S):
                self._bell.clear()
                self.send()

    def send(self) -> None:
        """What waits, once."""
        with self._lock:
            bells, self._waiting = sorted(self._waiting), set()
        if not bells or not self._line.ready:
            return
        with suppress(BusError), self._line.used() as redis:
            for bell in bells:
                redis.publish(BELLS, bell)


class Ear:
    """Hears rings and passes them on."""

    def __init__(self, bus: Bus, heard: Callable[[str], None], everything: Callable[[], None]) -> None:
        self._line = bus.line("doorbells")
        self._heard = heard
        self._everything = everything

    def run(self, stopping: threading.Event) -> None:
        """Listen until it is to stop; what rang while nobody listened is found by looking at everything once."""
        while not stopping.is_set():
            if self._line.ready:
                with suppress(BusError):
                    self._listen(stopping)
            stopping.wait(0.05)

    def _listen(self, stopping: threading.Event) -> None:
        with self._line.used() as redis:
            ears = redis.pubsub(ignore_subscribe_messages=True)
            ears.subscribe(BELLS)
            ears.get_message(timeout=LISTEN_S)
        try:
            self._everything()
            while not stopping.is_set():
                with self._line.used():
                    message = ears.get_message(timeout=LISTEN_S)
                if message is not None and isinstance(message.get("data"), bytes):
                    self._heard(message["data"].decode("utf-8", "replace"))
        finally:
            ears.close()
