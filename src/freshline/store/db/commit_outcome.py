"""Resolves a commit with an unknown outcome: search by key, under the same locks, and repeat if it did not happen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from freshline.store.db.database import LostConnectionError, UnreachableError

GIVE_UP_S = 15.0
RETRY_S = 0.2
T = TypeVar("T")


def resolved(write: Callable[[bool], T]) -> T:
    """Call `write(False)`; if the outcome of its commit is unknown, call `write(True)` until the database answers.

    `write(True)` must first search, under its locks, for what the first call has written.
    """
    lost: LostConnectionError | None = None
    deadline = 0.0
    while True:
        try:
            return write(lost is not None)
        except LostConnectionError as error:
            if lost is None and not error.unknown:
                raise
            if lost is None:
                lost, deadline = error, time.monotonic() + GIVE_UP_S
        except UnreachableError:
            if lost is None:
                raise
        if time.monotonic() > deadline:
            raise lost
        time.sleep(RETRY_S)
