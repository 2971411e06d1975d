"""The topology: levels, roots, descendants and cycles, compared with naive definitions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import pairwise
from operator import or_

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshline.graph import Graph, find_cycle
from tests.decide.builders import Flow, graph_of
from tests.decide.strategies import Topology, topologies

DEEP = 5_000


def ancestors(topology: Topology, asset_id: str) -> set[str | int]:
    """Return everything above an asset, itself included: assets by name and workflows by number."""
    found: set[str | int] = {asset_id}
    producer = topology.producer(asset_id)
    if producer is not None:
        found |= {producer.id}.union(*(ancestors(topology, one) for one in producer.inputs))
    return found


@given(topologies())
def test_two_assets_share_a_root_exactly_if_they_share_an_ancestor(topology: Topology) -> None:
    """So that a few roots can stand for full sets of ancestors; two outputs of one workflow share it."""
    above = {one: ancestors(topology, one) for one in _assets(topology)}
    for one, its in above.items():
        for other, theirs in above.items():
            shared = bool(topology.graph.roots(one) & topology.graph.roots(other))
            assert shared == (not its.isdisjoint(theirs)), (one, other)


@given(topologies(), st.integers(0, 3))
def test_ancestors_are_all_workflows_above_unless_there_are_too_many(topology: Topology, most: int) -> None:
    """What moves above a batch is asked for by their numbers, or altogether."""
    batch = [flow.id for flow in topology.flows[-2:]]
    inputs = [one for flow in topology.flows[-2:] for one in flow.inputs]
    above = {one for asset_id in inputs for one in ancestors(topology, asset_id) if isinstance(one, int)}
    assert topology.graph.ancestors(batch, len(above)) == above
    assert topology.graph.ancestors(batch, most) == (above if len(above) <= most else None)


@given(topologies())
def test_origins_are_the_roots_of_all_inputs(topology: Topology) -> None:
    """Of each workflow."""
    for flow in topology.flows:
        expected = reduce(or_, (topology.graph.roots(one) for one in flow.inputs), 0)
        assert topology.graph.origins(flow.id) == expected


@given(topologies())
def test_a_level_is_the_longest_way_from_the_sources(topology: Topology) -> None:
    """Every parent lies lower, and one of them exactly one level."""
    levels: dict[int, int] = {}
    for flow in topology.flows:
        parents = [p.id for one in flow.inputs if (p := topology.producer(one))]
        assert sorted(set(topology.graph.parents(flow.id))) == sorted(set(parents))
        levels[flow.id] = 1 + max((levels[p] for p in parents), default=-1)
        assert topology.graph.level(flow.id) == levels[flow.id]


@given(topologies())
def test_consumers_and_inputs_are_two_views_of_one_thing(topology: Topology) -> None:
    """The consumers of an asset are exactly the workflows that read it."""
    graph = topology.graph
    for one in _assets(topology):
        readers = sorted(f.id for f in topology.flows if one in f.inputs)
        assert list(graph.consumers(one)) == readers
        producer = topology.producer(one)
        assert graph.producer(one) == (producer.id if producer else None) == graph.outputs().get(one)


@given(topologies())
def test_descendants_are_those_with_the_asset_above_them(topology: Topology) -> None:
    """All of them, each once, nearest levels first."""
    for one in _assets(topology):
        expected = {f.id for f in topology.flows if any(one in ancestors(topology, i) for i in f.inputs)}
        found = topology.graph.descendants(one)
        assert sorted(found) == sorted(expected)
        levels = [topology.graph.level(f) for f in found]
        assert levels == sorted(levels)


def test_what_a_workflow_reads_of_its_own_is_no_edge() -> None:
    """It is neither its own parent nor its own consumer, and the walk upwards ends (docs/semantics.md#R1.3)."""
    graph = graph_of([Flow(1, ("s", "own"), ("own",))])
    assert graph.inputs(1) == ("s",)
    assert graph.consumers("own") == ()
    assert list(graph.parents(1)) == []
    assert graph.level(1) == 0
    assert graph.roots("own") == graph.roots("s")
    assert graph.descendants("own") == []


def test_a_workflow_that_reads_only_its_own_is_a_root() -> None:
    """As if it read nothing (docs/semantics.md#R1.3)."""
    graph = graph_of([Flow(1, ("own",), ("own", "other"))])
    assert graph.roots("own") == graph.roots("other")


def test_the_outputs_of_a_workflow_without_inputs_are_of_one_generation() -> None:
    """Both come from one run: below them, a join must not read one new and one old."""
    graph = graph_of([Flow(1, (), ("x", "y")), Flow(2, ("x",), ("b",)), Flow(3, ("y",), ("c",))])
    assert graph.roots("b") & graph.origins(3)


def test_an_unknown_workflow_is_a_harmless_one() -> None:
    """It reads nothing and lies at the bottom."""
    graph = graph_of([])
    assert (graph.level(9), graph.inputs(9), graph.origins(9)) == (0, (), 0)


@pytest.fixture(scope="module")
def chain() -> Graph:
    """Return s -> a1 -> a2 -> ... -> a5000."""
    return graph_of([Flow(n, (f"a{n - 1}" if n > 1 else "s",), (f"a{n}",)) for n in range(1, DEEP + 1)])


def test_deep_chains_do_not_hit_the_recursion_limit(chain: Graph) -> None:
    """Five thousand levels, asked for from the far end first."""
    assert chain.level(DEEP) == DEEP - 1
    assert chain.roots(f"a{DEEP}") == chain.roots("s")
    assert chain.descendants("s") == list(range(1, DEEP + 1))


# Cycles

edges = st.dictionaries(
    st.sampled_from("abcdefg"), st.sets(st.sampled_from("abcdefg"), max_size=3).map(sorted), max_size=7
)


def reachable(successors: Mapping[str, list[str]], start: str) -> set[str]:
    """Return the nodes that can be reached by at least one step."""
    found: set[str] = set()
    frontier = list(successors.get(start, ()))
    while frontier:
        node = frontier.pop()
        if node not in found:
            found.add(node)
            frontier.extend(successors.get(node, ()))
    return found


@given(edges)
def test_a_cycle_is_found_exactly_if_there_is_one(successors: dict[str, list[str]]) -> None:
    """And what is found is one: a path of real edges that ends where it began, without a repetition."""
    cycle = find_cycle(successors)
    assert (cycle is not None) == any(node in reachable(successors, node) for node in successors)
    if cycle is None:
        return
    assert cycle[0] == cycle[-1]
    assert len(cycle) >= 2
    assert len(set(cycle)) == len(cycle) - 1
    assert all(after in successors[before] for before, after in pairwise(cycle))


def test_a_cycle_does_not_hide_behind_its_tail() -> None:
    """The path names only the cycle, not the way to it."""
    assert find_cycle({"a": ["b"], "b": ["c"], "c": ["d"], "d": ["b"]}) == ["b", "c", "d", "b"]
    assert find_cycle({"a": ["a"]}) == ["a", "a"]
    assert find_cycle({}) is None


def test_deep_cycles_do_not_hit_the_recursion_limit() -> None:
    """Five thousand steps, closed and open."""
    line = {f"{n:05}": [f"{n + 1:05}"] for n in range(DEEP)}
    assert find_cycle(line) is None
    cycle = find_cycle(line | {f"{DEEP:05}": ["00000"]})
    assert cycle is not None
    assert len(cycle) == DEEP + 2


def _assets(topology: Topology) -> list[str]:
    return [*topology.sources, *(output for flow in topology.flows for output in flow.outputs)]
