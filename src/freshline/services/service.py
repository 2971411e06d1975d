"""The base class of background services: `run_once` does one round, and a thread repeats it.

`start` returns at once. `stop` waits and may be called twice. A round that fails is logged and repeated: a claim does
not outlive its transaction.
"""

from __future__ import annotations

import threading

import psycopg
import structlog

from freshline.errors import DatabaseError
from freshline.store.db.database import LostConnectionError, UnreachableError
from freshline.store.store import Store

log = structlog.get_logger("freshline.services")
JOIN_S = 0.05


class Service:
    """A service. `poll_s`: the longest pause between two rounds; `wake` shortens it."""

    name = "service"  # in log events and thread names, so it stays the same when a class is renamed

    def __init__(self, store: Store, *, poll_s: float | None = None) -> None:
        self.store = store
        self.poll_s = store.settings.poll_ms / 1000 if poll_s is None else poll_s
        self._wakeup = threading.Event()
        self._switch = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def run_once(self) -> bool:
        """Do one round. Return True to start the next one without a pause."""
        raise NotImplementedError

    def wake(self) -> None:
        """Start the next round at once. Several calls before that round count as one."""
        self._wakeup.set()

    def start(self) -> None:
        """Start the thread; return at once."""
        with self._switch:
            if self._thread is None:
                # Each thread has its own flag: starting a new one must not revoke the stop of the old one.
                self._stopping = threading.Event()
                self._thread = threading.Thread(target=self._loop, args=(self._stopping,), name=self.name, daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Stop after the current round."""
        self._end()

    def _end(self) -> bool:
        """Stop and wait for the thread; return whether it was running."""
        with self._switch:
            thread, self._thread = self._thread, None
            stopping = self._stopping
        if thread is None:
            return False
        stopping.set()
        while thread.is_alive():
            self._wakeup.set()  # repeated: a thread that was started meanwhile may have cleared it
            thread.join(JOIN_S)
        return True

    def _loop(self, stopping: threading.Event) -> None:
        while True:
            self._wakeup.clear()
            if stopping.is_set():
                return
            if not self._round():
                self._wait(stopping)

    def _wait(self, stopping: threading.Event) -> None:  # noqa: ARG002 - a subclass may wait in several parts
        """Wait for a wake-up, or for the poll interval."""
        self._wakeup.wait(self.poll_s)

    def _round(self) -> bool:
        try:
            return self.run_once()
        except (LostConnectionError, UnreachableError):
            self._revive()  # the pool logs the outage once
        except (psycopg.OperationalError, psycopg.InterfaceError, DatabaseError) as error:
            log.warning("database_trouble", service=self.name, error=str(error).strip())
            self._revive()
        except Exception:
            log.exception("round_failed", service=self.name)
        return False

    def _revive(self) -> None:
        try:
            self.store.database.revive()
        except DatabaseError as error:
            self.store.database.outage.notice(error)
