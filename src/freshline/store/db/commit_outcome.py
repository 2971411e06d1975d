"""Writes whose answer got lost are looked up by their key, under the locks of the lost transaction, and repeated."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from freshline.store.db.database import LostConnectionError, UnreachableError

PATIENCE_S = 15.0
RETRY_S = 0.2
T = TypeVar("T")


def certain(write: Callable[[bool], T]) -> T:
    """What `write` returns, although the answer to its commit may get lost: then it is asked again, with True.

    `write(True)` first looks, under its locks, for what the first try did. Gives up when the database stays away.
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
                lost, deadline = error, time.monotonic() + PATIENCE_S
        except UnreachableError:
            if lost is None:
                raise
        if time.monotonic() > deadline:
            raise lost
        time.sleep(RETRY_S)
