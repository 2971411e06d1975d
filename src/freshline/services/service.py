"""A background service: `run_once` does one round, a thread repeats it until it is stopped.

`start` returns at once, `stop` waits and may be called twice. A round that fails is logged and tried again:
nothing that a service has claimed outlives its transaction.
"""

from __future__ import annotations

import threading

import psycopg
import structlog

from freshline.errors import DatabaseError
from freshline.store.facade import Store

log = structlog.get_logger("freshline.services")


class Service:
    """Base of all services. `poll_s`: the longest pause between two rounds; `ring` shortens it."""

    name = "service"

    def __init__(self, store: Store, *, poll_s: float | None = None) -> None:
        self.store = store
        self.poll_s = store.settings.poll_ms / 1000 if poll_s is None else poll_s
        self._bell = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def run_once(self) -> bool:
        """One round. True: there may be more to do at once."""
        raise NotImplementedError

    def ring(self) -> None:
        """There is something to do. Any number of rings before the next round are one."""
        self._bell.set()

    def start(self) -> None:
        """Begin to work in the background."""
        if self._thread is None:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._loop, name=self.name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End after the round that is under way."""
        self._stopping.set()
        self._bell.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._bell.clear()
            if not self._round():
                self._bell.wait(self.poll_s)

    def _round(self) -> bool:
        try:
            return self.run_once()
        except (psycopg.OperationalError, psycopg.InterfaceError, DatabaseError) as error:
            log.warning("database_trouble", service=self.name, error=str(error).strip())
            self._revive()
        except Exception:
            log.exception("round_failed", service=self.name)
        return False

    def _revive(self) -> None:
        try:
            self.store.revive()
        except DatabaseError as error:
            log.warning("database_gone", service=self.name, error=str(error))
