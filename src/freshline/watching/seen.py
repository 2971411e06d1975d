"""The files that earlier looks at a source have seen, as one process remembers them.

A million of them take 24 MB: sorted arrays of digests, without a path. What is stored of a file is read only if it is
new or has changed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import merge
from operator import itemgetter
from uuid import UUID

from freshline.model.watch import SeenFile

HALF = 64
LOW = (1 << HALF) - 1
MERGE_AT = 10_000

Rows = Callable[[Collection[str]], Mapping[str, SeenFile]]


class Digests:
    """A map from 128-bit keys to signed 64-bit numbers, in 24 bytes per entry."""

    def __init__(self) -> None:
        self._high = array("Q")
        self._low = array("Q")
        self._numbers = array("q")
        self._recent: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._high) + len(self._recent)

    def get(self, key: int) -> int | None:
        """Return the number of a key; None if it is not here."""
        if (recent := self._recent.get(key)) is not None:
            return recent
        place = self._place(key)
        return None if place is None else self._numbers[place]

    def update(self, entries: Iterable[tuple[int, int]]) -> None:
        """Add or replace entries."""
        for key, number in entries:
            place = self._place(key)
            if place is None:
                self._recent[key] = number
            else:
                self._numbers[place] = number
            # In relation to what is there: otherwise a long load would merge again and again.
            if len(self._recent) > max(MERGE_AT, len(self._high) // 4):
                self._merge()

    def _place(self, key: int) -> int | None:
        high, low = key >> HALF, key & LOW
        place = bisect_left(self._high, high)
        while place < len(self._high) and self._high[place] == high:
            if self._low[place] == low:
                return place
            place += 1
        return None

    def _merge(self) -> None:
        stored = zip(self._high, self._low, self._numbers, strict=True)
        recent = sorted((key >> HALF, key & LOW, number) for key, number in self._recent.items())
        high, low, numbers = array("Q"), array("Q"), array("q")
        for one in merge(stored, recent, key=itemgetter(0)):
            high.append(one[0])
            low.append(one[1])
            numbers.append(one[2])
        self._high, self._low, self._numbers, self._recent = high, low, numbers, {}


@dataclass(slots=True)
class Candidate:
    """A file that may be new. `modified_ns`: for the order of deliveries."""

    path: str
    size: int
    version: str
    modified_ns: int


@dataclass(slots=True)
class SeenFiles:
    """The memory of one process about the files of one source.

    `rows` reads what is stored of files. `settling`: since when a file looks the same, by the clock of this process.
    `backlog`: files of the last listing that are still to be delivered. `checked`: where the rotating check of
    delivered files goes on. `leases`: devices on which the kernel says whether a file is open for writing.
    """

    rows: Rows
    revision: int = -1
    digests: Digests = field(default_factory=Digests)
    settling: dict[str, tuple[int, float]] = field(default_factory=dict)
    backlog: list[Candidate] = field(default_factory=list)
    checked: int = 0
    leases: set[int] = field(default_factory=set)

    def load(self, rows: Iterable[tuple[UUID, int]], revision: int) -> None:
        """Add what was stored after the last load."""
        self.digests.update((key.int, number) for key, number in rows)
        self.revision = revision
