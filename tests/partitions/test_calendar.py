"""Windows of time: they tile, across clock changes and skipped days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshline.errors import PartitioningError, PartitionKeyError
from freshline.partitions.calendar import Calendar
from freshline.partitions.grain import Grain
from freshline.partitions.zone import zone
from tests.partitions.strategies import ZONES, calendars, core, instants

HOURS = Calendar(Grain.HOUR)


def utc(text: str) -> datetime:
    """Return a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@given(calendars(), instants)
@core
def test_every_instant_is_in_exactly_one_window(calendar: Calendar, instant: datetime) -> None:
    """Windows tile without gap or overlap, and their keys, ordinals and texts agree."""
    key = calendar.key_at(instant)
    window = calendar.window(key)
    assert window.begins <= instant < window.ends
    assert window.ends == calendar.window(calendar.next(key)).begins
    assert window.begins == calendar.window(calendar.previous(key)).ends
    assert calendar.key_at(window.begins) == key
    assert calendar.key_at(window.ends - timedelta(microseconds=1)) == key
    assert calendar.key(calendar.ordinal(key)) == key


@given(calendars(), instants, st.integers(-180, 180))
@core
def test_ordinals_count_windows(calendar: Calendar, instant: datetime, by: int) -> None:
    """The next ordinal is the next window; keys, windows and ordinals are in the same order."""
    key = calendar.key_at(instant)
    other = calendar.shift(key, by)
    assert calendar.distance(key, other) == by
    assert (other > key) == (by > 0)
    assert (calendar.window(other).begins > calendar.window(key).begins) == (by > 0)
    assert calendar.shift(other, -by) == key
    assert calendar.ordinal_from(calendar.window(key).begins) == calendar.ordinal(key)
    assert calendar.ordinal_from(calendar.window(key).begins + timedelta(seconds=1)) == calendar.ordinal(key) + 1


@pytest.mark.parametrize("timezone", ZONES)
def test_a_day_is_what_its_clocks_show(timezone: str) -> None:
    """Beside repeated ends of days, every instant of 2023 to 2025 is in the window of its local date."""
    days = Calendar(Grain.DAY, timezone)
    instant = utc("2023-06-01")
    while instant < utc("2025-06-01"):
        assert days.key_at(instant) == instant.astimezone(ZoneInfo(timezone)).date().isoformat()
        instant += timedelta(hours=7)


@pytest.mark.parametrize(
    ("timezone", "day", "hours"),
    [
        ("Europe/Berlin", "2024-03-31", 23),
        ("Europe/Berlin", "2024-10-27", 25),
        ("Europe/Berlin", "2024-10-28", 24),
        ("America/New_York", "2024-03-10", 23),
        ("America/New_York", "2024-11-03", 25),
        ("America/Sao_Paulo", "2018-11-04", 23),
        ("America/Sao_Paulo", "2018-02-17", 25),
        ("Asia/Beirut", "2021-03-28", 23),
        ("UTC", "2024-03-31", 24),
    ],
)
def test_a_local_day_has_23_24_or_25_hours(timezone: str, day: str, hours: int) -> None:
    """Each hour of the year is in exactly one day."""
    days = Calendar(Grain.DAY, timezone)
    window = days.window(day)
    assert HOURS.ordinal_at(window.ends) - HOURS.ordinal_at(window.begins) == hours
    assert {days.key_at(window.begins + timedelta(hours=n)) for n in range(hours)} == {day}


@pytest.mark.parametrize(
    ("timezone", "day", "begins"),
    [
        ("Europe/Berlin", "2024-03-31", "2024-03-30T23:00"),
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00"),  # from 24:00 to 1:00
        ("Asia/Beirut", "2021-03-28", "2021-03-27T22:00"),
        ("America/Toronto", "1919-03-31", "1919-03-31T04:30"),  # from 23:30 to 0:30
        ("America/St_Johns", "2010-11-07", "2010-11-07T02:30"),  # at 0:01 back to 23:01: the first midnight counts
        ("America/Havana", "2024-11-03", "2024-11-03T04:00"),  # at 1:00 back to 0:00: midnight comes twice
        ("Pacific/Apia", "2011-12-31", "2011-12-30T10:00"),
    ],
)
def test_a_day_begins_at_its_first_instant(timezone: str, day: str, begins: str) -> None:
    """Midnight may not exist, and may come twice."""
    days = Calendar(Grain.DAY, timezone)
    assert days.window(day).begins == utc(begins)
    assert days.key_at(utc(begins)) == day
    assert days.key_at(utc(begins) - timedelta(seconds=1)) == days.previous(day)


def test_a_day_that_a_country_skipped_is_not_a_key() -> None:
    """Samoa went from 2011-12-29 to 2011-12-31; the ordinals of the two are neighbours."""
    days = Calendar(Grain.DAY, "Pacific/Apia")
    assert days.next("2011-12-29") == "2011-12-31"
    assert days.previous("2011-12-31") == "2011-12-29"
    assert days.distance("2011-12-01", "2012-01-01") == 30
    assert [days.shift("2011-12-28", n) for n in range(4)] == ["2011-12-28", "2011-12-29", "2011-12-31", "2012-01-01"]
    with pytest.raises(PartitionKeyError, match=r"'2011-12-30' is not a day in Pacific/Apia.* such as 2011-12-31"):
        days.window("2011-12-30")
    assert Calendar(Grain.DAY).window("2011-12-30").begins == utc("2011-12-30")


