"""Named places where tests make a process fail. In production nothing is armed and `hit` is one dictionary look-up.

`FRESHLINE_FAILPOINTS="publish_run:before=kill,absorb:after=raise"` arms them in a real process.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from freshline.errors import UsageError


class FailpointError(RuntimeError):
    """Raised where a test asked for it."""


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _fail() -> None:
    raise FailpointError("armed failpoint")


ACTIONS: dict[str, Callable[[], None]] = {"kill": _kill, "raise": _fail}
_armed: dict[str, Callable[[], None]] = {}


def hit(name: str) -> None:
    """Do what was armed for this place; normally nothing."""
    if not _armed:
        return
    action = _armed.get(name) or _armed.get(f"*:{name.rpartition(':')[2]}")
    if action is not None:
        action()


@contextmanager
def armed(name: str, action: Callable[[], None]) -> Iterator[None]:
    """Arm one place for the duration of a test."""
    _armed[name] = action
    try:
        yield
    finally:
        _armed.pop(name, None)


@contextmanager
def armed_all(side: str, action: Callable[[], None]) -> Iterator[None]:
    """Arm every transaction on one side of its commit, `before` or `after`."""
    with armed(f"*:{side}", action):
        yield


def arm_from(text: str) -> None:
    """Arm places from the environment variable's form."""
    for part in filter(None, text.split(",")):
        name, _, action = part.partition("=")
        if action not in ACTIONS:
            raise UsageError(f"FRESHLINE_FAILPOINTS has action {action!r}; allowed are {', '.join(ACTIONS)}")
        _armed[name.strip()] = ACTIONS[action]


arm_from(os.environ.get("FRESHLINE_FAILPOINTS", ""))
