"""Failpoints: named places where tests make a process fail. In production nothing is armed.

`FRESHLINE_FAILPOINTS="publish_run:before=kill,absorb:after=raise"` arms them in a real process. Actions: `kill` ends
the process, `stop` stops it until SIGCONT, `raise` raises, `sleep:SECONDS` sleeps (for longer than a lease, for
example), `drop` cuts the connection to the database: before a commit, so that it fails; after it, so that only the
answer is lost.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg

from freshline.errors import UsageError

Subject = psycopg.Connection[Any] | None
Action = Callable[[], None]


class FailpointError(RuntimeError):
    """Raised by an armed failpoint."""


def drop(subject: Subject) -> None:
    """Cut the connection to the database."""
    if subject is None:
        return
    with socket.socket(fileno=os.dup(subject.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
    if subject.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        subject.close()
        raise psycopg.OperationalError("the answer to COMMIT is lost")


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop() -> None:
    # Sent to this thread, because the process would continue for a moment after a signal to the process.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def _fail() -> None:
    raise FailpointError("armed failpoint")


FORMS = ("kill", "stop", "raise", "drop", "sleep:SECONDS")
_armed: dict[str, Callable[[Subject], None]] = {}


def hit(name: str, subject: Subject = None) -> None:
    """Run the action that is armed for this place, if any. `subject`: the connection of the place."""
    if not _armed:
        return
    action = _armed.get(name) or _armed.get(f"*:{name.rpartition(':')[2]}")
    if action is not None:
        action(subject)


@contextmanager
def armed(name: str, action: Action) -> Iterator[None]:
    """Arm one place for the duration of a test."""
    with armed_with(name, _without_subject(action)):
        yield


@contextmanager
def armed_with(name: str, action: Callable[[Subject], None]) -> Iterator[None]:
    """Arm one place with an action that gets the connection of the place."""
    _armed[name] = action
    try:
        yield
    finally:
        _armed.pop(name, None)


@contextmanager
def armed_all(side: str, action: Action) -> Iterator[None]:
    """Arm every transaction on one side of its commit, `before` or `after`."""
    with armed(f"*:{side}", action):
        yield


def arm_from(text: str) -> None:
    """Arm places from the value of FRESHLINE_FAILPOINTS."""
    for part in filter(None, text.split(",")):
        name, _, action = part.partition("=")
        _armed[name.strip()] = _parse(action.strip())


def _parse(text: str) -> Callable[[Subject], None]:
    known = {
        "kill": _without_subject(_kill),
        "stop": _without_subject(_stop),
        "raise": _without_subject(_fail),
        "drop": drop,
    }
    verb, _, seconds = text.partition(":")
    if verb == "sleep" and seconds.replace(".", "", 1).isdigit():
        return _without_subject(partial(time.sleep, float(seconds)))
    if text not in known:
        raise UsageError(f"FRESHLINE_FAILPOINTS has action {text!r}; allowed are {', '.join(FORMS)}")
    return known[text]


def _without_subject(action: Action) -> Callable[[Subject], None]:
    return lambda _: action()


arm_from(os.environ.get("FRESHLINE_FAILPOINTS", ""))
