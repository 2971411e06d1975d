"""Listens for notifications (PostgreSQL NOTIFY, and Redis if configured) and wakes the services of this process.

A notification shortens latency and is never needed for correctness: without it, services poll at their interval.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import psycopg
import structlog

from freshline.store.db.database import Database

if TYPE_CHECKING:
    from freshline.redis_bus.connection import RedisConnection

log = structlog.get_logger("freshline.services")
RETRY_S = 1.0
LISTEN_S = 0.5
Loop = Callable[[threading.Event], None]


class Notifier:
    """Calls `wakeups[name]` for each notification of that name. With a `bus`, it also sends this process's there."""

    def __init__(
        self, database: Database, wakeups: Mapping[str, Callable[[], None]], bus: RedisConnection | None = None
    ) -> None:
        self._database = database
        self._wakeups = wakeups
        self._loops: list[Loop] = [self._loop]
        self._also_notify: Callable[..., None] | None = None
        self._warned = False  # one warning per outage
        self._lock = threading.Lock()
        self._running: tuple[list[threading.Thread], threading.Event] | None = None
        if bus is not None:
            self._connect(bus)

    def start(self) -> None:
        """Start to listen; return at once."""
        with self._lock:
            if self._running is None:
                stopping = threading.Event()
                threads = [
                    threading.Thread(target=loop, args=(stopping,), name="doorbell", daemon=True)
                    for loop in self._loops
                ]
                self._running = threads, stopping
                self._database.also_notify = self._also_notify
                for thread in threads:
                    thread.start()

    def stop(self) -> None:
        """Stop and wait for the threads; may be called twice."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            threads, stopping = running
            stopping.set()
            if self._database.also_notify == self._also_notify:
                self._database.also_notify = None
            for thread in threads:
                thread.join()

    def _connect(self, bus: RedisConnection) -> None:
        # The package redis is an extra.
        from freshline.redis_bus.notifier import NotificationListener, NotificationSender  # noqa: PLC0415

        sender, listener = NotificationSender(bus), NotificationListener(bus, self._wake, self._wake_all)
        self._also_notify = sender.notify
        self._loops += [sender.run, listener.run]

    def _loop(self, stopping: threading.Event) -> None:
        if not self._database.keeps_sessions:
            log.warning("doorbell_deaf", error="the database is behind a pooler of transactions", fallback="polling")
            return
        while not stopping.is_set():
            try:
                self._listen(stopping)
            except psycopg.Error as error:
                if not self._warned:
                    log.warning("doorbell_deaf", error=str(error).strip(), fallback="polling")
                self._warned = True
                stopping.wait(RETRY_S)

    def _listen(self, stopping: threading.Event) -> None:
        with self._database.listen() as connection:
            self._warned = False
            # Notifications sent while nothing listened are lost, so each service looks once.
            self._wake_all()
            while not stopping.is_set():
                for notification in connection.notifies(timeout=LISTEN_S):
                    self._wake(notification.payload)
                    if stopping.is_set():
                        return

    def _wake_all(self) -> None:
        for wake in self._wakeups.values():
            wake()

    def _wake(self, name: str) -> None:
        wake = self._wakeups.get(name)
        if wake is not None:
            wake()
