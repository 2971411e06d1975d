"""Mappings between one dimension of an input and one of its consumer. `mapping` combines them.

Each pair of functions is exact: a value p is in `down({k})` if and only if k is in `up({p})`, and both map a union to
the union of the results. Values outside the defined range of either side map to nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from freshline.partitions.calendar import END, Window
from freshline.partitions.key_partitionings import DynamicKeys, FixedKeys
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.selection import (
    EVERYTHING,
    Selection,
    keys_of,
    times_of,
)
from freshline.partitions.time_partitioning import TimePartitioning


class Link(ABC):
    """A dimension of the input whose values follow from a dimension of the consumer."""

    @abstractmethod
    def up(self, selection: Selection) -> Selection:
        """Return the values of the input that the selected values of the consumer read."""

    @abstractmethod
    def down(self, selection: Selection) -> Selection:
        """Return the values of the consumer that read the selected values of the input."""


@dataclass(frozen=True)
class TimeLink(Link):
    """Windows around windows.

    A consumer's window reads from the input's window `first` after the first one that overlaps it to the one `last`
    after the last. With 0 and 0 it is `overlap`, and `same` if the calendars are equal.
    """

    input: TimePartitioning
    consumer: TimePartitioning
    first: int = 0
    last: int = 0

    def up(self, selection: Selection) -> Selection:
        """Return the windows of the input around windows of the consumer."""
        return times_of(self._up(one) for one in self.consumer.aligned(selection))

    def down(self, selection: Selection) -> Selection:
        """Return the windows of the consumer around which windows of the input lie."""
        return times_of(self._down(one) for one in self.input.aligned(selection))

    def _up(self, window: Window) -> Window:
        calendar = self.input.calendar
        first = calendar.ordinal_at(window.begins) + self.first
        last = calendar.last if window.ends == END else calendar.ordinal_from(window.ends) - 1 + self.last
        return self.input.range_of(first, last)

    def _down(self, window: Window) -> Window:
        calendar = self.input.calendar
        first, last = calendar.ordinal_at(window.begins), calendar.ordinal_from(window.ends) - 1
        # A consumer's window reads this one if it overlaps the time from `last` windows before it to `first` before it.
        begins = calendar.begins(calendar.clip(first - self.last))
        ends = END if window.ends == END else calendar.begins(calendar.clip(last - self.first) + 1)
        return self.consumer.range_of(*self.consumer.ordinals(Window(begins, ends)))


@dataclass(frozen=True)
class KeyLink(Link):
    """Equal keys."""

    input: FixedKeys | DynamicKeys
    consumer: FixedKeys | DynamicKeys

    @cached_property
    def _common(self) -> Selection:
        """The keys that both define."""
        fixed = [keys_of(side.values) for side in (self.input, self.consumer) if isinstance(side, FixedKeys)]
        common: Selection = EVERYTHING
        for one in fixed:
            common = common.intersection(one)
        return common

    def up(self, selection: Selection) -> Selection:
        """Return the same keys."""
        return selection.intersection(self._common)

    def down(self, selection: Selection) -> Selection:
        """Return the same keys."""
        return selection.intersection(self._common)


class Slice(ABC):
    """A dimension of the input whose values do not depend on the consumer's key."""

    @abstractmethod
    def selected(self, newest: Sequence[str]) -> Selection:
        """Return the values that every consumer's partition reads. `newest`: values with data, from new to old."""

    @abstractmethod
    def readable(self, newest: Sequence[str]) -> Selection:
        """Return the values that are read, or would be read if they had data."""


@dataclass(frozen=True)
class FixedSlice(Slice):
    """Everything, or chosen values."""

    selection: Selection = EVERYTHING

    def selected(self, newest: Sequence[str]) -> Selection:
        """Return the values."""
        return self.selection

    def readable(self, newest: Sequence[str]) -> Selection:
        """Return the values."""
        return self.selection


@dataclass(frozen=True)
class LatestSlice(Slice):
    """The newest values that have data."""

    input: Partitioning
    count: int

    def selected(self, newest: Sequence[str]) -> Selection:
        """Return the first of the newest. Keys that a shorter definition left outside do not count."""
        return self.input.select(self._first(newest))

    def readable(self, newest: Sequence[str]) -> Selection:
        """Return what is not older than the oldest that is read; everything if the order of new values is not known."""
        first = self._first(newest)
        if len(first) < self.count:
            return EVERYTHING
        if isinstance(self.input, TimePartitioning):
            return times_of([Window(self.input.calendar.begins(self.input.calendar.ordinal(first[-1])), END)])
        if isinstance(self.input, FixedKeys):
            return keys_of(self.input.values[: self.input.values.index(first[-1]) + 1])
        return EVERYTHING

    def _first(self, newest: Sequence[str]) -> list[str]:
        return list(islice(filter(self.input.defines, dict.fromkeys(newest)), self.count))
