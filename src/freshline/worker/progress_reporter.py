"""Sends the log lines of a running step at once, and its progress a few times a second.

A job may call `ctx.progress` in a tight loop: the first call is sent at once, later ones at most every INTERVAL_S, and
the last one always. While the job's function runs, its own progress is sent beside that of Spark.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from freshline.errors import JobError
from freshline.worker.protocol import LogLine, Progress

INTERVAL_S = 0.2


class ProgressReporter:
    """Reports on one step; may be called by any thread."""

    def __init__(self, send: Callable[[LogLine | Progress], None]) -> None:
        self._send = send
        self._lock = threading.RLock()  # a signal may end the step in the middle of a call
        self._values: dict[str, Mapping[str, float | None]] = {}
        self._sent: dict[str, Mapping[str, float | None]] = {}
        self._sent_at = -math.inf
        self._timer: threading.Timer | None = None
        self.last_job_progress: Mapping[str, float | None] | None = None

    def log(self, text: str) -> None:
        """Send one line."""
        self._send(LogLine(text))

    def job_progress(self, done: Any, total: Any = None) -> None:
        """Report what the job says about its own progress."""
        values = progress_numbers(done, total)
        with self._lock:
            self._values["job"] = self.last_job_progress = values
            self._send_soon()

    def spark_progress(self, values: Mapping[str, int]) -> None:
        """Report Spark's counters."""
        with self._lock:
            self._values["spark"] = values
            self._send_soon()

    def job_returned(self) -> None:
        """Drop the job's own progress: its function has returned, and Spark may still have work to do."""
        with self._lock:
            if self._values.pop("job", None):
                self._send_soon()

    def close(self) -> None:
        """Send what is unsent, and nothing afterwards."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._send_values()
            self._sent_at = math.inf

    def _send_soon(self) -> None:
        early = self._sent_at + INTERVAL_S - time.monotonic()
        if early <= 0:
            self._send_values()
        elif self._timer is None and early < math.inf:
            self._timer = threading.Timer(early, self._send_values)
            self._timer.daemon = True
            self._timer.start()

    def _send_values(self) -> None:
        with self._lock:
            self._timer = None
            if self._values == self._sent or self._sent_at == math.inf:
                return
            self._sent, self._sent_at = dict(self._values), time.monotonic()
            self._send(Progress(self._sent))


def progress_numbers(done: Any, total: Any) -> dict[str, float | None]:
    """Return a job's progress as numbers that JSON can carry."""
    return {"done": _number("done", done), "total": None if total is None else _number("total", total)}


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise JobError(f"ctx.progress({name}={value!r}): allowed are finite numbers, e.g. ctx.progress(3, 10)")
    return int(number) if number.is_integer() else number
