"""Mappings of dimensions, of keys, of slices, and of a consumer that reads its own output."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshline.errors import PartitioningError
from freshline.partitions import (
    EVERYTHING,
    NOTHING,
    Dimensions,
    DynamicKeys,
    FixedKeys,
    Grain,
    Partitioning,
    Selection,
    TimePartitioning,
    Unpartitioned,
)
from freshline.partitions.compatibility import mapping_between
from freshline.partitions.declaration import Affects, All, Around, Declaration, Latest, Overlap, Pick, Rule, Same
from freshline.partitions.dimensions import Dimension
from freshline.partitions.mapping import PartitionMapping
from freshline.partitions.newest import newest_values
from tests.partitions.strategies import core

FAR = datetime(2090, 1, 1, tzinfo=UTC)
DAYS = TimePartitioning(Grain.DAY, "2024-03-29", "2024-04-03", "Europe/Berlin")
HOURS = TimePartitioning(Grain.HOUR, "2024-03-31", "2024-04-02")
MONTHS = TimePartitioning(Grain.MONTH, "2024-03", "2024-05", "Europe/Berlin")
REGIONS = FixedKeys(("eu", "us", "asia"))
CUSTOMERS = DynamicKeys()
KNOWN = ("acme", "zoo", "eu")


def dimensions(**axes: Dimension) -> Dimensions:
    """Return dimensions by name."""
    return Dimensions(tuple(axes.items()))


def products(partitioning: Partitioning) -> tuple[str, ...]:
    """Return what is known of dynamic keys: every product with the known values."""
    if not isinstance(partitioning, Dimensions):
        return KNOWN
    found: list[tuple[str, ...]] = [()]
    for axis in partitioning.axes:
        values = KNOWN if axis.is_dynamic else tuple(axis.keys(EVERYTHING, FAR))
        found = [(*one, value) for one in found for value in values]
    return tuple("|".join(one) for one in found)


def expand(selection: Selection, partitioning: Partitioning) -> list[str]:
    """Return all keys of a selection, from old to new."""
    return [*partitioning.keys(selection, FAR, products(partitioning), newest_first=False)]


@lru_cache
def expand_all(partitioning: Partitioning) -> list[str]:
    """Return all keys."""
    return expand(EVERYTHING, partitioning)


ALL_KINDS: list[Partitioning] = [
    Unpartitioned(),
    DAYS,
    HOURS,
    MONTHS,
    REGIONS,
    FixedKeys(("eu",)),
    CUSTOMERS,
    dimensions(day=DAYS, region=REGIONS),
    dimensions(region=REGIONS, day=DAYS),
    dimensions(hour=HOURS, region=REGIONS),
    dimensions(day=DAYS, customer=CUSTOMERS),
    dimensions(month=MONTHS, region=FixedKeys(("eu",)), customer=CUSTOMERS),
    dimensions(a=REGIONS, b=CUSTOMERS),
]
RULES: list[Rule | None] = [None, Same(), Overlap(), Around(-2, 1), All(), Latest(2)]
PICKS: list[tuple[tuple[str, Rule], ...]] = [(), (("region", Pick(("eu", "us"))),), (("region", All()),)]


@st.composite
def mappings(draw: st.DrawFn) -> PartitionMapping:
    """Draw a mapping that is allowed between any two kinds."""
    declared = Declaration(draw(st.sampled_from(RULES)), draw(st.sampled_from(PICKS)))
    try:
        return mapping_between(draw(st.sampled_from(ALL_KINDS)), draw(st.sampled_from(ALL_KINDS)), declared)
    except PartitioningError:
        return mapping_between(DAYS, dimensions(day=DAYS, region=REGIONS), Declaration(Around(-1, 0)))


@given(mappings(), st.randoms(use_true_random=False))
@settings(core, max_examples=100)
def test_up_and_down_are_inverse_over_dimensions(mapping: PartitionMapping, random: Random) -> None:
    """For all keys of both sides, and so are the unions of sets of keys."""
    universes = (expand_all(mapping.input), expand_all(mapping.consumer))
    inputs, consumers = (random.sample(keys, min(len(keys), 12)) for keys in universes)
    newest = newest_values(mapping, random.sample(inputs, min(len(inputs), 4)), inputs)
    ups, downs = ({p: mapping.up(p, newest) for p in consumers}, {k: mapping.down(k, newest) for k in inputs})
    reads = {(k, p) for p in consumers for k in inputs if ups[p].contains(k, mapping.input)}
    assert reads == {(k, p) for k in inputs for p in consumers if downs[k].contains(p, mapping.consumer)}
    some, few = (random.sample(keys, len(keys) // 3) for keys in (consumers, inputs))
    up = mapping.up_all(mapping.consumer.select(some), newest)
    down = mapping.down_all(mapping.input.select(few), newest)
    assert {k for k in inputs if up.contains(k, mapping.input)} == {k for k, p in reads if p in some}
    assert {p for p in consumers if down.contains(p, mapping.consumer)} == {p for k, p in reads if k in few}


def test_dimensions_of_one_name_belong_together() -> None:
    """A day of a region reads the hours of that region."""
    source, consumer = dimensions(hour=HOURS, region=REGIONS), dimensions(region=REGIONS, day=DAYS)
    mapping = mapping_between(source, consumer)
    assert len(expand(mapping.up("eu|2024-03-31"), source)) == 22  # two hours of it are before the start of the input
    assert expand(mapping.down("2024-03-31T22|us"), consumer) == ["us|2024-04-01"]


def test_a_dimension_that_the_consumer_does_not_have_is_read_whole() -> None:
    """A day reads all regions."""
    source = dimensions(day=DAYS, region=REGIONS)
    mapping = mapping_between(source, DAYS)
    assert expand(mapping.up("2024-03-30"), source) == ["2024-03-30|eu", "2024-03-30|us", "2024-03-30|asia"]
    assert expand(mapping.down("2024-03-30|us"), DAYS) == ["2024-03-30"]


def test_a_dimension_that_the_input_does_not_have_does_not_matter() -> None:
    """Each region reads the same day."""
    consumer = dimensions(region=REGIONS, day=DAYS)
    mapping = mapping_between(DAYS, consumer)
    assert expand(mapping.up("eu|2024-03-30"), DAYS) == ["2024-03-30"]
    assert expand(mapping.down("2024-03-30"), consumer) == ["eu|2024-03-30", "us|2024-03-30", "asia|2024-03-30"]


def test_a_slice_reads_chosen_values() -> None:
    """Other values lead to nothing."""
    source = dimensions(day=DAYS, region=REGIONS)
    mapping = mapping_between(source, DAYS, Declaration(dimensions=(("region", Pick(("eu",))),)))
    assert expand(mapping.up("2024-03-30"), source) == ["2024-03-30|eu"]
    assert expand(mapping.down("2024-03-30|eu"), DAYS) == ["2024-03-30"]
    assert mapping.down("2024-03-30|us") == NOTHING
    both = mapping_between(
        source, dimensions(day=DAYS, region=REGIONS), Declaration(Around(-1, 0), (("region", Pick(("eu",))),))
    )
    assert expand(both.up("2024-03-30|us"), source) == ["2024-03-29|eu", "2024-03-30|eu"]


def test_everything_reads_everything() -> None:
    """An unpartitioned consumer reads all keys, and each of them concerns it."""
    mapping = mapping_between(DAYS, Unpartitioned())
    assert mapping.up("") == EVERYTHING
    assert mapping.down("2024-03-30") == EVERYTHING
    assert mapping.down_all(NOTHING) == NOTHING
    assert mapping.up_all(NOTHING) == NOTHING


def test_the_latest_are_the_newest_with_data() -> None:
    """Older ones are not read, and lead to nothing."""
    mapping = mapping_between(DAYS, Unpartitioned(), Declaration(Latest(2)))
    newest = newest_values(mapping, ["2024-03-29", "2024-04-01", "2024-03-30"])
    assert [axis.count for axis in mapping.latest.values()] == [2]
    assert expand(mapping.up("", newest), DAYS) == ["2024-03-30", "2024-04-01"]
    assert mapping.down("2024-03-30", newest) == EVERYTHING
    assert mapping.down("2024-03-29", newest) == NOTHING
    assert mapping.up("") == NOTHING
    assert expand(mapping.up("", {0: ["2024-04-09", "2024-04-01"]}), DAYS) == ["2024-04-01"]  # the first one is outside
    assert not mapping_between(DAYS, DAYS).latest


def test_the_latest_of_a_dimension_are_its_newest_values() -> None:
    """A region reads the newest day of the asset."""
    source = dimensions(day=DAYS, region=REGIONS)
    mapping = mapping_between(source, REGIONS, Declaration(Latest(1)))
    newest = newest_values(mapping, ["2024-03-31|asia", "2024-04-01|eu", "2024-04-01|us"])
    assert expand(mapping.up("us", newest), source) == ["2024-04-01|us"]
    assert expand(mapping.up("asia", newest), source) == ["2024-04-01|asia"]


def test_a_change_of_an_unpartitioned_input_affects_what_is_declared() -> None:
    """Every partition reads it; `latest` is what was newest when the snapshot was produced."""
    then = DAYS.newest(datetime(2024, 3, 31, 12, tzinfo=UTC))
    for affects, expected in ((Affects.ALL, EVERYTHING), (Affects.LATEST, then), (Affects.NONE, NOTHING)):
        mapping = mapping_between(Unpartitioned(), DAYS, Declaration(affects=affects))
        assert mapping.affected("", then) == expected
        assert mapping.up("2024-03-30") == EVERYTHING
        assert mapping.down("") == EVERYTHING
    assert expand(then, DAYS) == ["2024-03-30"]
    same = mapping_between(DAYS, DAYS)
    assert same.affected("2024-03-30", then) == same.down("2024-03-30")


def test_equal_keys_are_those_that_both_define() -> None:
    """A fixed consumer of a dynamic input reads its own keys."""
    mapping = mapping_between(CUSTOMERS, REGIONS)
    assert expand(mapping.up_all(EVERYTHING), CUSTOMERS) == ["eu"]
    assert expand(mapping.down("eu"), REGIONS) == ["eu"]
    assert mapping.down("acme") == NOTHING
    assert mapping_between(CUSTOMERS, CUSTOMERS).up_all(EVERYTHING) == EVERYTHING


@pytest.mark.parametrize(
    ("source", "consumer", "key", "keys"),
    [
        (CUSTOMERS, CUSTOMERS, "acme", ["acme"]),
        (REGIONS, CUSTOMERS, "eu", ["eu"]),
        (DAYS, DAYS, "2024-03-30", []),
        (
            dimensions(hour=HOURS, customer=CUSTOMERS),
            dimensions(day=DAYS, customer=CUSTOMERS),
            "2024-03-31T22|acme",
            ["2024-04-01|acme"],
        ),
        (
            dimensions(month=MONTHS, customer=CUSTOMERS),
            dimensions(day=DAYS, customer=CUSTOMERS),
            "2024-04|acme",
            ["2024-04-01|acme", "2024-04-02|acme"],
        ),
        (CUSTOMERS, dimensions(customer=CUSTOMERS, region=FixedKeys(("eu", "us"))), "acme", ["acme|eu", "acme|us"]),
        (CUSTOMERS, dimensions(customer=CUSTOMERS, day=DAYS), "acme", []),  # which days is not known
        (DAYS, dimensions(customer=CUSTOMERS, day=DAYS), "2024-03-30", []),  # which customers is not known
    ],
)
def test_keys_of_a_dynamic_consumer_appear_with_those_of_the_input(
    source: Partitioning, consumer: Partitioning, key: str, keys: list[str]
) -> None:
    """If the input decides them."""
    assert [*mapping_between(source, consumer).appearing(key)] == keys


def test_a_window_does_not_make_keys_appear() -> None:
    """A customer's day appears with that day of the input, not with the six before it."""
    both = dimensions(day=DAYS, customer=CUSTOMERS)
    mapping = mapping_between(both, both, Declaration(Around(-6, 0)))
    assert [*mapping.appearing("2024-03-30|acme")] == ["2024-03-30|acme"]


