"""Places of assets: every edge leads to a later layer, whatever the order of the input; small changes move little."""

from __future__ import annotations

import random
import time
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshline.graph_layout import GraphLayout, lay_out, prefix_groups

Edges = list[tuple[str, str]]
NAMES = st.text("ab.", min_size=1, max_size=4)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[str], Edges]:
    """Draw assets in a random order, and edges without a cycle."""
    names = draw(st.lists(NAMES, unique=True, max_size=12))
    pairs = [(one, other) for number, one in enumerate(names) for other in names[number + 1 :]]
    return names, draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else []


def rows(layout: GraphLayout) -> dict[int, list[str]]:
    """Return the ids of each layer in their order."""
    found: dict[int, list[str]] = {}
    for one in sorted(layout.places, key=lambda place: (place.layer, place.order)):
        found.setdefault(one.layer, []).append(one.asset_id)
    return found


def domains(count: int, size: int) -> tuple[list[str], Edges]:
    """Return a graph as companies have it: assets read assets of their domain, and a few of others."""
    chance = random.Random(7)  # noqa: S311 - the same graph every time
    names: list[str] = []
    edges: Edges = []
    for domain in range(count):
        own = [f"d{domain:03}.part{number // 20}.a{number:03}" for number in range(size)]
        for number in range(size // 6, size):
            edges += [(own[chance.randrange(max(0, number - 25), number)], own[number]) for _ in range(2)]
            if names and number % 30 == 0:
                edges.append((chance.choice(names), own[number]))
        names += own
    return names, edges


@given(graphs())
def test_every_asset_has_one_place_and_every_edge_leads_to_a_later_layer(graph: tuple[list[str], Edges]) -> None:
    """Layers and orders are without holes, and an edge skips no layer without need: one input is just above."""
    names, edges = graph
    layout = lay_out(names, edges)
    assert [place.asset_id for place in layout.places] == sorted(names)
    layers = {place.asset_id: place.layer for place in layout.places}
    assert all(layers[one] < layers[other] for one, other in edges)
    for name in names:
        assert layers[name] == 1 + max((layers[one] for one, other in edges if other == name), default=-1)
    for layer in range(layout.layers):
        assert sorted(p.order for p in layout.places if p.layer == layer) == list(range(len(rows(layout)[layer])))
    assert {(layout.places[a].asset_id, layout.places[b].asset_id) for a, b in layout.edges} == set(edges)
    assert {place.group for place in layout.places} == set(layout.groups)


@given(graphs(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(graph: tuple[list[str], Edges], chance: random.Random) -> None:
    """Nor do repetitions: two processes draw the same picture."""
    names, edges = graph
    expected = lay_out(names, edges)
    mixed, doubled = names * 2, [*edges, *edges, *((name, name) for name in names)]
    chance.shuffle(mixed)
    chance.shuffle(doubled)
    assert lay_out(mixed, doubled) == expected


@given(graphs(), st.data())
def test_an_asset_that_nobody_reads_moves_nothing_else(graph: tuple[list[str], Edges], data: st.DataObject) -> None:
    """A new asset at the end finds its place among the others, whose order stays."""
    names, edges = graph
    if not names:
        return
    new = lay_out([*names, "new"], [*edges, (data.draw(st.sampled_from(names)), "new")])
    old = rows(lay_out(names, edges))
    left = {layer: [one for one in row if one != "new"] for layer, row in rows(new).items()}
    assert {layer: row for layer, row in left.items() if row} == old


@given(graphs())
def test_two_components_do_not_mix(graph: tuple[list[str], Edges]) -> None:
    """In every layer, the assets of one component are next to each other."""
    names, edges = graph
    twice = [f"{half}{name}" for half in "xy" for name in names]
    layout = lay_out(twice, [(f"{half}{one}", f"{half}{other}") for half in "xy" for one, other in edges])
    for row in rows(layout).values():
        assert [one[0] for one in row] == sorted(one[0] for one in row)


def test_an_asset_is_placed_near_its_inputs() -> None:
    """Without it, the edges of this graph would cross."""
    layout = lay_out(["a", "b", "c", "x", "y", "z"], [("a", "z"), ("b", "y"), ("c", "x")])
    assert rows(layout) == {0: ["a", "b", "c"], 1: ["z", "y", "x"]}


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (["flights.raw", "flights.clean"], ["flights", "flights"]),
        (["flights.raw", "flights.clean", "flights.delay.hourly"], ["flights"] * 3),
        (["a.b.c", "a.b.d", "a.e"], ["a.b", "a.b", ""]),
        (["a.b.c", "a.b.d", "a.e", "a.f"], ["a.b", "a.b", "a", "a"]),
        (["a.b.c.d", "x", "y"], ["", "", ""]),
        (["a.b.c", "a.d.e"], ["a", "a"]),
        (["orders"], [""]),
        ([], []),
    ],
)
def test_a_group_is_a_prefix_that_several_names_have(names: list[str], groups: list[str]) -> None:
    """A prefix of one name is joined with the one above it."""
    assert prefix_groups(names) == groups


def test_a_cycle_and_an_unknown_asset_are_errors() -> None:
    """They name the asset."""
    with pytest.raises(ValueError, match="cycle at or above the asset 'b'"):
        lay_out(["a", "b", "c"], [("a", "b"), ("b", "c"), ("c", "b")])
    with pytest.raises(ValueError, match="'x', which is not one of the assets"):
        lay_out(["a"], [("a", "x")])


def test_a_deep_chain_has_a_layer_for_each_asset() -> None:
    """Without recursion."""
    names = [f"a{number:05}" for number in range(5_000)]
    assert lay_out(names, pairwise(names)).layers == len(names)


def test_ten_thousand_assets_take_a_fraction_of_a_second() -> None:
    """Of processor time, which other processes do not change; names without a common prefix are not slower."""
    names, edges = domains(100, 100)
    assert len(names) == 10_000
    began = time.process_time()
    layout = lay_out([*names, *(f"single{number}.asset" for number in range(2_000))], edges)
    assert time.process_time() - began < 0.6
    assert len(layout.edges) > 16_000


def test_a_new_source_in_the_middle_moves_few_assets() -> None:
    """Only what is made from it moves, and what is moved by a rounding of means."""
    names, edges = domains(20, 50)
    old = rows(lay_out(names, edges))
    new = rows(lay_out([*names, "d010.part0.new"], [*edges, ("d010.part0.new", "d010.part2.a040")]))
    moved = sum(_moved(old.get(layer, []), row) for layer, row in new.items())
    assert moved < 0.02 * len(names)


def _moved(old: list[str], new: list[str]) -> int:
    """Return how many assets of a layer have another neighbour above them than before."""
    above = Counter(pairwise([one for one in old if one in new]))
    return sum((Counter(pairwise([one for one in new if one in old])) - above).values())
