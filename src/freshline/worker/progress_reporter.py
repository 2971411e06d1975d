"""What a running step tells its supervisor: its lines at once, how far it is a few times a second.

A job may call `ctx.progress` in a tight loop: the first call is told at once, later ones at most every PAUSE_S, and the
last one always. While the job's own function speaks, its progress counts more than Spark's tasks, and both are told.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from freshline.errors import JobError

PAUSE_S = 0.2


class Voice:
    """Takes the messages of one step, from any thread, and sends what is worth sending."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self._lock = threading.RLock()  # a signal may end the step in the middle of a call
        self._progress: dict[str, Any] = {}
        self._told: dict[str, Any] = {}
        self._told_at = -math.inf
        self._timer: threading.Timer | None = None
        self.last: dict[str, Any] | None = None

    def __call__(self, message: dict[str, Any]) -> None:
        """Send a message; of progress only what is new, and not too often."""
        if message["type"] != "progress":
            self._send(message)
            return
        with self._lock:
            self._progress |= message["progress"]
            self.last = self._progress.get("job") or self.last
            self._tell_soon()

    def returned(self) -> None:
        """The job's function is over: what Spark still has to do is what counts now."""
        with self._lock:
            if self._progress.pop("job", None):
                self._tell_soon()

    def hush(self) -> None:
        """The step is over: tell what was not told yet, and nothing afterwards."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._tell()
            self._told_at = math.inf

    def _tell_soon(self) -> None:
        early = self._told_at + PAUSE_S - time.monotonic()
        if early <= 0:
            self._tell()
        elif self._timer is None and early < math.inf:
            self._timer = threading.Timer(early, self._tell)
            self._timer.daemon = True
            self._timer.start()

    def _tell(self) -> None:
        with self._lock:
            self._timer = None
            if self._progress == self._told or self._told_at == math.inf:
                return
            self._told, self._told_at = dict(self._progress), time.monotonic()
            self._send({"type": "progress", "progress": self._told})


def job_progress(done: Any, total: Any) -> Mapping[str, Any]:
    """What a job says about itself, as numbers that JSON can carry."""
    return {"done": _number("done", done), "total": None if total is None else _number("total", total)}


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise JobError(f"ctx.progress({name}={value!r}): allowed are finite numbers, e.g. ctx.progress(3, 10)")
    return int(number) if number.is_integer() else number