def test_a_self_dependency_closes_over_all_earlier_keys() -> None:
    """And downwards over all later ones. It may be a superset."""
    own = mapping_between(DAYS, DAYS, Declaration(Around(-2, -1)), own_output=True)
    assert expand(own.with_earlier(DAYS.select(["2024-04-01"])), DAYS) == [
        "2024-03-29",
        "2024-03-30",
        "2024-03-31",
        "2024-04-01",
    ]
    assert expand(own.with_later(DAYS.select(["2024-04-01"])), DAYS) == ["2024-04-01", "2024-04-02"]
    assert expand(own.with_earlier(DAYS.select(["2024-03-29"])), DAYS) == ["2024-03-29"]
    assert own.with_earlier(NOTHING) == NOTHING


def test_a_self_dependency_of_dimensions_stays_in_its_value() -> None:
    """Earlier days of the same region; of all regions if they are read whole."""
    both = dimensions(day=DAYS, region=REGIONS)
    own = mapping_between(both, both, Declaration(Around(-1, -1)), own_output=True)
    assert expand(own.with_earlier(both.select(["2024-03-30|eu"])), both) == ["2024-03-29|eu", "2024-03-30|eu"]
    whole = mapping_between(both, both, Declaration(Around(-1, -1), (("region", All()),)), own_output=True)
    found = expand(whole.with_earlier(both.select(["2024-03-30|eu"])), both)
    assert found == ["2024-03-29|eu", "2024-03-29|us", "2024-03-29|asia", "2024-03-30|eu"]


@pytest.mark.parametrize("rule", [None, Same(), Around(-1, 0), All(), Latest(1)])
def test_a_workflow_reads_only_earlier_partitions_of_its_own_output(rule: Rule | None) -> None:
    """Anything else would be a cycle."""
    with pytest.raises(PartitioningError, match=r"only earlier partitions of it \(write a window that ends before 0"):
        mapping_between(DAYS, DAYS, Declaration(rule), own_output=True)
