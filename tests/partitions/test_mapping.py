"""`up` and `down` are inverse, over grains, zones and clock changes, and compose along a graph."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshline.partitions import (
    EVERYTHING,
    NOTHING,
    Grain,
    Partitioning,
    Selection,
    TimePartitioning,
    Unpartitioned,
)
from freshline.partitions.axis import TimeLink
from freshline.partitions.compatibility import mapping_between
from freshline.partitions.declaration import Around, Declaration
from freshline.partitions.mapping import Linked, PartitionMapping
from freshline.partitions.selection import Times, times_of
from tests.partitions.strategies import calendars, core, instants, zones

FAR = datetime(2090, 1, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)
HOURS = TimePartitioning(Grain.HOUR, "2000-01-01")
BERLIN_DAYS = TimePartitioning(Grain.DAY, "2024-01-01", timezone="Europe/Berlin")


def days(start: str = "2024-01-01", end: str | None = None, timezone: str = "UTC") -> TimePartitioning:
    """Return daily partitions."""
    return TimePartitioning(Grain.DAY, start, end, timezone)


def expand(selection: Selection, partitioning: Partitioning, known: tuple[str, ...] = ()) -> list[str]:
    """Return all keys of a selection from old to new."""
    return [*partitioning.keys(selection, FAR, known, newest_first=False)]


# --- times


def around(partitioning: TimePartitioning, instant: datetime) -> list[str]:
    """Return the defined keys around an instant."""
    calendar = partitioning.calendar
    middle = calendar.ordinal_at(instant)
    return [key for n in range(middle - 3, middle + 4) if partitioning.defines(key := calendar.key(n))]


def boundaries(partitioning: TimePartitioning, keys: list[str]) -> list[datetime]:
    """Return the instants at which the windows of keys begin, and just before."""
    begins = [partitioning.window(key).begins for key in keys]
    return [*begins, *(at - TICK for at in begins)]


@st.composite
def time_mappings(draw: st.DrawFn) -> tuple[PartitionMapping, list[str], list[str]]:
    """Draw a mapping between times, with keys of the input and of the consumer near a clock change."""
    instant, shift = draw(instants), draw(st.integers(-4, 4))
    sides = []
    for _ in range(2):
        calendar = draw(calendars())
        start = calendar.ordinal_at(instant) - draw(st.sampled_from([0, 2, 1_000 if calendar.grain.rank < 3 else 20]))
        end = draw(st.sampled_from([None, 5, 2_000])) if calendar.grain.rank < 3 else None
        stop = None if end is None else calendar.key(start + end)
        sides.append(TimePartitioning(calendar.grain, calendar.key(start), stop, calendar.timezone))
    first, last = draw(st.sampled_from([(0, 0), (shift, shift + draw(st.integers(0, 3)))]))
    mapping = PartitionMapping(sides[0], sides[1], (Linked(TimeLink(sides[0], sides[1], first, last), 0),))
    consumers = around(sides[1], instant)
    inputs = {key for at in (instant, *boundaries(sides[1], consumers)) for key in around(sides[0], at)}
    return mapping, sorted(inputs), consumers


@given(time_mappings())
@settings(core, max_examples=100)
def test_a_partition_reads_a_key_if_and_only_if_the_key_leads_to_it(
    drawn: tuple[PartitionMapping, list[str], list[str]],
) -> None:
    """`p in down(k)` is `k in up(p)`, for windows of any grain and zone, at clock changes and at the ends of ranges."""
    mapping, inputs, consumers = drawn
    ups = {p: mapping.up(p) for p in consumers}
    for k in inputs:
        down = mapping.down(k)
        for p in consumers:
            assert down.contains(p, mapping.consumer) == ups[p].contains(k, mapping.input), (k, p)


@given(time_mappings(), st.randoms(use_true_random=False))
@core
def test_a_set_of_keys_maps_to_the_union(drawn: tuple[PartitionMapping, list[str], list[str]], random: Random) -> None:
    """`up_all` and `down_all` are exact."""
    mapping, inputs, consumers = drawn
    some = [p for p in consumers if random.random() < 0.4]
    up = mapping.up_all(mapping.consumer.select(some))
    few = [k for k in inputs if random.random() < 0.2]
    down = mapping.down_all(mapping.input.select(few))
    for k in inputs:
        assert up.contains(k, mapping.input) == any(mapping.up(p).contains(k, mapping.input) for p in some)
    for p in consumers:
        assert down.contains(p, mapping.consumer) == any(mapping.down(k).contains(p, mapping.consumer) for k in few)


@given(time_mappings())
@core
def test_windows_are_those_that_one_counts(drawn: tuple[PartitionMapping, list[str], list[str]]) -> None:
    """`up` is what one finds by walking: from the window at the begin, and at the end, so many steps."""
    mapping, _, consumers = drawn
    source, consumer = mapping.input, mapping.consumer
    assert isinstance(source, TimePartitioning)
    assert isinstance(consumer, TimePartitioning)
    (axis,) = mapping.axes
    assert isinstance(axis, Linked)
    assert isinstance(axis.link, TimeLink)
    for p in consumers[:2]:
        window = consumer.window(p)
        first = source.calendar.shift(source.calendar.key_at(window.begins), axis.link.first)
        last = source.calendar.shift(source.calendar.key_at(window.ends - TICK), axis.link.last)
        up = mapping.up(p)
        for key in (first, last):
            assert up.contains(key, source) == source.defines(key)
        for key in (source.calendar.previous(first), source.calendar.next(last)):
            assert not up.contains(key, source)


@pytest.mark.parametrize(
    ("timezone", "day", "first", "count"),
    [
        ("Europe/Berlin", "2024-03-31", "2024-03-30T23", 23),
        ("Europe/Berlin", "2024-10-27", "2024-10-26T22", 25),
        ("America/New_York", "2024-11-03", "2024-11-03T04", 25),
        ("America/New_York", "2024-03-10", "2024-03-10T05", 23),
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03", 23),
        ("UTC", "2024-03-31", "2024-03-31T00", 24),
    ],
)
def test_a_local_day_reads_each_of_its_hours_once(timezone: str, day: str, first: str, count: int) -> None:
    """23, 24 or 25 hours; those of the neighbours are others."""
    consumer = days("2000-01-01", timezone=timezone)
    mapping = mapping_between(HOURS, consumer)
    hours = expand(mapping.up(day), HOURS)
    assert (len(hours), hours[0]) == (count, first)
    assert {key for hour in hours for key in expand(mapping.down(hour), consumer)} == {day}
    before, after = (expand(mapping.up(consumer.calendar.shift(day, n)), HOURS) for n in (-1, 1))
    assert HOURS.calendar.next(before[-1]) == hours[0]
    assert HOURS.calendar.next(hours[-1]) == after[0]


def test_a_late_hour_concerns_its_day_its_windows_its_month_and_the_total() -> None:
    """Exactly one day, seven windows, one month."""
    daily = mapping_between(HOURS, BERLIN_DAYS)
    weekly = mapping_between(BERLIN_DAYS, BERLIN_DAYS, Declaration(Around(-6, 0)))
    month = TimePartitioning(Grain.MONTH, "2024-01-01", timezone="Europe/Berlin")
    monthly = mapping_between(BERLIN_DAYS, month)
    total = mapping_between(month, Unpartitioned())
    changed = daily.down("2024-03-31T22")  # 0:00 of the first of April
    assert expand(changed, BERLIN_DAYS) == ["2024-04-01"]
    assert expand(weekly.down_all(changed), BERLIN_DAYS) == [f"2024-04-0{n}" for n in range(1, 8)]
    assert expand(monthly.down_all(changed), month) == ["2024-04"]
    assert total.down_all(monthly.down_all(changed)) == EVERYTHING
    assert expand(monthly.down_all(daily.down("2024-03-31T21")), month) == ["2024-03"]


@given(zones, instants, st.integers(0, 400))
@core
def test_grains_compose(timezone: str, instant: datetime, length: int) -> None:
    """Days to months to years is days to years, in both directions, in every zone."""
    day = TimePartitioning(Grain.DAY, "1980", timezone=timezone)
    month = TimePartitioning(Grain.MONTH, "1980", timezone=timezone)
    year = TimePartitioning(Grain.YEAR, "1980", timezone=timezone)
    first, second, direct = mapping_between(day, month), mapping_between(month, year), mapping_between(day, year)
    begin = day.calendar.ordinal_at(instant)
    selection = times_of([day.range_of(begin, begin + length)])
    assert second.down_all(first.down_all(selection)) == direct.down_all(selection)
    years = direct.down_all(selection)
    assert first.up_all(second.up_all(years)) == direct.up_all(years)


def test_a_window_counts_partitions_of_the_input() -> None:
    """Around the consumer's window: before its first partition, and after its last."""
    day = days()
    hours = TimePartitioning(Grain.HOUR, "2024-01-01")
    mapping = mapping_between(hours, day, Declaration(Around(-2, 1)))
    found = expand(mapping.up("2024-01-10"), hours)
    assert (found[0], found[-1], len(found)) == ("2024-01-09T22", "2024-01-11T00", 27)
    assert expand(mapping.down("2024-01-10T00"), day) == ["2024-01-09", "2024-01-10"]
    assert expand(mapping.down("2024-01-10T05"), day) == ["2024-01-10"]
    assert expand(mapping.down("2024-01-10T23"), day) == ["2024-01-10", "2024-01-11"]
    previous = mapping_between(day, hours, Declaration(Around(-1, -1)))
    assert expand(previous.up("2024-01-10T05"), day) == ["2024-01-09"]


