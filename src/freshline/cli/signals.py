"""How long-running commands end: the first signal asks, the second one kills."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from freshline.cli import output

SIGNALS = (signal.SIGTERM, signal.SIGINT)
KILLED = 128
WAIT_S = 0.25


def wait_for(asked: threading.Event, fatal: Callable[[], Exception | None] = lambda: None) -> None:
    """Until the event is set, or something fatal is there, which is raised.

    In short waits: a signal that another thread receives does not wake a long one.
    """
    while not asked.wait(WAIT_S):
        error = fatal()
        if error is not None:
            raise error


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM or SIGINT sets; the next one ends the process at once, and its children with it."""
    asked = threading.Event()

    def handle(number: int, _frame: FrameType | None) -> None:
        if asked.is_set():
            os._exit(KILLED + number)
        output.say("stopping; once more to stop at once")
        asked.set()

    before = [(number, signal.signal(number, handle)) for number in SIGNALS]
    try:
        yield asked
    finally:
        for number, handler in before:
            signal.signal(number, handler)
