"""Products of two or three partitionings: a day and a region. A key holds one value per dimension: `2024-01-31|eu`.

With a dynamic dimension only the products that were seen exist, so `known` holds whole keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from math import prod

from freshline.errors import PartitioningError, PartitionKeyError
from freshline.model.json import Json
from freshline.partitions import keys as texts
from freshline.partitions.calendar import Window
from freshline.partitions.key_partitionings import DynamicKeys, FixedKeys, newest_of
from freshline.partitions.keys import SEPARATOR, shown
from freshline.partitions.partitioning import Column, Known, Newness, Partitioning
from freshline.partitions.selection import (
    EVERYTHING,
    NOTHING,
    Everything,
    Point,
    Products,
    Selection,
    products_of,
    union,
)
from freshline.partitions.time_partitioning import TimePartitioning
from freshline.plural import counted

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
FEWEST, MOST = 2, 3

Dimension = TimePartitioning | FixedKeys | DynamicKeys


@dataclass(frozen=True)
class Dimensions(Partitioning):
    """A product of partitionings, each with the name of its column. The order is that of the values in a key."""

    items: tuple[tuple[str, Dimension], ...]

    def __post_init__(self) -> None:
        if not FEWEST <= len(self.items) <= MOST:
            raise PartitioningError(
                f"dimensions has {counted(len(self.items), 'entry', 'entries')}; allowed are {FEWEST} or {MOST}"
            )
        for name, partitioning in self.items:
            _require_dimension(name, partitioning)
        if len({name.lower() for name in self.names}) < len(self.items):
            raise PartitioningError(
                f"dimensions has a name twice: {', '.join(self.names)}; allowed are different names, in any case"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the dimensions."""
        return tuple(name for name, _ in self.items)

    @cached_property
    def axes(self) -> tuple[Dimension, ...]:
        """The partitionings of the dimensions."""
        return tuple(partitioning for _, partitioning in self.items)

    @property
    def is_dynamic(self) -> bool:
        """Whether keys exist only once they were seen."""
        return any(axis.is_dynamic for axis in self.axes)

    @property
    def columns(self) -> tuple[Column, ...]:
        """One column per dimension."""
        return tuple(Column(name, axis.columns[0].type) for name, axis in self.items)

    @cached_property
    def _time(self) -> int | None:
        """The place of the first time dimension, which gives a key its window and its age."""
        return next((n for n, axis in enumerate(self.axes) if isinstance(axis, TimePartitioning)), None)

    @cached_property
    def _outer_first(self) -> tuple[int, ...]:
        """The places of the dimensions, time first: keys come in the order of time."""
        return tuple(sorted(range(len(self.axes)), key=lambda place: place != self._time))

    def parse(self, key: str | Mapping[str, str]) -> str:
        """Return the key of a text or of an object with one value per dimension."""
        values = texts.split(key) if isinstance(key, str) else self._values(key)
        if len(values) != len(self.items):
            raise PartitionKeyError(
                f"partition key {shown(str(key))} has {len(values)} of {len(self.items)} values; allowed is one for"
                f" each of {', '.join(self.names)}, separated by '{SEPARATOR}', such as {self.example}"
            )
        return texts.join(
            [self._parsed(name, axis, value) for (name, axis), value in zip(self.items, values, strict=True)]
        )

    def split(self, key: str) -> tuple[str, ...]:
        """Return the values of a key, one per dimension."""
        return texts.split(key)

    def point(self, key: str) -> Point:
        """Return the points of the values."""
        return tuple(axis.point(value) for axis, value in zip(self.axes, texts.split(key), strict=True))

    def window(self, key: str) -> Window | None:
        """Return the window of the first time dimension."""
        return None if self._time is None else self.axes[self._time].window(texts.split(key)[self._time])

    def newness(self, key: str) -> Newness:
        """Return when the window of the first time dimension is the newest."""
        return Newness() if self._time is None else self.axes[self._time].newness(texts.split(key)[self._time])

    def comes_at(self, key: str) -> datetime | None:
        """Return when the time of the last value comes."""
        found = (axis.comes_at(value) for axis, value in zip(self.axes, texts.split(key), strict=True))
        return max((at for at in found if at is not None), default=None)

    def keys(
        self, selection: Selection, now: datetime, known: Known = (), *, newest_first: bool = True
    ) -> Iterator[str]:
        """Yield the existing keys of a selection: by time, then in the order of the other dimensions."""
        if self.is_dynamic:
            return self._seen(selection, now, known, newest_first=newest_first)
        chosen = self._products(selection)
        inner = [tuple(product[place] for place in self._outer_first) for product in chosen]
        axes = [self.axes[place] for place in self._outer_first]
        found = _walk(axes, inner, now, newest_first=newest_first)
        back = [self._outer_first.index(place) for place in range(len(axes))]
        return (SEPARATOR.join([values[place] for place in back]) for values in found)

    def count(self, now: datetime, known: Known = ()) -> int:
        """Return the number of existing keys."""
        if self.is_dynamic:
            return sum(1 for _ in self._begun(known, now))
        return prod(axis.count(now) for axis in self.axes)

    def newest(self, now: datetime, known: Known = (), count: int = 1) -> Selection:
        """Return all keys of the newest windows; without a time dimension, those of the dynamic values seen last."""
        if self._time is not None:
            return self._only(self._time, self.axes[self._time].newest(now, (), count))
        place = next((n for n, axis in enumerate(self.axes) if axis.is_dynamic), None)
        if place is None:
            return EVERYTHING
        values = dict.fromkeys(texts.split(key)[place] for key in known)
        return self._only(place, self.axes[place].newest(now, values, count))

    def arrived(self, since: datetime, until: datetime) -> Selection:
        """Return the keys of which the time of a dimension came. Whether the others have come, existence says."""
        return union(self._only(place, axis.arrived(since, until)) for place, axis in enumerate(self.axes))

    def ending_after(self, at: datetime) -> Selection:
        """Return the keys whose windows of the first time dimension end after a moment."""
        return EVERYTHING if self._time is None else self._only(self._time, self.axes[self._time].ending_after(at))

    def ended(self, since: datetime, until: datetime) -> Selection:
        """Return the keys whose windows of the first time dimension ended from `since` to `until`, both included."""
        return NOTHING if self._time is None else self._only(self._time, self.axes[self._time].ended(since, until))

    def next_end_after(self, at: datetime) -> datetime | None:
        """Return the first end of a window of the first time dimension after a moment."""
        return None if self._time is None else self.axes[self._time].next_end_after(at)

    def next_key_at(self, now: datetime) -> datetime | None:
        """Return when the next value of a time dimension comes to exist."""
        return min((at for axis in self.axes if (at := axis.next_key_at(now)) is not None), default=None)

    def select(self, keys: Iterable[str]) -> Selection:
        """Return the selection of single keys."""
        return products_of(
            [
                tuple(
                    axis.select((value,)) for axis, value in zip(self.axes, texts.split(self.parse(key)), strict=True)
                )
                for key in keys
            ]
        )

    def between(self, first: str | None = None, last: str | None = None) -> Selection:
        """Return the selection of the times of the first time dimension, with all values of the others."""
        if self._time is None:
            return super().between(first, last)
        return self._only(self._time, self.axes[self._time].between(first, last))

    def older(self, key: str) -> Selection:
        """Return the selection of the times up to that of a key, with all values of the other dimensions."""
        values = texts.split(self.parse(key))
        return EVERYTHING if self._time is None else self.between(None, values[self._time])

    def product(self, chosen: Mapping[str, Selection]) -> Selection:
        """Return the product of a selection per dimension; everything of those that are not named."""
        if unknown := chosen.keys() - set(self.names):
            raise PartitionKeyError(
                f"dimension {shown(min(unknown))} does not exist; allowed are {', '.join(self.names)}"
            )
        return products_of([tuple(chosen.get(name, EVERYTHING) for name in self.names)])

    def column_values(self, key: str) -> tuple[str | date | datetime, ...]:
        """Return one value per dimension."""
        return tuple(axis.column_values(value)[0] for axis, value in zip(self.axes, texts.split(key), strict=True))

    def as_json(self) -> Json:
        """Return the stored form: a list, because the order of an object in JSON is not kept everywhere."""
        return {"dimensions": [{"name": name, **axis.as_json()} for name, axis in self.items]}

    @property
    def example(self) -> str:
        """A valid key."""
        return SEPARATOR.join(axis.example for axis in self.axes)

    def _values(self, key: Mapping[str, str]) -> tuple[str, ...]:
        if set(key) != set(self.names):
            raise PartitionKeyError(
                f"partition key {shown(str(dict(key)))} does not name the dimensions; allowed is one value for each of"
                f" {', '.join(self.names)}"
            )
        return tuple(key[name] for name in self.names)

    def _parsed(self, name: str, axis: Dimension, value: str) -> str:
        try:
            return axis.parse(value)
        except PartitionKeyError as error:
            raise PartitionKeyError(f"dimension '{name}': {error.message}", hint=error.hint) from None

    def _only(self, place: int, selection: Selection) -> Selection:
        return products_of([tuple(selection if n == place else EVERYTHING for n in range(len(self.axes)))])

    def _products(self, selection: Selection) -> Sequence[tuple[Selection, ...]]:
        if isinstance(selection, Everything):
            return [(EVERYTHING,) * len(self.axes)]
        if isinstance(selection, Products):
            return selection.products
        if selection.is_empty:
            return []
        raise TypeError(f"{selection!r} does not select dimensions")

    def _begun(self, known: Iterable[str], now: datetime) -> Iterator[str]:
        """Yield the known keys whose time has come. Keys of one grain sort as texts in the order of time."""
        newest = [
            (place, axis.calendar.key(axis.newest_ordinal(now)))
            for place, axis in enumerate(self.axes)
            if isinstance(axis, TimePartitioning)
        ]
        for key in known:
            values = texts.split(key)
            if all(values[place] <= last for place, last in newest):
                yield key

    def _seen(self, selection: Selection, now: datetime, known: Known, *, newest_first: bool) -> Iterator[str]:
        order = self._begun(newest_of(known) if newest_first else known, now)
        everything = isinstance(selection, Everything)
        found = order if everything else (key for key in order if selection.has(self.point(key)))
        if (place := self._time) is None:
            return found
        # The sort is stable: keys of one time stay by first seen.
        return iter(sorted(found, key=lambda key: texts.split(key)[place], reverse=newest_first))


def _require_dimension(name: str, axis: Partitioning) -> None:
    if not NAME.fullmatch(name):
        raise PartitioningError(
            f"dimension {shown(name)} is not a name; allowed are 1-100 letters, digits and _, no digit first"
        )
    if not isinstance(axis, Dimension):
        raise PartitioningError(
            f"dimension '{name}' is not a partitioning by time, keys or dynamic keys; allowed are these three"
        )
    for value in axis.values if isinstance(axis, FixedKeys) else ():
        texts.require_value(value)


def _walk(
    axes: Sequence[Dimension], chosen: Sequence[tuple[Selection, ...]], now: datetime, *, newest_first: bool
) -> Iterator[tuple[str, ...]]:
    """Yield the values of a union of products, each once, the first dimension outermost."""
    axis, *rest = axes
    for value in axis.keys(union(product[0] for product in chosen), now, newest_first=newest_first):
        if not rest:
            yield (value,)
            continue
        left = chosen if len(chosen) == 1 else [one for one in chosen if one[0].has(axis.point(value))]
        for inner in _walk(rest, [product[1:] for product in left], now, newest_first=newest_first):
            yield (value, *inner)
