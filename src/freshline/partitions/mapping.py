"""Which keys of an input a partition of its consumer reads (`up`), and which partitions read a key (`down`).

`p in down(k)` if and only if `k in up(p)`, for all keys that both definitions have. `up_all` and `down_all` map sets of
keys exactly: the result for a selection is the union of the results for its keys. So mappings compose along a graph.
None of them looks at what exists: a selection may name keys that do not exist yet, or products that nobody has seen.

Make mappings with `compatibility.mapping_between`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product as products_in_order
from types import MappingProxyType

from freshline.partitions import keys as texts
from freshline.partitions.axis import FixedSlice, LatestSlice, Link, Slice, TimeLink
from freshline.partitions.calendar import Window
from freshline.partitions.declaration import Affects
from freshline.partitions.dimensions import Dimension, Dimensions
from freshline.partitions.key_partitionings import FixedKeys
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.selection import (
    EVERYTHING,
    NOTHING,
    Everything,
    Keys,
    Point,
    Products,
    Selection,
    Times,
    keys_of,
    products_of,
    times_of,
    union,
)
from freshline.partitions.time_partitioning import TimePartitioning

Axes = tuple[Selection, ...]
Values = Mapping[int, Sequence[str]]
NO_VALUES: Values = MappingProxyType({})


@dataclass(frozen=True)
class Linked:
    """A dimension of the input that follows from the consumer's dimension at a place."""

    link: Link
    place: int


@dataclass(frozen=True)
class PartitionMapping:
    """The keys of an input and of its consumer. `axes`: how each dimension of the input follows, in its order.

    `newest` in its methods: of each dimension of the input with `latest`, by place, its values with data, from new to
    old. `newest.newest_values` returns them.
    """

    input: Partitioning
    consumer: Partitioning
    axes: tuple[Linked | Slice, ...] = ()
    affects: Affects = Affects.ALL

    @property
    def latest(self) -> Mapping[int, LatestSlice]:
        """The dimensions of the input of which it reads the newest values with data, by place."""
        return {n: axis for n, axis in enumerate(self.axes) if isinstance(axis, LatestSlice)}

    @property
    def reads_all(self) -> bool:
        """Whether every partition of the consumer reads all partitions of the input."""
        return all(isinstance(axis, FixedSlice) and axis.selection == EVERYTHING for axis in self.axes)

    def up(self, key: str, newest: Values = NO_VALUES) -> Selection:
        """Return the keys of the input that a consumer's partition reads."""
        return self.up_all(_single(self.consumer, key), newest)

    def down(self, key: str, newest: Values = NO_VALUES) -> Selection:
        """Return the consumer's partitions that read a key of the input."""
        return self.down_all(_single(self.input, key), newest)

    def up_all(self, selection: Selection, newest: Values = NO_VALUES) -> Selection:
        """Return the keys of the input that any of the selected consumer's partitions reads."""
        return self._up_all(selection, self._slices(newest))

    def readable_all(self, selection: Selection, newest: Values = NO_VALUES) -> Selection:
        """Return the keys of the input that these partitions read, or would read if they had data."""
        slices = {n: axis.readable(newest.get(n, ())) for n, axis in enumerate(self.axes) if isinstance(axis, Slice)}
        return self._up_all(selection, slices)

    def _up_all(self, selection: Selection, slices: Mapping[int, Selection]) -> Selection:
        found = [
            tuple(
                axis.link.up(chosen[axis.place]) if isinstance(axis, Linked) else slices[n]
                for n, axis in enumerate(self.axes)
            )
            for chosen in _products(selection, self.consumer)
        ]
        return _selection(found, self.input)

    def down_all(self, selection: Selection, newest: Values = NO_VALUES) -> Selection:
        """Return the consumer's partitions that read any of the selected keys of the input."""
        slices = self._slices(newest)
        found = [
            self._down(chosen)
            for chosen in _products(selection, self.input)
            if not any(part.intersection(chosen[n]).is_empty for n, part in slices.items())
        ]
        return _selection(found, self.consumer)

    def affected(self, key: str, newest_then: Selection, newest: Values = NO_VALUES) -> Selection:
        """Return the consumer's partitions that a change of an input's key makes stale.

        They are those that read it, except for an unpartitioned input with `affects`. `newest_then`: the consumer's
        newest partitions when the changed snapshot was produced. Judged later, the last change of a day would be lost.
        """
        match self.affects:
            case Affects.ALL:
                return self.down(key, newest)
            case Affects.LATEST:
                return newest_then
            case Affects.NONE:
                return NOTHING

    def appearing(self, key: str) -> Iterator[str]:
        """Yield the keys of a dynamic consumer that come to exist because the input has a key.

        A dynamic dimension of the consumer takes the values of an input that is mapped `same`. A time takes the windows
        that overlap that of the key, also if the mapping reads more around them. If the input does not decide the time
        of the consumer, it decides no key.
        """
        if not self.consumer.is_dynamic or not self._decides_keys():
            return
        overlapping = replace(self, axes=tuple(_without_window(axis) for axis in self.axes))
        for chosen in _products(overlapping.down(key), self.consumer):
            values = [_defined(part, axis) for part, axis in zip(chosen, axes_of(self.consumer), strict=True)]
            yield from map(texts.SEPARATOR.join, products_in_order(*values))

    def with_earlier(self, selection: Selection) -> Selection:
        """Return a selection with all earlier keys, for a consumer that reads its own output.

        They are what the selected keys descend from. It is a superset where a window leaves keys out: with
        `window: {from: -7, to: -7}` it holds every earlier day, not every seventh.
        """
        return self._closed(selection, self.up_all(selection), earlier=True)

    def with_later(self, selection: Selection) -> Selection:
        """Return a selection with all later keys, for a consumer that reads its own output: its descendants."""
        return self._closed(selection, self.down_all(selection), earlier=False)

    def _down(self, chosen: Axes) -> Axes:
        found: list[Selection] = [EVERYTHING] * len(axes_of(self.consumer))
        for axis, part in zip(self.axes, chosen, strict=True):
            if isinstance(axis, Linked):
                found[axis.place] = found[axis.place].intersection(axis.link.down(part))
        return tuple(found)

    def _slices(self, newest: Values) -> dict[int, Selection]:
        """Return the values of the dimensions that do not depend on the consumer's key, by place."""
        return {n: axis.selected(newest.get(n, ())) for n, axis in enumerate(self.axes) if isinstance(axis, Slice)}

    def _decides_keys(self) -> bool:
        """Return whether every dimension of the consumer that is not a list follows from the input."""
        followed = {axis.place for axis in self.axes if isinstance(axis, Linked)}
        return all(n in followed or isinstance(axis, FixedKeys) for n, axis in enumerate(axes_of(self.consumer)))

    def _closed(self, selection: Selection, step: Selection, *, earlier: bool) -> Selection:
        """Return a selection with one step and all times on that side of it."""
        place = next(axis.place for axis in self.axes if isinstance(axis, Linked) and isinstance(axis.link, TimeLink))
        side = axes_of(self.consumer)[place]
        found = [
            tuple(_one_side(part, side, earlier=earlier) if n == place else part for n, part in enumerate(chosen))
            for chosen in _products(step, self.consumer)
        ]
        return selection.union(_selection(found, self.consumer))


