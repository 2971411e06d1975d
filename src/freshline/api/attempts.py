"""Limits logins with bad tokens for each client address."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

MOST_ATTEMPTS = 10
WINDOW_S = 60.0
MOST_ADDRESSES = 10_000


class Attempts:
    """Counts the bad tokens of each address in the last minute. Of too many addresses, the oldest are forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()

    def wait(self, address: str) -> int:
        """Return the seconds until this address may try again; 0 if it may."""
        with self._lock:
            times = self._recent(address)
            return math.ceil(times[0] + WINDOW_S - self._clock()) if len(times) >= MOST_ATTEMPTS else 0

    def failed(self, address: str) -> None:
        """Note a bad token."""
        with self._lock:
            times = self._recent(address)
            times.append(self._clock())
            self._failed[address] = times
            self._failed.move_to_end(address)
            if len(self._failed) > MOST_ADDRESSES:
                self._failed.popitem(last=False)

    def _recent(self, address: str) -> deque[float]:
        """Return the times of the last minute, oldest first."""
        times = self._failed.get(address, deque(maxlen=MOST_ATTEMPTS))
        while times and times[0] <= self._clock() - WINDOW_S:
            times.popleft()
        if not times:
            self._failed.pop(address, None)
        return times
