"""The newest values with data, and what `latest` reads of them."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from freshline.partitions.compatibility import mapping_between
from freshline.partitions.declaration import Declaration, Latest, Rule
from freshline.partitions.key_partitionings import Unpartitioned
from freshline.partitions.mapping import PartitionMapping
from freshline.partitions.newest import newest_values, with_key
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.selection import EVERYTHING, NOTHING
from tests.partitions.strategies import core
from tests.partitions.test_dimension_mapping import CUSTOMERS, DAYS, HOURS, REGIONS, dimensions, expand, expand_all

KINDS = [
    DAYS,
    HOURS,
    REGIONS,
    CUSTOMERS,
    dimensions(day=DAYS, region=REGIONS),
    dimensions(region=REGIONS, day=DAYS),
    dimensions(day=DAYS, customer=CUSTOMERS),
]


def latest(source: Partitioning, count: int, consumer: Partitioning | None = None) -> PartitionMapping:
    """Return the mapping of the newest of each dimension of the input."""
    each: tuple[tuple[str, Rule], ...] = tuple((name, Latest(count)) for name in getattr(source, "names", ()))
    declared = Declaration(dimensions=each) if each else Declaration(Latest(count))
    return mapping_between(source, consumer or Unpartitioned(), declared)


@given(st.sampled_from(KINDS), st.integers(1, 3), st.randoms(use_true_random=False))
@settings(core, max_examples=100)
def test_data_concerns_whoever_reads_it(source: Partitioning, count: int, random: Random) -> None:
    """Data of a key concerns the consumer if the key is read then, or if it was read and has no data any more."""
    mapping = latest(source, count)
    universe = expand_all(source)
    known = random.sample(universe, min(len(universe), 8))
    with_data, key = random.sample(known, random.randint(0, len(known))), random.choice(known)
    newest = newest_values(mapping, with_data, known)
    with_it = newest_values(mapping, [*with_data, key], known)
    concerned = mapping.down(key, with_key(mapping, newest, key, known)) == EVERYTHING
    assert concerned == mapping.up("", with_it).contains(key, source)


@given(st.sampled_from(KINDS), st.integers(1, 3), st.randoms(use_true_random=False))
@settings(core, max_examples=100)
def test_nothing_outside_of_what_is_readable_is_ever_read(source: Partitioning, count: int, random: Random) -> None:
    """Whatever else gets data."""
    mapping = latest(source, count)
    universe = expand_all(source)
    known = random.sample(universe, min(len(universe), 8))
    with_data = random.sample(known, random.randint(0, len(known)))
    more = [*with_data, *random.sample(known, random.randint(0, len(known)))]
    readable = mapping.readable_all(EVERYTHING, newest_values(mapping, with_data, known))
    read = mapping.up("", newest_values(mapping, more, known))
    assert all(readable.contains(key, source) for key in more if read.contains(key, source))


def test_new_is_by_window_by_first_seen_and_by_the_list() -> None:
    """Not by when data arrived."""
    days = newest_values(latest(DAYS, 1), ["2024-03-30", "2024-04-01", "2024-03-31"])
    assert days[0][0] == "2024-04-01"
    seen = newest_values(latest(CUSTOMERS, 1), ["acme", "zoo"], ["zoo", "acme", "other"])
    assert seen[0][0] == "acme"
    assert newest_values(latest(REGIONS, 1), ["us", "eu"])[0][0] == "eu"


def test_the_values_of_each_dimension_count() -> None:
    """A day of which one region has data is the newest day of all regions."""
    mapping = latest(dimensions(day=DAYS, customer=CUSTOMERS), 1)
    keys = ["2024-03-30|new", "2024-04-01|old"]
    newest = newest_values(mapping, keys, ["2024-04-01|old", "2024-03-30|new"])
    assert {place: values[0] for place, values in newest.items()} == {0: "2024-04-01", 1: "new"}


def test_what_is_older_is_not_readable() -> None:
    """Of days, what lies before the oldest one that is read; everything, as long as fewer have data."""
    mapping = latest(DAYS, 2)
    keys = ["2024-03-29", "2024-03-30", "2024-04-01"]
    readable = mapping.readable_all(EVERYTHING, newest_values(mapping, keys))
    assert expand(readable, DAYS)[0] == "2024-03-30"
    assert expand(mapping.readable_all(EVERYTHING, newest_values(mapping, keys[:1])), DAYS) == expand_all(DAYS)
    assert mapping.readable_all(NOTHING) == NOTHING
