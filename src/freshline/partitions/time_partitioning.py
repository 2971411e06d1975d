"""Partitions by time: minutes, hours, days, weeks, months and years from a start on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property

from freshline.errors import PartitioningError, PartitionKeyError
from freshline.model.json import Json
from freshline.partitions.calendar import END, UTC_NAME, Calendar, Window
from freshline.partitions.grain import Grain
from freshline.partitions.key_partitionings import text_of
from freshline.partitions.keys import shown
from freshline.partitions.partitioning import Column, Known, Newness, Partitioning
from freshline.partitions.selection import NOTHING, Everything, Point, Selection, Times, times_of
from freshline.partitions.zone import LAST_YEAR

_NEVER = re.compile(r"(\d{4})(-|$)", re.ASCII)
_TYPES = {Grain.MINUTE: "TIMESTAMP", Grain.HOUR: "TIMESTAMP", Grain.DAY: "DATE"}


@dataclass(frozen=True)
class TimePartitioning(Partitioning):
    """Windows of one grain. A key exists when its window has ended; with `open`, when it has begun.

    `start` and `end` are dates, times or keys on the clocks of the time zone. They are stored as keys: `start` as the
    first key, the first window that begins at `start` or later; `end` as the first key after the last window that ends
    at `end` or earlier. So a month that `start` or `end` cuts is not a partition. An `end` after the last year that
    keys have, such as 9999-12-31, is none.
    """

    grain: Grain
    start: str
    end: str | None = None
    timezone: str = UTC_NAME
    open: bool = False

    def __post_init__(self) -> None:
        first = self.calendar.ordinal_from(self._instant("start", self.start))
        object.__setattr__(self, "start", self.calendar.key(first))
        if self.end is None or _is_never(self.end):
            object.__setattr__(self, "end", None)
            return
        stop = self.calendar.ordinal_at(self._instant("end", self.end))
        if stop <= first:
            raise PartitioningError(
                f"no {self.grain} lies between start and end; the first one from start is {self.start}, and end is"
                f" {shown(self.end)}; allowed is {self.calendar.key(first + 1)} or later, because end is exclusive"
            )
        object.__setattr__(self, "end", self.calendar.key(stop))

    @cached_property
    def calendar(self) -> Calendar:
        """The windows."""
        return Calendar(self.grain, self.timezone)

    @cached_property
    def first(self) -> int:
        """The ordinal of the first key."""
        return self.calendar.ordinal(self.start)

    @cached_property
    def last(self) -> int:
        """The ordinal of the last key that the definition allows."""
        return self.calendar.last if self.end is None else self.calendar.ordinal(self.end) - 1

    @cached_property
    def span(self) -> Window:
        """The time from the first key to the last one."""
        return Window(
            self.calendar.begins(self.first), END if self.end is None else self.calendar.begins(self.last + 1)
        )

    @property
    def columns(self) -> tuple[Column, ...]:
        """The column of the key: named as the grain."""
        return (Column(str(self.grain), _TYPES.get(self.grain, "STRING")),)

    @property
    def example(self) -> str:
        """A valid key: the first one."""
        return self.start

    def parse(self, key: str | Mapping[str, str]) -> str:
        """Return the key if it is in the range. It need not exist yet."""
        text = text_of(key)
        ordinal = self.calendar.ordinal(text)
        if not self.first <= ordinal <= self.last:
            where = "before the first" if ordinal < self.first else "after the last"
            last = "and later" if self.end is None else f"to {self.calendar.key(self.last)}"
            raise PartitionKeyError(f"partition key {shown(text)} is {where}; allowed are {self.start} {last}")
        return text

    def point(self, key: str) -> Point:
        """Return the window of a key."""
        return self.calendar.window(key)

    def window(self, key: str) -> Window:
        """Return the window of a key."""
        return self.calendar.window(key)

    def comes_at(self, key: str) -> datetime:
        """Return when the window ends, or begins if it is open."""
        window = self.calendar.window(key)
        return window.begins if self.open else window.ends

    def newness(self, key: str) -> Newness:
        """Return the time from which the window exists until the next one does. The last one stays the newest."""
        ordinal = self.calendar.ordinal(key)
        following = None if ordinal >= self.last else self.comes_at(self.calendar.key(ordinal + 1))
        return Newness(self.comes_at(key), following)

    def newest_ordinal(self, now: datetime) -> int:
        """Return the ordinal of the newest existing key; one below the first if none exists."""
        running = self.calendar.ordinal_at(now)
        return max(min(running if self.open else running - 1, self.last), self.first - 1)

    def keys(
        self, selection: Selection, now: datetime, known: Known = (), *, newest_first: bool = True
    ) -> Iterator[str]:
        """Yield the existing keys of a selection by time."""
        newest = self.newest_ordinal(now)
        ranges = self.aligned(selection)
        for first, last in map(self.ordinals, reversed(ranges) if newest_first else ranges):
            found = range(first, min(last, newest) + 1)
            yield from map(self.calendar.key, reversed(found) if newest_first else found)

    def count(self, now: datetime, known: Known = ()) -> int:
        """Return the number of existing keys."""
        return self.newest_ordinal(now) - self.first + 1

    def newest(self, now: datetime, known: Known = (), count: int = 1) -> Selection:
        """Return the keys of the newest existing windows."""
        newest = self.newest_ordinal(now)
        return times_of([self.range_of(newest - count + 1, newest)]) if newest >= self.first else NOTHING

    def arrived(self, since: datetime, until: datetime) -> Selection:
        """Return the keys whose windows ended, or began if they are open, from `since` to `until`."""
        first = self.newest_ordinal(since - timedelta.resolution) + 1
        return times_of([self.range_of(first, self.newest_ordinal(until))])

    def ending_after(self, at: datetime) -> Selection:
        """Return the keys from the window that contains the moment on."""
        return times_of([self.range_of(self.first_after(at), self.last)])

    def ended(self, since: datetime, until: datetime) -> Selection:
        """Return the keys whose windows ended from `since` to `until`, both included."""
        first = self.first_after(since - timedelta.resolution)
        return times_of([self.range_of(first, self.first_after(until) - 1)])

    def next_end_after(self, at: datetime) -> datetime | None:
        """Return the end of the window that contains the moment."""
        found = self.first_after(at)
        return self.calendar.begins(found + 1) if found <= self.last else None

    def first_after(self, at: datetime) -> int:
        """Return the ordinal of the first window that ends after a moment."""
        return self.first if at <= self.span.begins else self.calendar.ordinal_at(at)

    def next_key_at(self, now: datetime) -> datetime | None:
        """Return when the next window ends, or begins if it is open."""
        following = self.newest_ordinal(now) + 1
        if following > self.last:
            return None
        return self.calendar.begins(following if self.open else following + 1)

    def select(self, keys: Iterable[str]) -> Selection:
        """Return the selection of single keys."""
        return times_of(self.calendar.window(self.parse(key)) for key in keys)

    def between(self, first: str | None = None, last: str | None = None) -> Selection:
        """Return the selection of the times from `first` to `last`, both included; None means without limit."""
        begins = self.span.begins if first is None else self.calendar.window(self.parse(first)).begins
        ends = self.span.ends if last is None else self.calendar.window(self.parse(last)).ends
        return times_of([Window(begins, ends)])

    def older(self, key: str) -> Selection:
        """Return the selection of all earlier keys."""
        return times_of([Window(self.span.begins, self.calendar.window(self.parse(key)).begins)])

    def aligned(self, selection: Selection) -> tuple[Window, ...]:
        """Return a selection as ranges of whole windows within the definition, in order."""
        if isinstance(selection, Everything):
            return (self.span,)
        if selection.is_empty:
            return ()
        if not isinstance(selection, Times):
            raise TypeError(f"{selection!r} does not select times")
        found = times_of(self.range_of(*self.ordinals(window)) for window in selection.ranges)
        return found.ranges if isinstance(found, Times) else ()

    def ordinals(self, window: Window) -> tuple[int, int]:
        """Return the ordinals of the first and the last defined key that overlap a time; first > last if none does."""
        begins, ends = window
        first = self.first if begins <= self.span.begins else self.calendar.ordinal_at(begins)
        last = self.last if ends >= self.span.ends else self.calendar.ordinal_from(ends) - 1
        return first, last

    def range_of(self, first: int, last: int) -> Window:
        """Return the time of the defined keys from one ordinal to another; an empty one if there are none."""
        first, last = max(first, self.first), min(last, self.last)
        if first > last:
            return Window(self.span.begins, self.span.begins)
        return Window(
            self.calendar.begins(first), self.span.ends if last == self.last else self.calendar.begins(last + 1)
        )

    def column_values(self, key: str) -> tuple[str | date | datetime, ...]:
        """Return the value of the column: a date for a day, a time in UTC for hours and minutes, else the text."""
        match self.grain:
            case Grain.DAY:
                return (date.fromisoformat(key),)
            case Grain.HOUR | Grain.MINUTE:
                return (self.calendar.window(key).begins,)
            case _:
                return (key,)

    def as_json(self) -> Json:
        """Return the stored form. Defaults are left out."""
        return {
            "time": str(self.grain),
            "start": self.start,
            **({"end": self.end} if self.end is not None else {}),
            **({"timezone": self.timezone} if self.timezone != UTC_NAME else {}),
            **({"open": True} if self.open else {}),
        }

    def _instant(self, field: str, value: str) -> datetime:
        found = self.calendar.instant(value)
        if found is None:
            examples = " or ".join(dict.fromkeys(("2024-01-31", self.grain.example)))
            raise PartitioningError(
                f"{field} {shown(value)} is not a date; allowed are dates, times and keys such as {examples}"
            )
        return found


def _is_never(end: str) -> bool:
    """Return whether a year is written that no key has: many tools write "no end" so."""
    found = _NEVER.match(end)
    return found is not None and int(found[1]) > LAST_YEAR
