"""Stopping long-running commands: the first signal asks, the second one kills."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)
KILLED = 128
WAIT_S = 0.25
STDERR = 2


class Asked:
    """Whether a signal has asked this process to end.

    Without a lock, unlike `threading.Event`: the handler runs between any two instructions of the thread that waits,
    and would deadlock on a lock that this thread holds.
    """

    def __init__(self) -> None:
        self._asked = False

    def set(self) -> None:
        """Record the signal."""
        self._asked = True

    def is_set(self) -> bool:
        """Return whether a signal came."""
        return self._asked

    def wait(self, seconds: float) -> bool:
        """Wait for the signal, at most this long, and return whether it came."""
        # In short sleeps: a signal does not end a sleep.
        deadline = time.monotonic() + seconds
        while not self._asked and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, WAIT_S))
        return self._asked


def wait_for(asked: Asked, fatal: Callable[[], Exception | None] = lambda: None) -> None:
    """Wait until a signal comes, or raise a fatal error."""
    while not asked.wait(WAIT_S):
        error = fatal()
        if error is not None:
            raise error


@contextmanager
def stop_signals() -> Iterator[Asked]:
    """Yield a flag that SIGTERM or SIGINT sets; the next signal ends the process and its children at once."""
    asked = Asked()
    # On a terminal the signal may come in the middle of a printed line, behind the `^C` that the terminal shows.
    said = b"\n" * os.isatty(STDERR) + b"stopping; once more to stop at once\n"

    def handle(number: int, _frame: FrameType | None) -> None:
        if asked.is_set():
            os._exit(KILLED + number)
        asked.set()
        with suppress(OSError):  # not with `print`, which the signal may have interrupted
            os.write(STDERR, said)

    before = [(number, signal.signal(number, handle)) for number in SIGNALS]
    try:
        yield asked
    finally:
        for number, handler in before:
            signal.signal(number, handler)
