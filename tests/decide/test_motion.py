"""Which ancestors block, against a reading of the rule that takes every word literally.

See docs/semantics.md#R4.2, docs/semantics.md#R4.3.
"""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from freshline.decide.motion import MOST_BLOCKERS, Moving, Walk
from freshline.graph import Graph
from tests.decide.builders import Flow, clock, graph_of
from tests.decide.strategies import Topology, topologies

RUNNING = Moving("running")


def above(topology: Topology, asset_id: str) -> set[str | int]:
    """Return the asset, and all assets and workflows above it."""
    found: set[str | int] = {asset_id}
    producer = topology.producer(asset_id)
    if producer is not None:
        found |= {producer.id}.union(*(above(topology, one) for one in producer.inputs))
    return found


def oracle(topology: Topology, moving: set[int], flow: Flow, changed: list[str] | None) -> set[int]:
    """docs/semantics.md#R4.2 and docs/semantics.md#R4.3, word for word."""
    flows = {f.id: f for f in topology.flows}
    blockers = set()
    for x in moving:
        is_ancestor = any(x in above(topology, one) for one in flow.inputs)
        x_and_above = set[str | int]().union(*(above(topology, one) for one in flows[x].inputs))
        could_mix = changed is None or any(
            x not in above(topology, one) and not above(topology, one).isdisjoint(x_and_above) for one in changed
        )
        if is_ancestor and could_mix:
            blockers.add(x)
    return blockers


@given(topologies(), st.data())
def test_the_walk_finds_who_the_rule_means(topology: Topology, data: st.DataObject) -> None:
    """For every workflow, any set of changed inputs and any motion: exactly the ancestors of the rule.

    See docs/semantics.md#R4.2, docs/semantics.md#R4.3.
    """
    numbers = [f.id for f in topology.flows]
    moving = data.draw(st.sets(st.sampled_from(numbers)))
    walk = Walk(topology.graph, dict.fromkeys(moving, RUNNING))
    for flow in data.draw(st.permutations(topology.flows)):
        choices = st.lists(st.sampled_from(flow.inputs), unique=True) if flow.inputs else st.just([])
        changed = data.draw(choices)
        mixing = oracle(topology, moving, flow, changed)
        assert {b.workflow_id for b in walk.blockers(flow.id, changed)} == mixing
        every = walk.blockers(flow.id, changed, every=True)
        assert {b.workflow_id for b in every} == oracle(topology, moving, flow, None)
        assert {b.workflow_id for b in every if b.mixes} == mixing


@given(topologies(), st.data())
def test_what_was_decided_in_the_batch_counts(topology: Topology, data: st.DataObject) -> None:
    """Ancestors are decided first: one at rest blocks no descendant, one in motion does."""
    numbers = [f.id for f in topology.flows]
    moving = data.draw(st.sets(st.sampled_from(numbers)))
    walk = Walk(topology.graph, dict.fromkeys(moving, Moving("due")))
    now = set(moving)
    for flow in sorted(topology.flows, key=lambda f: (topology.graph.level(f.id), f.id)):
        found = walk.blockers(flow.id, flow.inputs)
        assert {b.workflow_id for b in found} == oracle(topology, now, flow, list(flow.inputs))
        assert all(b.motion == "queued" for b in found if b.workflow_id in now)
        if flow.id in moving:
            rests = data.draw(st.booleans())
            walk.settle(flow.id, None if rests else Moving("queued"))
            now -= {flow.id} if rests else set()


@given(topologies())
def test_a_workflow_with_one_input_never_waits(topology: Topology) -> None:
    """Whatever is in motion above it, so that chains keep flowing (docs/semantics.md#R4.2)."""
    walk = Walk(topology.graph, {f.id: RUNNING for f in topology.flows})
    for flow in topology.flows:
        if len(flow.inputs) == 1:
            assert walk.blockers(flow.id, flow.inputs) == ()


@given(topologies())
def test_nobody_blocks_when_nothing_moves(topology: Topology) -> None:
    """A workflow is not blocked by itself or by its descendants."""
    still = Walk(topology.graph, {})
    for flow in topology.flows:
        assert still.blockers(flow.id, flow.inputs, every=True) == ()
        below = [f for one in flow.outputs for f in topology.graph.descendants(one)]
        moving = Walk(topology.graph, dict.fromkeys([flow.id, *below], RUNNING))
        assert moving.blockers(flow.id, flow.inputs, every=True) == ()


def diamond() -> Graph:
    """s -> 1 -> b, s -> 2 -> c, (b, c) -> 3."""
    return graph_of([Flow(1, ("s",), ("b",)), Flow(2, ("s",), ("c",)), Flow(3, ("b", "c"), ("d",))])


def test_a_join_waits_for_its_other_branch() -> None:
    """One branch is done, the other is in motion: reading now would mix."""
    assert [b.slug for b in Walk(diamond(), {2: RUNNING}).blockers(3, ["b"])] == ["w2"]


def test_a_join_does_not_wait_for_the_branch_that_changed() -> None:
    """The branch moves on already: what it gave is of one generation with the rest."""
    assert Walk(diamond(), {1: RUNNING}).blockers(3, ["b"]) == ()


