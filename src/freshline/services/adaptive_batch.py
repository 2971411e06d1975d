"""A batch size that adapts to the machine and its load, so that transactions stay short."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Below the lock timeout of 2 s. New events wait for the batch before them.
LONGEST_S = 1.0


class AdaptiveBatch:
    """The size of the next batch: halved after a failure or a slow batch, doubled after a fast one, at most `most`.

    Slow is longer than `LONGEST_S`, fast is shorter than half of it.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.size = most
        self._most = most
        self._clock = clock

    @contextmanager
    def batch(self) -> Iterator[int]:
        """Yield the size of the batch that the block works on, and measure the block."""
        size, began = self.size, self._clock()
        self.size = max(1, size // 2)  # also after an exception
        yield size
        took = self._clock() - began
        if took <= LONGEST_S:
            self.size = min(self._most, 2 * size) if took < LONGEST_S / 2 else size
