"""Days of a time zone: when a day begins, and which days do not exist.

A day begins at its first instant. That is not always midnight: in São Paulo the clock went from 24:00 to 1:00 on
2018-11-04. It ends where the next day begins, so that days have no gaps and no overlaps, even where a clock change
repeats the end of the day before (St. John's went from 0:01 back to 23:01 until 2011). A day without any instant does
not exist: Samoa had no 2011-12-30.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from freshline.errors import PartitioningError
from freshline.suggest import suggestion

FIRST_YEAR, LAST_YEAR = 1800, 2999
# Zones have rules for single years up to here. Afterwards they repeat, and no country moves across the date line.
_LAST_RULES = 2100
_DATE_LINE = timedelta(hours=12)
_SECOND = timedelta(seconds=1)
_DAYS_KEPT = 10_000  # per zone: the begins of 27 years, which nearly every question asks for again


class Zone:
    """The days of one time zone. Days are numbered as by `date.toordinal`, in UTC and everywhere."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.utc = name == "UTC"
        self._info: tzinfo = UTC if self.utc else _info(name)
        self._begins = lru_cache(maxsize=_DAYS_KEPT)(self._find_begin)
        self._missing: tuple[int, ...] | None = None

    @property
    def missing(self) -> tuple[int, ...]:
        """The days that do not exist, in order. Nearly every zone has none."""
        if self._missing is None:
            self._missing = () if self.utc else tuple(_missing_days(self))
        return self._missing

    def exists(self, day: int) -> bool:
        """Return whether the day has any instant."""
        return day not in self.missing

    def missing_before(self, day: int) -> int:
        """Return how many days before this one do not exist."""
        return bisect_left(self.missing, day)

    def day_begins(self, day: int) -> datetime:
        """Return the first instant of a day, in UTC; of a day that does not exist, that of the next one."""
        return self._begins(day)

    def day_at(self, instant: datetime) -> int:
        """Return the day that contains the instant."""
        day = instant.astimezone(self._info).toordinal()
        if self.utc:
            return day
        # The date goes back when a clock change repeats the end of a day whose successor has already begun.
        while self.day_begins(day + 1) <= instant:
            day += 1
        return day

    def local(self, moment: datetime) -> datetime:
        """Return the instant of a time without a zone, on the clocks of this zone."""
        return (moment - self._offset_of(moment)).replace(tzinfo=UTC)

    def offset(self, instant: datetime) -> timedelta:
        """Return the distance from UTC at an instant."""
        return instant.astimezone(self._info).utcoffset() or timedelta()

    def _find_begin(self, day: int) -> datetime:
        midnight = datetime.fromordinal(day)
        if self.utc:
            return midnight.replace(tzinfo=UTC)
        first, second = self._offset_of(midnight), self._offset_of(midnight.replace(fold=1))
        # The second offset is the larger one where the clock skips midnight. Where it repeats it, the first one counts.
        return self._after_gap(day) if second > first else (midnight - first).replace(tzinfo=UTC)

    def _offset_of(self, moment: datetime) -> timedelta:
        return self._info.utcoffset(moment) or timedelta()

    def _after_gap(self, day: int) -> datetime:
        """Return the first instant whose local date is the day or later, where the clock skips midnight."""
        midnight = datetime.fromordinal(day)
        early = self.local(midnight.replace(fold=1)) - _SECOND  # one second before the change at the latest
        late = self.local(midnight)
        while late - early > _SECOND:
            middle = early + timedelta(seconds=(late - early) // _SECOND // 2)
            if middle.astimezone(self._info).toordinal() >= day:
                late = middle
            else:
                early = middle
        return late


@lru_cache(maxsize=1_000)
def zone(name: str) -> Zone:
    """Return the time zone of a name such as Europe/Berlin. Raise `PartitioningError` if it does not exist."""
    return Zone(name)


def _info(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        hint = suggestion(name, available_timezones())
        raise PartitioningError(
            f"{name[:80]!r} is not a time zone; allowed are names such as Europe/Vienna{hint}"
        ) from None


def _missing_days(zone: Zone) -> list[int]:
    """Find the days that a country skipped when it moved across the date line."""
    years = [datetime(year, 1, 1, tzinfo=UTC) for year in range(FIRST_YEAR, _LAST_RULES + 1)]
    offsets = [zone.offset(instant) for instant in years]
    crossed = [n for n in range(1, len(years)) if offsets[n] - offsets[n - 1] > _DATE_LINE]
    return [
        day
        for n in crossed
        for day in range(years[n - 1].toordinal() - 2, years[n].toordinal() + 2)
        if zone.day_begins(day) == zone.day_begins(day + 1)
    ]
