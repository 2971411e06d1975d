"""The only place where tests pause: they wait for a condition, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout: float = 30, *, every: float = 0.02, what: str = "") -> T:
    """Return the first true value of `condition`; after `timeout` s fail with the last value and the name `what`."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            name = what or getattr(condition, "__qualname__", "the condition")
            raise AssertionError(f"{name} did not come true within {timeout:g} s; its last value is {value!r}")
        time.sleep(every)
    return value
