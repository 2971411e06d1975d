"""Hears the doorbell (PostgreSQL NOTIFY, and Redis where there is one) and rings the services of this process.

It changes latency, never correctness: while it is deaf, everything goes on at the poll interval.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import psycopg
import structlog

from freshline.store.db.database import Database

if TYPE_CHECKING:
    from freshline.redis_bus.connection import Bus

log = structlog.get_logger("freshline.services")
RETRY_S = 1.0
LISTEN_S = 0.5
Loop = Callable[[threading.Event], None]


class Doorbell:
    """Calls `bells[name]` for every ring of that name. With a `bus`, this process's rings go there too."""

    def __init__(self, database: Database, bells: Mapping[str, Callable[[], None]], bus: Bus | None = None) -> None:
        self._database = database
        self._bells = bells
        self._loops: list[Loop] = [self._loop]
        self._herald: Callable[..., None] | None = None
        self._deaf = False  # told once for as long as it lasts
        self._lock = threading.Lock()
        self._running: tuple[list[threading.Thread], threading.Event] | None = None
        if bus is not None:
            self._connect(bus)

    def start(self) -> None:
        """Begin to listen; returns at once."""
        with self._lock:
            if self._running is None:
                stopping = threading.Event()
                threads = [
                    threading.Thread(target=loop, args=(stopping,), name="doorbell", daemon=True)
                    for loop in self._loops
                ]
                self._running = threads, stopping
                self._database.herald = self._herald
                for thread in threads:
                    thread.start()

    def stop(self) -> None:
        """End; may be called twice."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            threads, stopping = running
            stopping.set()
            if self._database.herald == self._herald:
                self._database.herald = None
            for thread in threads:
                thread.join()

    def _connect(self, bus: Bus) -> None:
        from freshline.redis_bus.notifier import Ear, Herald  # noqa: PLC0415 - they need the package redis, an extra

        herald, ear = Herald(bus), Ear(bus, self._ring, self._ring_all)
        self._herald = herald.ring
        self._loops += [herald.run, ear.run]

    def _loop(self, stopping: threading.Event) -> None:
        if not self._database.keeps_sessions:
            log.warning("doorbell_deaf", error="the database is behind a pooler of transactions", fallback="polling")
            return
        while not stopping.is_set():
            try:
                self._listen(stopping)
            except psycopg.Error as error:
                if not self._deaf:
                    log.warning("doorbell_deaf", error=str(error).strip(), fallback="polling")
                self._deaf = True
                stopping.wait(RETRY_S)

    def _listen(self, stopping: threading.Event) -> None:
        with self._database.listen() as connection:
            self._deaf = False
            # What rang while nobody listened is found by looking once.
            self._ring_all()
            while not stopping.is_set():
                for heard in connection.notifies(timeout=LISTEN_S):
                    self._ring(heard.payload)
                    if stopping.is_set():
                        return

    def _ring_all(self) -> None:
        for bell in self._bells.values():
            bell()

    def _ring(self, name: str) -> None:
        bell = self._bells.get(name)
        if bell is not None:
            bell()