def axes_of(partitioning: Partitioning) -> tuple[Dimension, ...]:
    """Return the dimensions of a partitioning: itself if it has none, and nothing without partitions."""
    if isinstance(partitioning, Dimensions):
        return partitioning.axes
    if isinstance(partitioning, Dimension):
        return (partitioning,)
    return ()


def _without_window(axis: Linked | Slice) -> Linked | Slice:
    if isinstance(axis, Linked) and isinstance(axis.link, TimeLink):
        return Linked(replace(axis.link, first=0, last=0), axis.place)
    return axis


def _single(partitioning: Partitioning, key: str) -> Selection:
    """Return the selection of one key. It need not be in the range."""
    return _at(partitioning.point(key)) if axes_of(partitioning) else EVERYTHING


def _at(point: Point) -> Selection:
    if isinstance(point, Window):
        return times_of((point,))
    return keys_of((point,)) if isinstance(point, str) else products_of([tuple(_at(one) for one in point)])


def _products(selection: Selection, partitioning: Partitioning) -> Sequence[Axes]:
    """Return a selection as products of its dimensions, of which there may be one or none."""
    if selection.is_empty:
        return ()
    if isinstance(selection, Products):
        return selection.products
    if isinstance(selection, Everything):
        return ((EVERYTHING,) * len(axes_of(partitioning)),)
    return ((selection,),) if axes_of(partitioning) else ((),)


def _selection(found: Sequence[Axes], partitioning: Partitioning) -> Selection:
    """Return the selection of products. The inverse of `_products`."""
    if isinstance(partitioning, Dimensions):
        return products_of(found)
    if axes_of(partitioning):
        return union(axis for (axis,) in found)
    return EVERYTHING if found else NOTHING


def _defined(selection: Selection, axis: Dimension) -> list[str]:
    """Return the defined values of a selection, in order."""
    if isinstance(axis, TimePartitioning):
        ranges = selection.ranges if isinstance(selection, Times) else ()
        ordinals = (range(first, last + 1) for first, last in map(axis.ordinals, ranges))
        return [axis.calendar.key(ordinal) for one in ordinals for ordinal in one]
    if isinstance(selection, Keys):
        return sorted(selection.keys)
    return list(axis.values) if isinstance(axis, FixedKeys) else []


def _one_side(selection: Selection, axis: Dimension, *, earlier: bool) -> Selection:
    """Return all times from the first key to the end of a selection, or from its begin on."""
    if not isinstance(selection, Times) or not isinstance(axis, TimePartitioning):
        return selection
    first, last = selection.ranges[0], selection.ranges[-1]
    return times_of([Window(axis.span.begins, last.ends) if earlier else Window(first.begins, axis.span.ends)])
