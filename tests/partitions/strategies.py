"""Hypothesis strategies of partitions: zones and instants where calendars are hard, and every kind of partitioning."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from freshline.partitions import DynamicKeys, FixedKeys, Grain, TimePartitioning
from freshline.partitions.calendar import Calendar
from freshline.partitions.dimensions import Dimension, Dimensions

# The same examples every time, and no limits of time: on a busy machine a slow example proves nothing.
core = settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",  # 5:30
    "Asia/Kathmandu",  # 5:45
    "Australia/Lord_Howe",  # its clock changes by half an hour
    "America/Sao_Paulo",  # its clock skipped midnight
    "Asia/Beirut",  # the same
    "America/St_Johns",  # its clock went from 0:01 back to 23:01 of the day before
    "Pacific/Apia",  # it had no 2011-12-30
    "Pacific/Kwajalein",  # it had no 1993-08-21
)
# Days on which a clock or a calendar of these zones changed, and around which ISO years and leap years change.
HARD_DAYS = (
    "1993-08-21",
    "2010-11-07",
    "2011-12-30",
    "2018-02-18",
    "2018-11-04",
    "2020-12-31",
    "2021-01-04",
    "2021-03-28",
    "2024-02-29",
    "2024-03-10",
    "2024-03-31",
    "2024-04-07",
    "2024-10-06",
    "2024-10-27",
    "2024-11-03",
    "2024-12-30",
    "2026-12-31",
)

zones = st.sampled_from(ZONES)
_hard = st.builds(
    lambda day, minutes: datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(minutes=minutes),
    st.sampled_from(HARD_DAYS),
    st.integers(-3_000, 3_000),
)
_any = st.datetimes(datetime(1985, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
instants = _hard | _any
grains = st.sampled_from(list(Grain))


@st.composite
def calendars(draw: st.DrawFn) -> Calendar:
    """Draw a grain, and a zone if the grain has one."""
    grain = draw(grains)
    return Calendar(grain, draw(zones) if grain.local else "UTC")


@st.composite
def time_partitionings(draw: st.DrawFn) -> TimePartitioning:
    """Draw any grain and zone, with starts and ends where clocks change."""
    calendar = draw(calendars())
    first = calendar.ordinal_at(draw(instants))
    end = draw(st.none() | st.integers(1, 400))
    return TimePartitioning(
        calendar.grain,
        calendar.key(first),
        None if end is None else calendar.key(first + end),
        calendar.timezone,
        draw(st.booleans()),
    )


values = st.text("aZ09 ä…%/=.~_-:日", min_size=1, max_size=20)  # valid in every dimension, also in two
fixed_keys = st.lists(st.sampled_from(["eu", "us", "asia", "…", "a b", "ä"]), min_size=1, max_size=4, unique=True).map(
    lambda found: FixedKeys(tuple(found))
)
axes: st.SearchStrategy[Dimension] = time_partitionings() | fixed_keys | st.just(DynamicKeys())
dimensions = st.lists(axes, min_size=2, max_size=3).map(
    lambda found: Dimensions(tuple(zip(("region", "day", "a"), found, strict=False)))  # not in the order of names
)
partitionings = axes | dimensions
