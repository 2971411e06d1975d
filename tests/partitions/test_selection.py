"""Selections behave as the sets of keys that they stand for."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshline.errors import PartitionKeyError
from freshline.partitions import EVERYTHING, NOTHING, Dimensions, FixedKeys, Grain, Selection, TimePartitioning
from freshline.partitions.calendar import Window
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.selection import Keys, Products, Times, from_json, keys_of, products_of, times_of, union
from tests.partitions.strategies import core

NOW = datetime(2024, 4, 15, tzinfo=UTC)
DAYS = TimePartitioning(Grain.DAY, "2024-03-25", timezone="Europe/Berlin")
LETTERS = FixedKeys(tuple("abcdefgh"))
BOTH = Dimensions((("letter", FixedKeys(tuple("abc"))), ("day", TimePartitioning(Grain.DAY, "2024-04-10"))))
UNIVERSES: dict[Partitioning, frozenset[str]] = {
    one: frozenset(one.keys(EVERYTHING, NOW)) for one in (DAYS, LETTERS, BOTH)
}


@st.composite
def selections(draw: st.DrawFn) -> tuple[Partitioning, list[tuple[Selection, frozenset[str]]]]:
    """Draw a partitioning and three selections, each with the keys that it stands for."""
    partitioning = draw(st.sampled_from(list(UNIVERSES)))
    universe = UNIVERSES[partitioning]
    some = st.frozensets(st.sampled_from(sorted(universe))).map(lambda keys: (partitioning.select(keys), keys))
    fixed = st.sampled_from([(EVERYTHING, universe), (NOTHING, frozenset[str]())])
    return partitioning, draw(st.lists(some | some | fixed, min_size=3, max_size=3))


def expand(selection: Selection, partitioning: Partitioning) -> frozenset[str]:
    """Return the keys, each of which must come once."""
    found = [*partitioning.keys(selection, NOW)]
    assert len(set(found)) == len(found)
    return frozenset(found)


@given(selections())
@core
def test_union_and_intersection_are_those_of_sets(
    drawn: tuple[Partitioning, list[tuple[Selection, frozenset[str]]]],
) -> None:
    """They are exact, and containment, expansion and emptiness agree."""
    partitioning, ((a, in_a), (b, in_b), (c, in_c)) = drawn
    for selection, keys in (
        (a, in_a),
        (a.union(b), in_a | in_b),
        (a.intersection(b), in_a & in_b),
        (union([a, b, c]), in_a | in_b | in_c),
        (a.union(b).intersection(c), (in_a | in_b) & in_c),
        (a.intersection(b).union(c), (in_a & in_b) | in_c),
    ):
        assert expand(selection, partitioning) == keys
        assert {key for key in UNIVERSES[partitioning] if selection.contains(key, partitioning)} == keys
        assert selection.is_empty == (not keys)


@given(selections())
@core
def test_a_selection_survives_its_stored_form(
    drawn: tuple[Partitioning, list[tuple[Selection, frozenset[str]]]],
) -> None:
    """As JSON whose objects lose their order."""
    partitioning, found = drawn
    for selection, keys in found:
        stored = from_json(json.loads(json.dumps(selection.as_json(), sort_keys=True)))
        assert stored == selection
        assert expand(stored, partitioning) == keys


@given(selections(), st.integers(1, 3))
@core
def test_a_bounded_selection_is_a_small_superset(
    drawn: tuple[Partitioning, list[tuple[Selection, frozenset[str]]]], limit: int
) -> None:
    """It has at most so many parts, and is the selection itself if that is small."""
    partitioning, ((a, in_a), (b, in_b), _) = drawn
    bounded = a.union(b).bounded(parts=limit, keys=limit)
    assert expand(bounded, partitioning) >= in_a | in_b
    match bounded:
        case Times(ranges):
            assert len(ranges) <= limit
        case Keys(keys):
            assert len(keys) <= limit
        case Products(found):
            assert len(found) <= limit
    assert a.union(b).bounded(parts=1_000) == a.union(b)


def test_a_bounded_selection_fills_the_smallest_gaps() -> None:
    """So that the superset is small."""
    selection = DAYS.select(["2024-04-01", "2024-04-03", "2024-04-09", "2024-04-11"])
    assert [*DAYS.keys(selection.bounded(parts=2), NOW, newest_first=False)] == [
        *("2024-04-01", "2024-04-02", "2024-04-03"),
        *("2024-04-09", "2024-04-10", "2024-04-11"),
    ]


def test_ranges_that_touch_are_one() -> None:
    """A year of days is one part."""
    days = TimePartitioning(Grain.DAY, "2024-01-01")
    selection = days.select(days.keys(EVERYTHING, datetime(2025, 1, 1, tzinfo=UTC)))
    assert selection == Times((Window(datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)),))


def test_products_that_differ_in_one_dimension_are_one() -> None:
    """A rectangle of keys is one product."""
    keys = [f"{letter}|2024-04-1{n}" for letter in "ab" for n in range(3)]
    selection = BOTH.select(keys)
    assert isinstance(selection, Products)
    assert len(selection.products) == 1
    whole = BOTH.product({"letter": EVERYTHING})
    assert whole == EVERYTHING


def test_the_end_of_a_window_is_not_part_of_it() -> None:
    """A range that ends where a window begins does not contain it."""
    selection = times_of([DAYS.window("2024-04-01")])
    assert not selection.contains("2024-04-02", DAYS)
    assert not selection.contains("2024-03-31", DAYS)
    assert [*DAYS.keys(selection, NOW)] == ["2024-04-01"]


def test_between_includes_both_keys() -> None:
    """As users say from and to."""
    found = [*DAYS.keys(DAYS.between("2024-03-30", "2024-04-01"), NOW)]
    assert found == ["2024-04-01", "2024-03-31", "2024-03-30"]
    assert [*DAYS.keys(DAYS.between(last="2024-03-26"), NOW)] == ["2024-03-26", "2024-03-25"]
    assert DAYS.between("2024-04-01").contains("2030-01-01", DAYS)
    assert [*BOTH.keys(BOTH.between("2024-04-11", "2024-04-11"), NOW)] == [f"{one}|2024-04-11" for one in "abc"]
    with pytest.raises(PartitionKeyError, match="from 'a' to '…' need partitions by time; these are not"):
        LETTERS.between("a")


def test_forms_do_not_mix() -> None:
    """A selection belongs to one partitioning."""
    with pytest.raises(TypeError, match="different partitionings"):
        keys_of(["a"]).union(times_of([DAYS.window("2024-04-01")]))
    with pytest.raises(TypeError, match="does not select times"):
        [*DAYS.keys(keys_of(["a"]), NOW)]
    with pytest.raises(TypeError, match="does not select dimensions"):
        [*BOTH.keys(keys_of(["a"]), NOW)]


@pytest.mark.parametrize("stored", [None, "all", {}, {"keys": [1]}, {"times": "x"}, {"products": {}}, []])
def test_a_document_that_is_not_a_selection_is_refused(stored: object) -> None:
    """It was not written by us."""
    with pytest.raises(ValueError, match="is not a stored selection"):
        from_json(stored)


def test_overlapping_products_yield_each_key_once() -> None:
    """Also if they come from a union that cannot be joined."""
    day = BOTH.axes[1]
    random = Random(1)  # noqa: S311 - a reproducible choice
    for _ in range(50):
        parts = [
            (
                keys_of(random.sample("abc", 2)),
                day.select(random.sample(["2024-04-10", "2024-04-11", "2024-04-12"], 2)),
            )
            for _ in range(3)
        ]
        expected = {
            f"{a}|{b}" for letters, days in parts for a in LETTERS.keys(letters, NOW) for b in day.keys(days, NOW)
        }
        assert expand(products_of(parts), BOTH) == expected