def test_keys_outside_the_range_of_the_input_are_not_read() -> None:
    """Before its start and after its end there is nothing, and windows are cut."""
    source, consumer = days("2024-01-03", "2024-01-06"), days("2024-01-01", "2024-02-01")
    mapping = mapping_between(source, consumer, Declaration(Around(-2, 0)))
    assert mapping.up("2024-01-02") == NOTHING
    assert expand(mapping.up("2024-01-04"), source) == ["2024-01-03", "2024-01-04"]
    assert expand(mapping.up("2024-01-07"), source) == ["2024-01-05"]
    assert mapping.up("2024-01-08") == NOTHING
    assert mapping.down("2024-01-02") == NOTHING
    assert expand(mapping.up_all(EVERYTHING), source) == ["2024-01-03", "2024-01-04", "2024-01-05"]
    assert expand(mapping.down_all(EVERYTHING), consumer) == [f"2024-01-0{n}" for n in range(3, 8)]


def test_a_day_that_does_not_exist_is_not_in_a_window() -> None:
    """A window of three days in Samoa over the last of 2011 skips the 30th."""
    source = days("2011-12-01", timezone="Pacific/Apia")
    mapping = mapping_between(source, source, Declaration(Around(-2, 0)))
    assert expand(mapping.up("2012-01-01"), source) == ["2011-12-29", "2011-12-31", "2012-01-01"]
    assert expand(mapping.down("2011-12-29"), source) == ["2011-12-29", "2011-12-31", "2012-01-01"]


def test_an_unlimited_range_stays_unlimited() -> None:
    """A selection without end reaches keys that come to exist later, on both sides."""
    mapping = mapping_between(HOURS, BERLIN_DAYS, Declaration(Around(-6, -3)))
    up, down = mapping.up_all(EVERYTHING), mapping.down_all(EVERYTHING)
    assert isinstance(up, Times)
    assert isinstance(down, Times)
    assert up.ranges[-1].ends == down.ranges[-1].ends == HOURS.span.ends
