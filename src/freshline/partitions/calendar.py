"""The windows of time partitions: keys, instants and ordinals of one grain in one time zone.

The windows of a calendar follow each other without gap and overlap. Each has an ordinal, a whole number without gaps:
the next window has the next ordinal, also across clock changes, ISO years and days that a country skipped. So a range
of keys is a range of integers, and no operation depends on the length of a range.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from freshline.errors import PartitioningError, PartitionKeyError
from freshline.partitions import grain as grains
from freshline.partitions.grain import Grain
from freshline.partitions.keys import shown
from freshline.partitions.zone import FIRST_YEAR, LAST_YEAR, zone

UTC_NAME = "UTC"
# Before and after every window. A range without an end reaches to these.
BEGINNING = datetime(FIRST_YEAR - 1, 1, 1, tzinfo=UTC)
END = datetime(LAST_YEAR + 2, 1, 1, tzinfo=UTC)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STEPS = {Grain.MINUTE: timedelta(minutes=1), Grain.HOUR: timedelta(hours=1)}
_SINGLE_DIGIT = re.compile(r"(?<!\d)(\d)(?!\d)", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d", re.ASCII)


class Window(NamedTuple):
    """A time in UTC: from `begins`, before `ends`."""

    begins: datetime
    ends: datetime

    def overlaps(self, other: Window) -> bool:
        """Return whether the two share any time."""
        return self.begins < other.ends and other.begins < self.ends


@dataclass(frozen=True)
class Calendar:
    """The windows of a grain in a time zone."""

    grain: Grain
    timezone: str = UTC_NAME

    def __post_init__(self) -> None:
        if not self.grain.local and self.timezone != UTC_NAME:
            raise PartitioningError(
                f"partitions of one {self.grain} are always in UTC, but timezone is {self.timezone[:80]!r};"
                " allowed are time zones for day, week, month and year",
                hint="remove timezone",
            )
        zone(self.timezone)  # an unknown zone is refused here

    @property
    def name(self) -> str:
        """The calendar in words: `hours`, `days in Europe/Berlin`."""
        return f"{self.grain}s in {self.timezone}" if self.grain.local else f"{self.grain}s (UTC)"

    @cached_property
    def first(self) -> int:
        """The ordinal of the earliest key."""
        return self._dense(grains.bounds(self.grain)[0])

    @cached_property
    def last(self) -> int:
        """The ordinal of the latest key."""
        return self._dense(grains.bounds(self.grain)[1])

    def ordinal(self, key: str) -> int:
        """Return the ordinal of a key. Raise `PartitionKeyError` if the text is not a key of this calendar."""
        number = grains.number(self.grain, key)
        if number is None:
            raise PartitionKeyError(
                f"partition key {shown(key)} is not {self.grain.with_article}; {self._allowed(key)}"
            )
        if self.grain is Grain.DAY and not zone(self.timezone).exists(number):
            raise PartitionKeyError(
                f"partition key {shown(key)} is not a day in {self.timezone}, where the calendar skipped it;"
                f" allowed are days that exist, such as {self.key(self._dense(number))}"
            )
        return self._dense(number)

    def key(self, ordinal: int) -> str:
        """Return the key of an ordinal."""
        return grains.text(self.grain, self._number(ordinal))

    def begins(self, ordinal: int) -> datetime:
        """Return the first instant of a window."""
        if step := _STEPS.get(self.grain):
            return _EPOCH + ordinal * step
        return zone(self.timezone).day_begins(grains.first_day(self.grain, self._number(ordinal)).toordinal())

    def window_of(self, ordinal: int) -> Window:
        """Return the window of an ordinal."""
        return Window(self.begins(ordinal), self.begins(ordinal + 1))

    def ordinal_at(self, instant: datetime) -> int:
        """Return the ordinal of the window that contains an instant."""
        if step := _STEPS.get(self.grain):
            return (instant - _EPOCH) // step
        return self._dense(grains.number_of_day(self.grain, zone(self.timezone).day_at(instant)))

    def ordinal_from(self, instant: datetime) -> int:
        """Return the ordinal of the first window that begins at the instant or later."""
        found = self.ordinal_at(instant)
        return found if self.begins(found) == instant else found + 1

    def window(self, key: str) -> Window:
        """Return the window of a key."""
        return self.window_of(self.ordinal(key))

    def key_at(self, instant: datetime) -> str:
        """Return the key of the window that contains an instant."""
        return self.key(self.ordinal_at(instant))

    def shift(self, key: str, by: int) -> str:
        """Return the key that many windows later, or earlier if negative."""
        ordinal = self.ordinal(key) + by
        if not self.first <= ordinal <= self.last:
            raise PartitionKeyError(
                f"partition key {shown(key)} shifted by {by:,} is out of range;"
                f" allowed are {self.key(self.first)} to {self.key(self.last)}"
            )
        return self.key(ordinal)

    def next(self, key: str) -> str:
        """Return the key of the following window."""
        return self.shift(key, 1)

    def previous(self, key: str) -> str:
        """Return the key of the preceding window."""
        return self.shift(key, -1)

    def distance(self, key: str, other: str) -> int:
        """Return how many windows the other key is later; negative if it is earlier."""
        return self.ordinal(other) - self.ordinal(key)

    def clip(self, ordinal: int) -> int:
        """Return the nearest ordinal that has a key."""
        return min(max(ordinal, self.first), self.last)

    def instant(self, text: str) -> datetime | None:
        """Return the instant of a date, a time or a key of any grain, on the clocks of the zone; None if it is none."""
        days = zone(self.timezone)
        for grain in (Grain.DAY, Grain.WEEK, Grain.MONTH, Grain.YEAR):
            if (number := grains.number(grain, text)) is not None:
                return days.day_begins(grains.first_day(grain, number).toordinal())
        try:
            moment = datetime.fromisoformat(text) if _TIME.match(text) else None
        except ValueError:
            return None
        if moment is None or not FIRST_YEAR <= moment.year <= LAST_YEAR:
            return None
        return days.local(moment) if moment.tzinfo is None else moment.astimezone(UTC)

    def _dense(self, number: int) -> int:
        """Return the ordinal of a number: days that do not exist have none."""
        return number - zone(self.timezone).missing_before(number) if self.grain is Grain.DAY else number

    def _number(self, ordinal: int) -> int:
        """Return the number of an ordinal. The inverse of `_dense`."""
        missing = zone(self.timezone).missing if self.grain is Grain.DAY else ()
        return ordinal + sum(1 for count, day in enumerate(missing) if day - count <= ordinal) if missing else ordinal

    def _allowed(self, key: str) -> str:
        """Return what is allowed, with the key that was probably meant."""
        instant = self.instant(key) or self.instant(_SINGLE_DIGIT.sub(r"0\1", key))
        meant = f"; did you mean '{self.key_at(instant)}'?" if instant else ""
        return f"allowed are keys such as {self.grain.example}{meant}"
