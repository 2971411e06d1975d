"""A service whose work is due at stored times. It sleeps until the next of them, by the database's clock."""

from __future__ import annotations

import threading
import time

import psycopg

from freshline.errors import DatabaseError
from freshline.services.service import Service
from freshline.store.store import Store

RETRY_S = 0.01
SAFETY_S = 30.0


class DueService(Service):
    """A service that waits until something is due.

    While nothing is, a poll is one statement that reads the time left. A round that found nothing although something
    is due met the lock of another process, and the next tries come at growing distances.
    """

    # Whether a notification means that something is due now. Otherwise it means that a time was set: read it first.
    woken_by_work = False

    def __init__(self, store: Store, *, poll_s: float | None = None) -> None:
        super().__init__(store, poll_s=poll_s)
        self._misses = 0

    def time_left(self) -> float | None:
        """Return the seconds until something is due, by the database's clock; None if nothing is planned."""
        raise NotImplementedError

    def _wait(self, stopping: threading.Event) -> None:
        """Wait until something is due. A wake-up makes it look again, because an earlier time may have been set."""
        began = time.monotonic()
        just_tried = True
        while time.monotonic() - began < SAFETY_S:
            try:
                left = self.time_left()
            except (psycopg.Error, DatabaseError):
                self._wakeup.wait(self.poll_s)  # the round reports the error
                return
            if left is not None and left <= 0 and not just_tried:
                return
            self._misses = self._misses + 1 if left is not None and left <= 0 else 0
            if self._wakeup.wait(pause(left, self.poll_s, self._misses)) and self.woken_by_work:
                return
            # Clear first: a stop that comes later sets it again.
            self._wakeup.clear()
            if stopping.is_set():
                return
            just_tried = False


def pause(left: float | None, poll_s: float, misses: int = 0) -> float:
    """Return how long to sleep, in seconds, when something is due in `left` seconds: exactly that, or one poll.

    `misses`: how many rounds in a row found nothing although something was due.
    """
    if left is None:
        return poll_s
    if left > 0:
        return min(left, poll_s)
    return min(RETRY_S * 2 ** min(misses - 1, 16), poll_s) if misses > 0 else 0.0
