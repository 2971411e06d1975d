"""Sets of keys that stay small however many keys they hold: everything, times, keys, and products of dimensions.

A selection has the form of its partitioning, so that union and intersection need nothing else:

- `Times` for time partitions: ranges of instants. They consist of whole windows of their partitioning, so a key is
  selected if its window overlaps one. Because they are instants, they compose over grains and zones.
- `Keys` for fixed and dynamic keys.
- `Products` for dimensions: a union of products, each with one selection per dimension.
- `EVERYTHING`, also keys that come to exist later, and `NOTHING`, for all of them.

All operations are exact. Only `bounded` returns a superset; its caller says with the call that a superset is safe.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from itertools import pairwise
from operator import attrgetter
from typing import Protocol, Self, TypeVar

from freshline.model.json import Json
from freshline.model.moment import iso
from freshline.partitions.calendar import BEGINNING, END, Window

MOST_PARTS = 64
MOST_KEYS = 1_000

Stored = str | Json
Point = Window | str | tuple["Point", ...]
"""Where a key is: the window of a time key, the text of another, and one of these per dimension."""


class Located(Protocol):
    """A partitioning, as selections see it."""

    def point(self, key: str) -> Point:
        """Return where a key is."""


class Selection(ABC):
    """A set of keys of one partitioning."""

    @property
    def is_empty(self) -> bool:
        """Whether it holds no key of any partitioning."""
        return False

    def contains(self, key: str, partitioning: Located) -> bool:
        """Return whether a key of the partitioning is in the set."""
        return self.has(partitioning.point(key))

    def union(self, other: Selection) -> Selection:
        """Return the keys that are in one of the two."""
        if self.is_empty or isinstance(other, Everything):
            return other
        if other.is_empty or isinstance(self, Everything):
            return self
        return self._union(_same_form(self, other))

    def intersection(self, other: Selection) -> Selection:
        """Return the keys that are in both."""
        if self.is_empty or isinstance(other, Everything):
            return self
        if other.is_empty or isinstance(self, Everything):
            return other
        return self._intersection(_same_form(self, other))

    @abstractmethod
    def has(self, point: Point) -> bool:
        """Return whether the key at a point is in the set."""

    @abstractmethod
    def bounded(self, parts: int = MOST_PARTS, keys: int = MOST_KEYS) -> Selection:
        """Return the set itself if it has few parts, and otherwise a superset that has."""

    @abstractmethod
    def as_json(self) -> Stored:
        """Return the stored form; `from_json` reads it."""

    def _union(self, other: Self) -> Selection:
        raise NotImplementedError  # `union` answers for everything and nothing

    def _intersection(self, other: Self) -> Selection:
        raise NotImplementedError


@dataclass(frozen=True)
class Everything(Selection):
    """All keys, also those that come to exist later."""

    def has(self, point: Point) -> bool:
        """Return True."""
        return True

    def bounded(self, parts: int = MOST_PARTS, keys: int = MOST_KEYS) -> Selection:
        """Return itself."""
        return self

    def as_json(self) -> Stored:
        """Return the stored form."""
        return "everything"


@dataclass(frozen=True)
class Nothing(Selection):
    """No key."""

    @property
    def is_empty(self) -> bool:
        """Whether it holds no key of any partitioning: always."""
        return True

    def has(self, point: Point) -> bool:
        """Return False."""
        return False

    def bounded(self, parts: int = MOST_PARTS, keys: int = MOST_KEYS) -> Selection:
        """Return itself."""
        return self

    def as_json(self) -> Stored:
        """Return the stored form."""
        return "nothing"


@dataclass(frozen=True)
class Times(Selection):
    """Ranges of time, at least one. Make it with `times_of()`, which puts them in order and joins those that touch."""

    ranges: tuple[Window, ...]

    def has(self, point: Point) -> bool:
        """Return whether a window overlaps a range."""
        if not isinstance(point, Window):
            raise TypeError(f"a time selection cannot contain {point!r}")
        before = bisect_left(self.ranges, point.ends, key=attrgetter("begins"))
        return before > 0 and self.ranges[before - 1].ends > point.begins

    def bounded(self, parts: int = MOST_PARTS, keys: int = MOST_KEYS) -> Selection:
        """Return few ranges: the smallest gaps are filled."""
        if len(self.ranges) <= parts:
            return self
        gaps = sorted((after.begins - before.ends, n) for n, (before, after) in enumerate(pairwise(self.ranges), 1))
        starts = sorted(n for _, n in gaps[len(gaps) - parts + 1 :])
        return Times(
            tuple(
                Window(self.ranges[first].begins, self.ranges[end - 1].ends)
                for first, end in pairwise([0, *starts, len(self.ranges)])
            )
        )

    def as_json(self) -> Stored:
        """Return the stored form: pairs of times; null for a range without begin or end."""
        return {"times": [[_stored(one.begins), _stored(one.ends)] for one in self.ranges]}

    def _union(self, other: Self) -> Selection:
        return times_of([*self.ranges, *other.ranges])

    def _intersection(self, other: Self) -> Selection:
        return times_of(_common(self.ranges, other.ranges))


@dataclass(frozen=True)
class Keys(Selection):
    """Single keys of a partitioning by fixed or dynamic keys, at least one. Make it with `keys_of()`."""

    keys: frozenset[str]

    def has(self, point: Point) -> bool:
        """Return whether the key is one of them."""
        return point in self.keys

    def bounded(self, parts: int = MOST_PARTS, keys: int = MOST_KEYS) -> Selection:
        """Return everything if there are many keys."""
        return self if len(self.keys) <= keys else EVERYTHING

    def as_json(self) -> Stored:
        """Return the stored form: the keys in order."""
        return {"keys": sorted(self.keys)}

    def _union(self, other: Self) -> Selection:
        return keys_of(self.keys | other.keys)

    def _intersection(self, other: Self) -> Selection:
        return keys_of(self.keys & other.keys)


@dataclass(frozen=True)
class Products(Selection):
    """A union of products, each with one selection per dimension. Make it with `products_of()`, which joins them."""

    products: tuple[tuple[Selection, ...], ...]

    def has(self, point: Point) -> bool:
        """Return whether all values are in the selections of one product."""
        if isinstance(point, Window | str):
            raise TypeError(f"a selection of dimensions cannot contain {point!r}")
        return any(all(axis.has(one) for axis, one in zip(product, point, strict=True)) for product in self.products)

    def bounded(self, parts: int = MOST_PARTS, keys: int = MOST_KEYS) -> Selection:
        """Return few products of bounded selections: beyond the limit, the one that contains all of them."""
        found = products_of([tuple(axis.bounded(parts, keys) for axis in product) for product in self.products])
        if not isinstance(found, Products) or len(found.products) <= parts:
            return found
        axes = zip(*found.products, strict=True)
        return products_of([tuple(union(axis).bounded(parts, keys) for axis in axes)])

    def as_json(self) -> Stored:
        """Return the stored form: per product, the selections of its dimensions."""
        return {"products": [[axis.as_json() for axis in product] for product in self.products]}

    def _union(self, other: Self) -> Selection:
        return products_of([*self.products, *other.products])

    def _intersection(self, other: Self) -> Selection:
        return products_of(
            [
                tuple(a.intersection(b) for a, b in zip(one, another, strict=True))
                for one in self.products
                for another in other.products
            ]
        )


EVERYTHING = Everything()
NOTHING = Nothing()
_Form = TypeVar("_Form", bound=Selection)


def times_of(ranges: Iterable[Window]) -> Selection:
    """Return a selection of times. The ranges consist of whole windows of the partitioning."""
    joined: list[Window] = []
    for one in sorted(ranges):
        if one.begins >= one.ends:
            continue
        if joined and one.begins <= joined[-1].ends:
            joined[-1] = Window(joined[-1].begins, max(joined[-1].ends, one.ends))
        else:
            joined.append(one)
    return Times(tuple(joined)) if joined else NOTHING


def keys_of(keys: Iterable[str]) -> Selection:
    """Return a selection of single keys."""
    found = frozenset(keys)
    return Keys(found) if found else NOTHING


def products_of(found: Iterable[tuple[Selection, ...]]) -> Selection:
    """Return a selection of dimensions. Products that differ in one dimension are joined."""
    left = {product: None for product in found if not any(axis.is_empty for axis in product)}
    for axis in range(len(next(iter(left), ()))):
        groups: dict[tuple[Selection, ...], list[Selection]] = {}
        for product in left:
            groups.setdefault((*product[:axis], *product[axis + 1 :]), []).append(product[axis])
        left = {(*rest[:axis], union(values), *rest[axis:]): None for rest, values in groups.items()}
    if any(all(isinstance(axis, Everything) for axis in product) for product in left):
        return EVERYTHING
    return Products(tuple(left)) if left else NOTHING


def union(selections: Iterable[Selection]) -> Selection:
    """Return the keys that are in one of the selections."""
    found = list(selections)
    if any(isinstance(one, Everything) for one in found):
        return EVERYTHING
    filled = [one for one in found if not one.is_empty]
    if filled and all(isinstance(one, Times) for one in filled):  # one sort instead of many
        return times_of(window for one in filled if isinstance(one, Times) for window in one.ranges)
    if filled and all(isinstance(one, Keys) for one in filled):
        return keys_of(key for one in filled if isinstance(one, Keys) for key in one.keys)
    nothing: Selection = NOTHING
    return reduce(Selection.union, filled, nothing)


def from_json(stored: object) -> Selection:
    """Read the stored form. Raise `ValueError` if it is none."""
    match stored:
        case "everything":
            return EVERYTHING
        case "nothing":
            return NOTHING
        case {"times": list(ranges)}:
            return times_of(Window(_moment(begins, BEGINNING), _moment(ends, END)) for begins, ends in ranges)
        case {"keys": list(keys)} if all(isinstance(key, str) for key in keys):
            return keys_of(keys)
        case {"products": list(found)}:
            return products_of([tuple(from_json(axis) for axis in product) for product in found])
        case _:
            raise ValueError(f"{str(stored)[:80]!r} is not a stored selection of partitions")


def _stored(moment: datetime) -> str | None:
    return iso(moment) if BEGINNING < moment < END else None


def _moment(stored: str | None, default: datetime) -> datetime:
    return default if stored is None else datetime.fromisoformat(stored).astimezone(UTC)


def _same_form(one: _Form, other: Selection) -> _Form:
    if not isinstance(other, type(one)):
        raise TypeError(f"{one!r} and {other!r} belong to different partitionings")
    return other


def _common(some: tuple[Window, ...], others: tuple[Window, ...]) -> Iterator[Window]:
    """Yield what two ordered tuples of ranges share."""
    a = b = 0
    while a < len(some) and b < len(others):
        begins: datetime = max(some[a].begins, others[b].begins)
        ends: datetime = min(some[a].ends, others[b].ends)
        if begins < ends:
            yield Window(begins, ends)
        if some[a].ends <= others[b].ends:
            a += 1
        else:
            b += 1
