"""Deliveries of an append source: the range that a run is pinned to, and its deliveries, loaded page by page."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, overload

from freshline.errors import JobError
from freshline.plural import counted

DELIVERED = re.compile(r"delivery:([1-9]\d*)")
PAGE = 1_000  # deliveries that are loaded together
KEPT_PAGES = 2


def position_of(data_version: str) -> int | None:
    """Return the number of the newest delivery in a version of an append source; None for other versions."""
    found = DELIVERED.fullmatch(data_version)
    return int(found[1]) if found else None


def advice(asset_id: str, number: int) -> str:
    """Return how to go on after a delivery that cannot be read."""
    return (
        f"this is delivery {number} of '{asset_id}'; repair the file, or leave it out for all consumers with "
        f"`freshline delivery skip {asset_id} {number} --reason TEXT`"
    )


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery of an append source: what was reported, and the path that it added, if any."""

    number: int
    path: str | None
    version: str | None
    payload: Any
    reported_at: str


@dataclass(frozen=True, slots=True)
class DeliveryRange:
    """The deliveries from 1 to `last`, without the `skipped` numbers, which are in order.

    Compaction moves deliveries and never renumbers them, so a range names the same ones for ever.
    """

    last: int = 0
    skipped: Sequence[int] = ()

    @property
    def count(self) -> int:
        """The number of deliveries that are read."""
        return self.last - len(self.skipped)

    def number(self, index: int) -> int:
        """Return the number of the delivery at an index."""
        skipped = self.skipped
        before = bisect_right(range(len(skipped)), index, key=lambda at: skipped[at] - at - 1)
        return index + 1 + before

    def index_after(self, number: int) -> int:
        """Return the index of the first delivery with a higher number."""
        return min(number, self.last) - bisect_right(self.skipped, min(number, self.last))


Fetch = Callable[[int, int], Sequence[Delivery]]
"""Returns the deliveries from one number to another, in order. Of large ones only the first, at least one."""


class Deliveries(Sequence[Delivery]):
    """Deliveries in order. It has a length and slices at once; what is looked at is loaded from the store in pages.

    `resolve` is applied to each delivery that is looked at.
    """

    def __init__(
        self, known: DeliveryRange, fetch: Fetch, resolve: Callable[[Delivery], Delivery] = lambda one: one
    ) -> None:
        self._known = known
        self._page = lru_cache(maxsize=KEPT_PAGES)(lambda first: _load(fetch, first, min(first + PAGE - 1, known.last)))
        self._resolve = resolve
        self._indexes = range(known.count)

    def __len__(self) -> int:
        return len(self._indexes)

    @overload
    def __getitem__(self, index: int) -> Delivery: ...
    @overload
    def __getitem__(self, index: slice) -> Deliveries: ...
    def __getitem__(self, index: int | slice) -> Delivery | Deliveries:
        if isinstance(index, slice):
            return self._part(self._indexes[index])
        return self._at(self._indexes[index])

    def __iter__(self) -> Iterator[Delivery]:
        return map(self._at, self._indexes)

    def __repr__(self) -> str:
        return f"<{counted(len(self), 'delivery', 'deliveries')}>"

    def after(self, number: int | None) -> Deliveries:
        """Return the deliveries with a higher number; all for None."""
        first = 0 if number is None else self._known.index_after(number)
        return self._part(range(first, self._known.count))

    def each(self, look: Callable[[Delivery], Delivery]) -> Deliveries:
        """Return the same deliveries; `look` is applied to each that is looked at."""
        resolve = self._resolve
        return self._part(self._indexes, lambda one: look(resolve(one)))

    def _part(self, indexes: range, resolve: Callable[[Delivery], Delivery] | None = None) -> Deliveries:
        part = object.__new__(Deliveries)
        part._known, part._page, part._indexes = self._known, self._page, indexes
        part._resolve = resolve or self._resolve
        return part

    def _at(self, index: int) -> Delivery:
        number = self._known.number(index)
        first = number - (number - 1) % PAGE
        return self._resolve(self._page(first)[number - first])


def _load(fetch: Fetch, first: int, last: int) -> list[Delivery]:
    """Return the deliveries from one number to another."""
    found: list[Delivery] = []
    while first + len(found) <= last:
        more = fetch(first + len(found), last)
        if not more:
            raise JobError(f"delivery {first + len(found)} is missing; `freshline doctor` looks for the reason")
        found += more
    return found
