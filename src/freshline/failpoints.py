"""Named places where tests make a process fail. In production nothing is armed and `hit` is one dictionary look-up.

`FRESHLINE_FAILPOINTS="publish_run:before=kill,absorb:after=raise"` arms them in a real process. Actions: `kill` ends
it, `stop` stops it until SIGCONT, `raise` raises, `sleep:SECONDS` stands still (longer than a lease, say), `drop` cuts
the connection to the database: before a commit, so that it fails; after it, so that only its answer is lost.
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
    """Raised where a test asked for it."""


def drop(subject: Subject) -> None:
    """The network between us and the database is gone."""
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
    # To this very thread: one that is sent to the process lets it go on for a moment.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def _fail() -> None:
    raise FailpointError("armed failpoint")


FORMS = ("kill", "stop", "raise", "drop", "sleep:SECONDS")
_armed: dict[str, Callable[[Subject], None]] = {}


def hit(name: str, subject: Subject = None) -> None:
    """Do what was armed for this place; normally nothing. `subject`: the connection that the place uses."""
    if not _armed:
        return
    action = _armed.get(name) or _armed.get(f"*:{name.rpartition(':')[2]}")
    if action is not None:
        action(subject)


@contextmanager
def armed(name: str, action: Action) -> Iterator[None]:
    """Arm one place for the duration of a test."""
    with armed_with(name, _blind(action)):
        yield


@contextmanager
def armed_with(name: str, action: Callable[[Subject], None]) -> Iterator[None]:
    """The same with an action that gets the place's connection."""
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
    """Arm places from the environment variable's form."""
    for part in filter(None, text.split(",")):
        name, _, action = part.partition("=")
        _armed[name.strip()] = _parse(action.strip())


def _parse(text: str) -> Callable[[Subject], None]:
    known = {"kill": _blind(_kill), "stop": _blind(_stop), "raise": _blind(_fail), "drop": drop}
    verb, _, seconds = text.partition(":")
    if verb == "sleep" and seconds.replace(".", "", 1).isdigit():
        return _blind(partial(time.sleep, float(seconds)))
    if text not in known:
        raise UsageError(f"FRESHLINE_FAILPOINTS has action {text!r}; allowed are {', '.join(FORMS)}")
    return known[text]


def _blind(action: Action) -> Callable[[Subject], None]:
    return lambda _: action()


arm_from(os.environ.get("FRESHLINE_FAILPOINTS", ""))
