"""Which keys a partitioning defines, which of them exist, and their order."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshline.errors import PartitionKeyError
from freshline.partitions import (
    EVERYTHING,
    NOTHING,
    Dimensions,
    DynamicKeys,
    FixedKeys,
    Grain,
    Partitioning,
    TimePartitioning,
    Unpartitioned,
)
from tests.partitions.strategies import core, instants, partitionings, time_partitionings

NOW = datetime(2024, 1, 4, 12, tzinfo=UTC)
DAYS = TimePartitioning(Grain.DAY, "2024-01-01")
REGIONS = FixedKeys(("eu", "us"))
DAY_REGION = Dimensions((("day", DAYS), ("region", REGIONS)))
REGION_DAY = Dimensions((("region", REGIONS), ("day", DAYS)))
CUSTOMERS = Dimensions((("customer", DynamicKeys()), ("day", DAYS)))


@given(time_partitionings(), instants)
@core
def test_a_time_key_exists_when_its_window_has_ended(partitioning: TimePartitioning, now: datetime) -> None:
    """With `open` when it has begun. Existing keys are without gaps from the first to the newest."""
    found = list(islice(partitioning.keys(EVERYTHING, now), 500))
    assert partitioning.count(now) >= len(found)
    assert found == sorted(found, reverse=True)
    for key in found[:3] + found[-3:]:
        window = partitioning.window(key)
        assert (window.begins if partitioning.open else window.ends) <= now
        assert partitioning.exists(key, now)
    if found and len(found) < 500:
        assert found[-1] == partitioning.start
        assert partitioning.count(now) == len(found)


@given(time_partitionings(), instants)
@core
def test_the_next_key_comes_when_it_is_said_to(partitioning: TimePartitioning, now: datetime) -> None:
    """At that time there is one more key, and just before there is not. Keys that are in the past are there."""
    at = partitioning.next_key_at(now)
    count = partitioning.count(now)
    if at is None:
        assert partitioning.end is not None
        assert count == partitioning.last - partitioning.first + 1
        return
    assert at > now
    assert partitioning.count(at) == count + 1
    assert partitioning.count(at - timedelta(microseconds=1)) == count
    newest = partitioning.newest_key(at)
    assert newest is not None
    assert not partitioning.exists(newest, now)
    assert list(partitioning.keys(partitioning.newest(at), at)) == [newest]


def test_the_newest_day_is_the_last_that_ended() -> None:
    """The running one does not exist yet, unless it is open."""
    assert DAYS.newest_key(NOW) == "2024-01-03"
    assert DAYS.next_key_at(NOW) == datetime(2024, 1, 5, tzinfo=UTC)
    running = TimePartitioning(Grain.DAY, "2024-01-01", open=True)
    assert running.newest_key(NOW) == "2024-01-04"
    assert running.next_key_at(NOW) == datetime(2024, 1, 5, tzinfo=UTC)
    assert DAYS.exists("2024-01-03", datetime(2024, 1, 4, tzinfo=UTC))


@pytest.mark.parametrize(
    ("grain", "start", "end", "first", "last"),
    [
        (Grain.MONTH, "2024-01-15", None, "2024-02", None),
        (Grain.MONTH, "2024-01-01", "2024-03-31", "2024-01", "2024-02"),
        (Grain.MONTH, "2024-01", "2024-04", "2024-01", "2024-03"),
        (Grain.WEEK, "2024-01-01", "2024-12-31", "2024-W01", "2024-W52"),
        (Grain.WEEK, "2024-01-02", None, "2024-W02", None),
        (Grain.DAY, "2024-01-01T00:30", "2024-01-05T23:59", "2024-01-02", "2024-01-04"),
        (Grain.DAY, "2024", "2025", "2024-01-01", "2024-12-31"),
        (Grain.HOUR, "2024-01-01", "2024-01-02", "2024-01-01T00", "2024-01-01T23"),
        (Grain.HOUR, "2024-01-01T05:00:00+02:00", None, "2024-01-01T03", None),
    ],
)
def test_windows_that_start_or_end_cut_are_not_partitions(
    grain: Grain, start: str, end: str | None, first: str, last: str | None
) -> None:
    """The first begins at `start` or later; the last ends at `end` or earlier."""
    partitioning = TimePartitioning(grain, start, end)
    assert partitioning.start == first
    assert last is None or partitioning.calendar.key(partitioning.last) == last


def test_a_start_is_on_the_clocks_of_the_zone() -> None:
    """A date begins when it begins there."""
    partitioning = TimePartitioning(Grain.DAY, "2024-03-31", "2024-04-02", "Europe/Berlin")
    assert partitioning.span.begins == datetime(2024, 3, 30, 23, tzinfo=UTC)
    assert partitioning.span.ends == datetime(2024, 4, 1, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("partitioning", "key", "message"),
    [
        (DAYS, "2023-12-31", "'2023-12-31' is before the first; allowed are 2024-01-01 and later"),
        (
            TimePartitioning(Grain.DAY, "2024-01-01", "2024-02-01"),
            "2024-02-01",
            "is after the last; allowed are 2024-01-01 to 2024-01-31",
        ),
        (REGIONS, "eux", "'eux' does not exist; allowed are eu, us; did you mean 'eu'"),
        (Unpartitioned(), "2024-01-01", "the asset has no partitions .leave the key out"),
        (DynamicKeys(), "", "is empty"),
        (
            DAY_REGION,
            "2024-01-31",
            r"has 1 of 2 values; allowed is one for each of day, region, separated by '\|', such as 2024-01-01\|eu",
        ),
        (DAY_REGION, "2024-01-31|asia", "dimension 'region': partition key 'asia' does not exist; allowed are eu, us"),
        (
            DAY_REGION,
            {"day": "2024-01-31"},
            "does not name the dimensions; allowed is one value for each of day, region",
        ),
        (DAYS, {"day": "2024-01-31"}, "has dimensions, but the asset has none; allowed is a text"),
    ],
)
def test_a_key_that_is_not_defined_is_refused_with_the_range(
    partitioning: Partitioning, key: str | dict[str, str], message: str
) -> None:
    """The error says the value, what is allowed, and what was probably meant."""
    with pytest.raises(PartitionKeyError, match=message):
        partitioning.parse(key)
    if isinstance(key, str):
        assert not partitioning.defines(key)
        assert not partitioning.exists(key, NOW)


@pytest.mark.parametrize(
    ("partitioning", "key", "message"),
    [
        (DAYS, "2024-01-04", "'2024-01-04' does not exist before 2024-01-05T00:00:00Z; the newest is '2024-01-03'"),
        (
            TimePartitioning(Grain.DAY, "2025-01-01"),
            "2025-01-01",
            "before 2025-01-02T00:00:00Z; no partition exists yet",
        ),
        (DynamicKeys(), "acmee", "nothing has reported it; the newest is 'zoo'; did you mean 'acme'"),
    ],
)
def test_a_key_that_does_not_exist_is_refused_with_the_newest(
    partitioning: Partitioning, key: str, message: str
) -> None:
    """The error says why it does not exist."""
    with pytest.raises(PartitionKeyError, match=message):
        partitioning.require_exists(key, NOW, ["acme", "zoo"])
    assert DynamicKeys().require_exists("acme", NOW, ["acme", "zoo"]) == "acme"


def test_dynamic_keys_exist_once_they_were_seen() -> None:
    """Their order is that of the first time."""
    keys = DynamicKeys()
    known = ["b", "a"]
    assert [*keys.keys(EVERYTHING, NOW, known)] == ["a", "b"]
    assert [*keys.keys(EVERYTHING, NOW, known, newest_first=False)] == ["b", "a"]
    assert keys.newest_key(NOW, known) == "a"
    assert keys.newest(NOW) == NOTHING
    assert keys.exists("b", NOW, known)
    assert not keys.exists("c", NOW, known)
    assert keys.count(NOW, known) == 2


def test_fixed_keys_are_equally_new() -> None:
    """Each of them is the newest, so that freshness counts for all."""
    assert REGIONS.newest(NOW) == EVERYTHING
    assert [*REGIONS.keys(EVERYTHING, NOW)] == ["eu", "us"]
    assert REGIONS.next_key_at(NOW) is None


@pytest.mark.parametrize("partitioning", [DAY_REGION, REGION_DAY])
def test_products_come_by_time(partitioning: Dimensions) -> None:
    """Whichever dimension is first in the key."""
    order = [partitioning.split(key) for key in partitioning.keys(EVERYTHING, NOW)]
    days = [next(value for value in values if value.startswith("2024")) for values in order]
    assert days == [f"2024-01-0{n}" for n in (3, 3, 2, 2, 1, 1)]
    assert len({*order}) == 6 == partitioning.count(NOW)
    newest = [*partitioning.keys(partitioning.newest(NOW), NOW)]
    assert [sorted(partitioning.split(key)) for key in newest] == [["2024-01-03", "eu"], ["2024-01-03", "us"]]
    assert partitioning.next_key_at(NOW) == datetime(2024, 1, 5, tzinfo=UTC)


def test_only_products_that_were_seen_exist_with_a_dynamic_dimension() -> None:
    """And only when their time has come."""
    known = ["acme|2024-01-02", "zoo|2024-01-03", "zoo|2024-01-02", "acme|2024-01-09"]
    assert [*CUSTOMERS.keys(EVERYTHING, NOW, known)] == ["zoo|2024-01-03", "zoo|2024-01-02", "acme|2024-01-02"]
    assert CUSTOMERS.count(NOW, known) == 3
    assert CUSTOMERS.newest_key(NOW, known) == "zoo|2024-01-03"
    assert not CUSTOMERS.exists("acme|2024-01-03", NOW, known)
    assert not CUSTOMERS.exists("acme|2024-01-09", NOW, known)


def test_the_newest_of_keys_without_time_is_the_value_seen_last() -> None:
    """All products of the dynamic value that appeared last."""
    partitioning = Dimensions((("customer", DynamicKeys()), ("region", REGIONS)))
    known = ["acme|eu", "zoo|eu", "acme|us", "zoo|us"]
    assert [*partitioning.keys(partitioning.newest(NOW, known), NOW, known)] == ["zoo|us", "zoo|eu"]


def test_a_key_of_dimensions_may_be_an_object() -> None:
    """The order of its fields does not matter."""
    assert DAY_REGION.parse({"region": "eu", "day": "2024-01-31"}) == "2024-01-31|eu"
    assert DAY_REGION.window("2024-01-31|eu") == DAYS.window("2024-01-31")


@pytest.mark.parametrize(
    ("partitioning", "key", "columns", "values"),
    [
        (DAYS, "2024-01-31", [("day", "DATE")], (date(2024, 1, 31),)),
        (
            TimePartitioning(Grain.HOUR, "2024-01-01"),
            "2024-01-31T05",
            [("hour", "TIMESTAMP")],
            (datetime(2024, 1, 31, 5, tzinfo=UTC),),
        ),
        (TimePartitioning(Grain.WEEK, "2024-01-01"), "2024-W05", [("week", "STRING")], ("2024-W05",)),
        (REGIONS, "eu", [("partition_key", "STRING")], ("eu",)),
        (DAY_REGION, "2024-01-31|eu", [("day", "DATE"), ("region", "STRING")], (date(2024, 1, 31), "eu")),
        (Unpartitioned(), "", [], ()),
    ],
)
def test_columns_have_the_type_of_the_grain(
    partitioning: Partitioning, key: str, columns: list[tuple[str, str]], values: tuple[object, ...]
) -> None:
    """A date for days, a time for hours and minutes, else a text."""
    assert list(partitioning.columns) == columns
    assert partitioning.column_values(key) == values


@given(partitionings, instants, st.data())
@core
def test_selected_keys_are_those_that_are_contained(
    partitioning: Partitioning, now: datetime, data: st.DataObject
) -> None:
    """`keys` of the selection of some existing keys yields exactly these, in both orders."""
    known = [partitioning.example]
    existing = [*islice(partitioning.keys(EVERYTHING, now, known), 50)]
    chosen = data.draw(st.sets(st.sampled_from(existing))) if existing else set()
    selection = partitioning.select(chosen)
    assert {*partitioning.keys(selection, now, known)} == chosen
    assert sorted(partitioning.keys(selection, now, known, newest_first=False)) == sorted(chosen)
    assert {key for key in existing if selection.contains(key, partitioning)} == chosen
    assert selection.is_empty == (not chosen)


@given(partitionings, instants, st.data())
@core
def test_older_keys_are_those_that_come_after_one(
    partitioning: Partitioning, now: datetime, data: st.DataObject
) -> None:
    """They hold every key that comes after it, newest first; by time alone they hold no other."""
    known = [partitioning.example]
    existing = [*islice(partitioning.keys(EVERYTHING, now, known), 50)]
    place = data.draw(st.integers(0, len(existing) - 1)) if existing else None
    if place is None:
        return
    older = partitioning.older(existing[place])
    found = [key for key in existing if older.contains(key, partitioning)]
    assert [key for key in found if key in existing[place + 1 :]] == existing[place + 1 :]
    if isinstance(partitioning, TimePartitioning):
        assert found == existing[place + 1 :]


@given(partitionings, instants, instants)
@core
def test_keys_arrive_between_two_moments(partitioning: Partitioning, one: datetime, other: datetime) -> None:
    """They exist at the second one, and did not just before the first one. No key is named twice or left out."""
    since, until = sorted((one, min(other, one + timedelta(days=400))))
    known = [partitioning.example] if partitioning.is_dynamic else []
    arrived = list(islice(partitioning.keys(partitioning.arrived(since, until), until, known), 300))
    just_before = since - timedelta.resolution
    for key in arrived:
        assert partitioning.exists(key, until, known)
        assert not partitioning.exists(key, just_before, known)
    at = partitioning.next_key_at(just_before)
    if not partitioning.is_dynamic and len(arrived) < 300:
        assert bool(arrived) == (at is not None and at <= until)


@pytest.mark.parametrize("end", ["9999-12-31", "9999", "3000-01-01", "9999-12-31T23:59:59"])
def test_an_end_that_never_comes_is_none(end: str) -> None:
    """Other tools write "no end" as the last day that they know."""
    assert TimePartitioning(Grain.DAY, "2024-01-01", end) == DAYS


def test_the_newest_windows() -> None:
    """As many as asked for, with all values of the other dimensions; never more than exist."""
    assert [*DAYS.keys(DAYS.newest(NOW, (), 2), NOW)] == ["2024-01-03", "2024-01-02"]
    assert [*DAYS.keys(DAYS.newest(NOW, (), 9), NOW)] == ["2024-01-03", "2024-01-02", "2024-01-01"]
    assert len([*DAY_REGION.keys(DAY_REGION.newest(NOW, (), 2), NOW)]) == 4
    keys = DynamicKeys()
    assert [*keys.keys(keys.newest(NOW, ("a", "b", "c"), 2), NOW, ("a", "b", "c"))] == ["c", "b"]