def test_an_unrelated_ancestor_does_not_block() -> None:
    """Branches of different sources do not wait for each other, but an expiry waits for both."""
    graph = graph_of([Flow(1, ("s",), ("b",)), Flow(2, ("t",), ("c",)), Flow(3, ("b", "c"), ("d",))])
    walk = Walk(graph, {2: RUNNING})
    assert walk.blockers(3, ["b"]) == ()
    assert [b.workflow_id for b in walk.blockers(3, ["b"], every=True)] == [2]


def test_a_source_read_directly_and_through_others() -> None:
    """X's own inputs count: s changed, and who makes b from s is in motion."""
    graph = graph_of([Flow(1, ("s",), ("b",)), Flow(2, ("s", "b"), ("d",))])
    assert [b.workflow_id for b in Walk(graph, {1: RUNNING}).blockers(2, ["s"])] == [1]


def test_the_branches_of_a_workflow_without_inputs_wait_for_each_other() -> None:
    """Its outputs are published together: one generation, also without any source above."""
    flows = [Flow(1, (), ("x", "y")), Flow(2, ("x",), ("b",)), Flow(3, ("y",), ("c",)), Flow(4, ("b", "c"), ("d",))]
    assert [b.workflow_id for b in Walk(graph_of(flows), {3: RUNNING}).blockers(4, ["b"])] == [3]


def test_motion_of_workflows_that_are_gone_is_ignored() -> None:
    """A retired workflow may still have a run; it is in no graph."""
    assert Walk(diamond(), {99: RUNNING}).blockers(3, ["b"], every=True) == ()


def test_a_blocker_says_how_it_moves() -> None:
    """Kind, end and whether it can run at all come from the motion."""
    motion = {1: Moving("cooling-down", clock("10:00")), 2: Moving("breaker-open", cannot_run=True)}
    first, second = Walk(diamond(), motion).blockers(3, [], every=True)
    assert (first.motion, first.until, first.cannot_run) == ("cooling-down", clock("10:00"), False)
    assert (second.motion, second.until, second.cannot_run) == ("breaker-open", None, True)


def test_the_cut_keeps_those_worth_waiting_for() -> None:
    """Of more blockers than are shown, an active one is first, then the earliest end; who cannot run is last."""
    count = MOST_BLOCKERS + 10
    flows = [Flow(n, ("s",), (f"a{n}",)) for n in range(1, count + 1)]
    flows.append(Flow(99, ("s", *(f"a{n}" for n in range(1, count + 1))), ("d",)))
    motion = {n: Moving("breaker-open", cannot_run=True) for n in range(1, count + 1)}
    motion |= {count: RUNNING, count - 1: Moving("debouncing", clock("10:00"))}
    motion |= {count - 2: Moving("debouncing", clock("10:00") - timedelta(minutes=1))}
    found = [b.workflow_id for b in Walk(graph_of(flows), motion).blockers(99, ["s"])]
    assert len(found) == MOST_BLOCKERS
    assert found[:3] == [count, count - 2, count - 1]


def test_the_cut_keeps_one_that_mixes() -> None:
    """A run that waits for nobody any more says that it reads a mix, however many blockers there are."""
    count = MOST_BLOCKERS + 10
    flows = [Flow(n, (f"t{n}",), (f"a{n}",)) for n in range(1, count + 1)]
    flows += [Flow(98, ("s",), ("b",)), Flow(99, ("s", "b", *(f"a{n}" for n in range(1, count + 1))), ("d",))]
    motion = {**dict.fromkeys(range(1, count + 1), RUNNING), 98: Moving("breaker-open", cannot_run=True)}
    found = Walk(graph_of(flows), motion).blockers(99, ["s"], every=True)
    assert len(found) == MOST_BLOCKERS
    assert [b.workflow_id for b in found if b.mixes] == [98]


def test_an_asset_came_out_unchanged_when_all_above_rests() -> None:
    """s -> 1 -> b -> 2 -> c: b did not change, so c is complete once nothing moves between s and c."""
    graph = graph_of([Flow(1, ("s",), ("b",)), Flow(2, ("b", "t"), ("c",)), Flow(3, ("c", "s"), ("d",))])
    rest = Walk(graph, {3: RUNNING})
    assert rest.came_out_unchanged("c", ["s"])
    assert not rest.came_out_unchanged("c", [])
    assert not rest.came_out_unchanged("s", ["s"]), "a source is complete when it is reported"
    assert not rest.came_out_unchanged("b", ["t"]), "b does not descend from t"
    assert not Walk(graph, {1: RUNNING}).came_out_unchanged("c", ["s"])
    deaf = graph_of([Flow(1, ("s",), ("b",)), Flow(2, ("b", "t"), ("c",))], [("b", 2)])
    assert not Walk(deaf, {}).came_out_unchanged("c", ["s"]), "changes of b cause no run of 2"
    assert Walk(deaf, {}).came_out_unchanged("c", ["t"])
    assert not Walk(graph, {2: Moving("stale", cannot_run=True)}).came_out_unchanged("c", ["s"])


def test_deep_walks_do_not_hit_the_recursion_limit() -> None:
    """Five thousand levels below the workflow that moves."""
    deep = 5_000
    flows = [Flow(n, (f"a{n - 1}" if n > 1 else "s",), (f"a{n}",)) for n in range(1, deep)]
    flows.append(Flow(deep, ("s", f"a{deep - 1}"), ("d",)))
    assert [b.workflow_id for b in Walk(graph_of(flows), {1: RUNNING}).blockers(deep, ["s"])] == [1]