def test_only_countries_at_the_date_line_skipped_days() -> None:
    """Other zones have every day."""
    assert zone("Pacific/Kwajalein").missing == (datetime(1993, 8, 21).toordinal(),)  # noqa: DTZ001 - a date
    assert all(not zone(name).missing for name in ZONES if not name.startswith("Pacific"))


def test_the_end_of_a_day_that_is_repeated_belongs_to_the_next_day() -> None:
    """St. John's went at 0:01 of 2010-11-07 back to 23:01 of the day before: days do not interleave."""
    days = Calendar(Grain.DAY, "America/St_Johns")
    repeated = utc("2010-11-07T03:00")
    assert repeated.astimezone(ZoneInfo("America/St_Johns")).date().isoformat() == "2010-11-06"
    assert days.key_at(repeated) == "2010-11-07"


@pytest.mark.parametrize(
    ("key", "following"),
    [
        ("2020-W53", "2021-W01"),
        ("2024-W52", "2025-W01"),
        ("2026-W53", "2027-W01"),
    ],
)
def test_iso_years_have_52_or_53_weeks(key: str, following: str) -> None:
    """The next week is the next ordinal, across ISO years."""
    weeks = Calendar(Grain.WEEK)
    assert weeks.next(key) == following
    assert weeks.window(key).ends - weeks.window(key).begins == timedelta(days=7)
    assert weeks.window(following).begins.weekday() == 0


@pytest.mark.parametrize(
    ("grain", "key", "message"),
    [
        (
            Grain.DAY,
            "2024-1-5",
            "'2024-1-5' is not a day; allowed are keys such as 2024-01-31; did you mean '2024-01-05'",
        ),
        (Grain.DAY, "2024-01-31T05", "is not a day; .*did you mean '2024-01-31'"),
        (Grain.DAY, "2023-02-29", "'2023-02-29' is not a day; allowed are keys such as 2024-01-31$"),
        (Grain.HOUR, "2024-01-31", "is not an hour; .*such as 2024-01-31T05; did you mean '2024-01-31T00'"),
        (Grain.HOUR, "2024-01-31T24", "is not"),
        (Grain.MINUTE, "2024-01-31T05:60", "is not"),
        (Grain.MINUTE, "2024-01-31T05:07:00", "did you mean '2024-01-31T05:07'"),
        (Grain.WEEK, "2025-W53", "is not"),
        (Grain.WEEK, "2024-W5", "did you mean '2024-W05'"),
        (Grain.MONTH, "2024-13", "is not"),
        (Grain.YEAR, "24", "is not"),
        (Grain.YEAR, "0999", "is not"),
        (Grain.YEAR, "٢٠٢٤", "is not"),
        (Grain.DAY, "2024-01-31 ", "is not"),
    ],
)
def test_a_text_that_is_not_a_key_is_refused_with_the_nearest(grain: Grain, key: str, message: str) -> None:
    """The error shows a valid key, and what was probably meant."""
    with pytest.raises(PartitionKeyError, match=message):
        Calendar(grain).ordinal(key)


def test_minutes_and_hours_are_in_utc() -> None:
    """Their texts name no offset, so that a repeated local hour would be one key."""
    with pytest.raises(PartitioningError, match=r"one hour are always in UTC, but timezone is 'Europe/Berlin'.*remove"):
        Calendar(Grain.HOUR, "Europe/Berlin")


def test_an_unknown_zone_is_refused_with_the_nearest() -> None:
    """The error says which names exist."""
    with pytest.raises(PartitioningError, match=r"'Europe/Berln' is not a time zone.*did you mean 'Europe/Berlin'"):
        Calendar(Grain.DAY, "Europe/Berln")


def test_keys_have_a_first_and_a_last() -> None:
    """A shift beyond them is refused."""
    for grain in Grain:
        calendar = Calendar(grain)
        first, last = calendar.key(calendar.first), calendar.key(calendar.last)
        assert (calendar.ordinal(first), calendar.ordinal(last)) == (calendar.first, calendar.last)
        with pytest.raises(PartitionKeyError, match="out of range; allowed are"):
            calendar.shift(last, 1)
        with pytest.raises(PartitionKeyError, match="is not"):
            calendar.ordinal(calendar.key(calendar.first - 1))


@pytest.mark.full
def test_no_zone_skips_a_day_unnoticed() -> None:
    """Every day of two centuries begins later than the one before, except those that are known not to exist."""
    for name in ("Pacific/Apia", "Pacific/Kiritimati", "Pacific/Fakaofo", "Asia/Manila", "America/Juneau", *ZONES):
        days = zone(name)
        begins = [days.day_begins(day) for day in range(657_000, 766_000)]
        same = [657_000 + n for n in range(len(begins) - 1) if begins[n] == begins[n + 1]]
        assert same == [day for day in days.missing if day >= 657_000]
        assert begins == sorted(begins)
