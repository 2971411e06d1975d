"""The lengths of time partitions and the texts of their keys.

The key of a minute is `2024-01-31T05:07`, of an hour `2024-01-31T05`, of a day `2024-01-31`, of an ISO week `2024-W05`,
of a month `2024-01`, of a year `2024`. Keys of one grain sort as texts in the order of time.

A `number` counts the periods of a grain on the calendar: minutes and hours since 1970 in UTC, days as by
`date.toordinal`, weeks, months and years since the year 1. It knows no time zone.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache

from freshline.partitions.zone import FIRST_YEAR, LAST_YEAR

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - texts of keys have no zone
_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)
_DAYS, _MONTHS = 7, 12


class Grain(StrEnum):
    """The length of a time partition, from short to long."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"

    @property
    def local(self) -> bool:
        """Whether the partitions are those of a time zone. Minutes and hours are always in UTC."""
        return self not in {Grain.MINUTE, Grain.HOUR}

    @property
    def rank(self) -> int:
        """The place from short to long."""
        return _RANKS[self]

    @property
    def with_article(self) -> str:
        """The grain in a sentence: `a day`, `an hour`."""
        return f"an {self}" if self is Grain.HOUR else f"a {self}"

    @property
    def example(self) -> str:
        """A valid key."""
        return text(self, _EXAMPLES[self])


_RANKS = {grain: rank for rank, grain in enumerate(Grain)}
_PATTERNS = {
    Grain.MINUTE: re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d", re.ASCII),
    Grain.HOUR: re.compile(r"\d{4}-\d\d-\d\dT\d\d", re.ASCII),
    Grain.DAY: re.compile(r"\d{4}-\d\d-\d\d", re.ASCII),
    Grain.WEEK: re.compile(r"\d{4}-W\d\d", re.ASCII),
    Grain.MONTH: re.compile(r"\d{4}-\d\d", re.ASCII),
    Grain.YEAR: re.compile(r"\d{4}", re.ASCII),
}


def number(grain: Grain, key: str) -> int | None:
    """Return the number of a key; None if the text is not the key of a period on the calendar."""
    if not _PATTERNS[grain].fullmatch(key):
        return None
    try:
        found = _number(grain, key)
    except ValueError:
        return None
    first, last = bounds(grain)
    return found if first <= found <= last else None


@lru_cache
def bounds(grain: Grain) -> tuple[int, int]:
    """Return the numbers of the earliest and of the latest key."""
    if grain.local:
        early, late = (number_of_day(grain, date(year, 1, 1).toordinal()) for year in (FIRST_YEAR, LAST_YEAR + 1))
        return early + (first_day(grain, early).year < FIRST_YEAR), late - (first_day(grain, late).year > LAST_YEAR)
    early, late = (_number(grain, f"{year}-01-01T00") for year in (FIRST_YEAR, LAST_YEAR + 1))
    return early, late - 1


def _number(grain: Grain, key: str) -> int:
    match grain:
        case Grain.MINUTE:
            return (datetime.fromisoformat(key) - _EPOCH) // _MINUTE
        case Grain.HOUR:
            return (datetime.fromisoformat(key) - _EPOCH) // _HOUR
        case Grain.DAY:
            return date.fromisoformat(key).toordinal()
        case Grain.WEEK:
            return (date.fromisocalendar(int(key[:4]), int(key[6:]), 1).toordinal() - 1) // _DAYS
        case Grain.MONTH:
            return number_of_day(grain, date(int(key[:4]), int(key[5:]), 1).toordinal())
        case Grain.YEAR:
            return int(key)


def text(grain: Grain, number: int) -> str:
    """Return the key of a number."""
    match grain:
        case Grain.MINUTE:
            return (_EPOCH + number * _MINUTE).isoformat(timespec="minutes")
        case Grain.HOUR:
            return (_EPOCH + number * _HOUR).isoformat(timespec="hours")
        case Grain.DAY:
            return date.fromordinal(number).isoformat()
        case Grain.WEEK:
            year, week, _ = date.fromordinal(number * _DAYS + 1).isocalendar()
            return f"{year:04}-W{week:02}"
        case Grain.MONTH:
            return f"{number // _MONTHS:04}-{number % _MONTHS + 1:02}"
        case Grain.YEAR:
            return f"{number:04}"


def first_day(grain: Grain, number: int) -> date:
    """Return the date on which a period begins."""
    match grain:
        case Grain.MINUTE:
            return (_EPOCH + number * _MINUTE).date()
        case Grain.HOUR:
            return (_EPOCH + number * _HOUR).date()
        case Grain.DAY:
            return date.fromordinal(number)
        case Grain.WEEK:
            return date.fromordinal(number * _DAYS + 1)
        case Grain.MONTH:
            return date(number // _MONTHS, number % _MONTHS + 1, 1)
        case Grain.YEAR:
            return date(number, 1, 1)


def number_of_day(grain: Grain, day: int) -> int:
    """Return the number of the day, week, month or year that contains a day."""
    match grain:
        case Grain.DAY:
            return day
        case Grain.WEEK:
            return (day - 1) // _DAYS  # the first day of the year 1 is a Monday
        case Grain.MONTH:
            found = date.fromordinal(day)
            return found.year * _MONTHS + found.month - 1
        case Grain.YEAR:
            return date.fromordinal(day).year
        case _:
            raise ValueError(f"a day has many {grain}s")


_EXAMPLES = {
    grain: _number(grain, key)
    for grain, key in zip(
        Grain, ("2024-01-31T05:07", "2024-01-31T05", "2024-01-31", "2024-W05", "2024-01", "2024"), strict=True
    )
}
