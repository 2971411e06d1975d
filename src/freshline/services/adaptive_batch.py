"""How large a batch is: as large as keeps its transaction short, whatever the machine and whatever else it does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LONGEST_S = 1.0  # others wait for rows for two seconds at most (R11.3), and fresh events wait for the batch before


class AdaptiveBatch:
    """Halves a batch that failed or took too long, and doubles one that took less than half of that, up to `most`."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.size = most
        self._most = most
        self._clock = clock

    @contextmanager
    def batch(self) -> Iterator[int]:
        """The size of the batch that is worked on inside."""
        size, began = self.size, self._clock()
        self.size = max(1, size // 2)  # stays so if it fails
        yield size
        took = self._clock() - began
        if took <= LONGEST_S:
            self.size = min(self._most, 2 * size) if took < LONGEST_S / 2 else size
