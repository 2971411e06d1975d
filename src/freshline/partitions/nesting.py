"""Whether the windows of one calendar consist of whole windows of another.

They do not always: a day in Asia/Kolkata begins at 18:30 in UTC, within an hour; a month begins within an ISO week; and
days of two zones differ only in summer. So the actual boundaries are compared, year by year.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from freshline.partitions.calendar import UTC_NAME, Calendar, Window

HORIZON = 2100
"""A range without end is compared up to this year. By then every rule of every zone has repeated many times."""


def misfit(one: Calendar, other: Calendar, window: Window) -> tuple[Calendar, Calendar, datetime] | None:
    """Return why two calendars do not nest within a time; None if they do.

    The answer is a boundary of the coarser calendar that is not one of the finer: the coarser, the finer, the boundary.
    Two calendars of one grain must have the same boundaries.
    """
    fine, coarse = sorted((one, other), key=lambda calendar: calendar.grain.rank)
    pairs = [(coarse, fine)] if coarse.grain is not fine.grain else [(coarse, fine), (fine, coarse)]
    for outer, inner in pairs:
        if found := _first_misfit(outer, inner, window):
            return outer, inner, found
    return None


def _first_misfit(coarse: Calendar, fine: Calendar, window: Window) -> datetime | None:
    if coarse == fine or (coarse.timezone == UTC_NAME and not fine.grain.local):  # UTC has no clock changes
        return None
    first = window.begins.year - 1  # a window may begin in a year and its zone's year in another
    last = min(window.ends.year, max(HORIZON, window.begins.year + 1))
    found = (at for year in range(first, last + 1) for at in _misfits(coarse, fine, year))
    return next((at for at in found if window.begins <= at <= window.ends), None)


@lru_cache(maxsize=10_000)
def _misfits(coarse: Calendar, fine: Calendar, year: int) -> tuple[datetime, ...]:
    """Return the boundaries of the coarser calendar in a year that are not boundaries of the finer."""
    begin, end = (coarse.ordinal_from(datetime(one, 1, 1, tzinfo=UTC)) for one in (year, year + 1))
    return tuple(
        at for ordinal in range(begin, end) if fine.begins(fine.ordinal_at(at := coarse.begins(ordinal))) != at
    )
