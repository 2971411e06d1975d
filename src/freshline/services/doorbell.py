"""Hears the doorbell (PostgreSQL NOTIFY) and rings the services of this process.

It changes latency, never correctness: while it is deaf, everything goes on at the poll interval.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import psycopg
import structlog

from freshline.store.database import Database

log = structlog.get_logger("freshline.services")
RETRY_S = 1.0
LISTEN_S = 0.5


class Doorbell:
    """Calls `bells[name]` for every ring of that name."""

    def __init__(self, database: Database, bells: Mapping[str, Callable[[], None]]) -> None:
        self._database = database
        self._bells = bells
        self._lock = threading.Lock()
        self._running: tuple[threading.Thread, threading.Event] | None = None

    def start(self) -> None:
        """Begin to listen; returns at once."""
        with self._lock:
            if self._running is None:
                stopping = threading.Event()
                thread = threading.Thread(target=self._loop, args=(stopping,), name="doorbell", daemon=True)
                self._running = thread, stopping
                thread.start()

    def stop(self) -> None:
        """End; may be called twice."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            thread, stopping = running
            stopping.set()
            thread.join()

    def _loop(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            try:
                self._listen(stopping)
            except psycopg.Error as error:
                log.warning("doorbell_deaf", error=str(error).strip(), fallback="polling")
                stopping.wait(RETRY_S)

    def _listen(self, stopping: threading.Event) -> None:
        with self._database.listen() as connection:
            # What rang while nobody listened is found by looking once.
            for bell in self._bells.values():
                bell()
            while not stopping.is_set():
                for heard in connection.notifies(timeout=LISTEN_S):
                    self._ring(heard.payload)
                    if stopping.is_set():
                        return

    def _ring(self, name: str) -> None:
        bell = self._bells.get(name)
        if bell is not None:
            bell()
