"""The search among partitions, against the search for workflows in a graph in which each partition is a workflow.

See docs/semantics.md#R13.5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from freshline.decide.batch import moving_after
from freshline.decide.decide import pins_of
from freshline.decide.decision import Decision
from freshline.decide.motion import Moving, Walk
from freshline.decide.partition_motion import MovingPart, PartitionWalk
from freshline.errors import PartitioningError
from freshline.graph import Graph
from freshline.model.enums import Outcome, Reason
from freshline.model.state import Head, Input, Output, State, Version, reference, split_reference
from freshline.partitions.compatibility import mapping_between
from freshline.partitions.declaration import All, Around, Declaration, Rule
from freshline.partitions.grain import Grain
from freshline.partitions.key_partitionings import FixedKeys, Unpartitioned
from freshline.partitions.mapping import PartitionMapping
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.selection import EVERYTHING
from freshline.partitions.time_partitioning import TimePartitioning
from tests.decide.builders import Flow, graph_of
from tests.decide.strategies import Topology, topologies
from tests.simulation.partitioned import days

RUNNING = Moving("running")
LATER = datetime(2030, 1, 1, tzinfo=UTC)
DAYS = TimePartitioning(Grain.DAY, "2024-01-30", "2024-02-03")
HOURS = TimePartitioning(Grain.HOUR, "2024-01-31T20", "2024-02-01T06")
MONTHS = TimePartitioning(Grain.MONTH, "2024-01", "2024-03")
PARTITIONINGS = (Unpartitioned(), DAYS, HOURS, MONTHS, FixedKeys(("eu", "us")))
RULES: tuple[Rule | None, ...] = (None, All(), Around(-1, 0), Around(-1, -1), Around(0, 1))


@dataclass(frozen=True)
class World:
    """A graph with partitions, and the graph in which each partition is a workflow."""

    graph: Graph
    expanded: Graph
    numbers: dict[tuple[int, str], int]
    inputs: dict[int, tuple[str, ...]]


def keys(partitioning: Partitioning) -> list[str]:
    """Return all keys."""
    return list(partitioning.keys(EVERYTHING, LATER))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Return a random graph with random partitionings and mappings."""
    topology: Topology = draw(topologies())
    chosen = st.sampled_from(PARTITIONINGS)
    by_flow = {flow.id: draw(chosen) for flow in topology.flows}
    partitionings = {source: draw(chosen) for source in topology.sources}
    partitionings |= {output: by_flow[flow.id] for flow in topology.flows for output in flow.outputs}
    mappings: dict[tuple[str, int], PartitionMapping] = {}
    flows = []
    for flow in topology.flows:
        found = [
            (one, mapping)
            for one in flow.inputs
            if (mapping := possible(partitionings[one], by_flow[flow.id], draw(st.sampled_from(RULES))))
        ]
        mappings |= {(one, flow.id): mapping for one, mapping in found}
        flows.append(Flow(flow.id, tuple(one for one, _ in found), flow.outputs))
    return expand(flows, by_flow, partitionings, mappings)


def possible(above: Partitioning, below: Partitioning, rule: Rule | None) -> PartitionMapping | None:
    """Return the mapping by that rule or by default; None if there is none."""
    for declared in (Declaration(rule=rule), Declaration(), Declaration(rule=All())):
        try:
            return mapping_between(above, below, declared)
        except PartitioningError:
            continue
    return None


def expand(
    flows: list[Flow],
    by_flow: dict[int, Partitioning],
    partitionings: dict[str, Partitioning],
    mappings: dict[tuple[str, int], PartitionMapping],
) -> World:
    """Return the graph, and the one in which each partition is a workflow."""
    plain = graph_of(flows)
    graph = Graph(
        epoch=1,
        slugs=plain.slugs,
        producers=plain.outputs(),
        edges=[(one, flow.id) for flow in flows for one in flow.inputs],
        partitionings={one: found for one, found in partitionings.items() if found.columns},
        mappings=mappings,
    )
    numbers: dict[tuple[int, str], int] = {}
    members = []
    for flow in flows:
        for key in keys(by_flow[flow.id]):
            number = numbers[flow.id, key] = len(numbers) + 1
            read = [
                reference(one, other)
                for one in flow.inputs
                for other in partitionings[one].keys(mappings[one, flow.id].up(key), LATER)
            ]
            members.append(Flow(number, tuple(read), tuple(reference(one, key) for one in flow.outputs)))
    return World(graph, graph_of(members), numbers, {one.id: one.inputs for one in members})


@given(worlds(), st.data())
def test_partitions_block_as_workflows_of_their_own_would(world: World, data: st.DataObject) -> None:
    """For every partition, any set of moved inputs and any motion: the ancestors that mix, and all that move."""
    units = sorted(world.numbers)
    moving = data.draw(st.sets(st.sampled_from(units)))
    motion: dict[int, list[MovingPart]] = {}
    for flow, key in sorted(moving):
        selection = world.graph.partitioning_of(flow).select([key]) if key else EVERYTHING
        motion.setdefault(flow, []).append(MovingPart(selection, RUNNING, key))
    walk = PartitionWalk(world.graph, motion)
    plain = Walk(world.expanded, {world.numbers[one]: RUNNING for one in moving})
    for flow, key in data.draw(st.permutations(units))[:8]:
        number = world.numbers[flow, key]
        inputs = world.inputs[number]
        moved = data.draw(st.lists(st.sampled_from(inputs), unique=True)) if inputs else []
        wanted = {one.workflow_id for one in plain.blockers(number, moved)}
        found = walk.blockers(flow, moved, partition_key=key, since=datetime(2000, 1, 1, tzinfo=UTC))
        assert {world.numbers[one.workflow_id, one.partition_key] for one in found if one.mixes} == wanted
        every = walk.blockers(flow, moved, every=True, partition_key=key)
        assert {world.numbers[one.workflow_id, one.partition_key] for one in every} == {
            one.workflow_id for one in plain.blockers(number, moved, every=True)
        }


def line(rule: Rule | None = None) -> Graph:
    """Return a graph in which hours are cleaned into days, and a total, or a window, reads the days."""
    flows = [Flow(1, ("raw",), ("clean",)), Flow(2, ("clean",), ("total",))]
    hours = TimePartitioning(Grain.HOUR, "2024-01-01")
    days = TimePartitioning(Grain.DAY, "2024-01-01")
    below = Unpartitioned() if rule is None else days
    partitionings: dict[str, Partitioning] = {"raw": hours, "clean": days, "total": below}
    mappings = {
        ("raw", 1): mapping_between(hours, days),
        ("clean", 2): mapping_between(days, below, Declaration(rule=rule)),
    }
    return expand_nothing(flows, partitionings, mappings)


def expand_nothing(
    flows: list[Flow], partitionings: dict[str, Partitioning], mappings: dict[tuple[str, int], PartitionMapping]
) -> Graph:
    """Return the graph alone."""
    plain = graph_of(flows)
    return Graph(
        epoch=1,
        slugs=plain.slugs,
        producers=plain.outputs(),
        edges=[(one, flow.id) for flow in flows for one in flow.inputs],
        partitionings={one: found for one, found in partitionings.items() if found.columns},
        mappings=mappings,
    )


def at(hour: int) -> datetime:
    """Return a time on the day of the test."""
    return datetime(2024, 2, 1, hour, tzinfo=UTC)


def running(graph: Graph, key: str, origin: datetime) -> dict[int, list[MovingPart]]:
    """Return the motion in which the cleaning of one day runs."""
    moving = Moving("running", origin=origin)
    return {1: [MovingPart(graph.partitioning_of(1).select([key]), moving, key)]}


def test_another_day_is_no_other_generation_of_a_day() -> None:
    """The total reads a new day while another one is cleaned: they share no hour, so there is no mix."""
    graph = line()
    walk = PartitionWalk(graph, running(graph, "2024-01-20", at(9)))
    assert walk.blockers(2, ["clean@2024-01-31"], since=at(8)) == ()
    (blocker,) = walk.blockers(2, ["clean@2024-01-31"], since=at(9))
    assert (blocker.partition_key, blocker.mixes) == ("2024-01-20", False)


def test_a_window_waits_for_its_own_days_only() -> None:
    """Seven days to a day: a day outside of the window does not count."""
    graph = line(Around(-6, 0))
    walk = PartitionWalk(graph, running(graph, "2024-01-20", at(9)))
    moved = ["clean@2024-01-26"]
    assert [one.partition_key for one in walk.blockers(2, moved, partition_key="2024-01-26", since=at(9))] == [
        "2024-01-20"
    ]
    assert walk.blockers(2, ["clean@2024-01-27"], partition_key="2024-01-27", since=at(9)) == ()


def test_what_cannot_run_and_has_no_head_blocks_nobody() -> None:
    """A held day that was computed once blocks those that would mix, and so does one without data that can run."""
    graph = line(Around(-6, 0))
    moved = ["clean@2024-01-26"]

    def blocking(moving: Moving) -> list[str]:
        parts = [MovingPart(graph.partitioning_of(1).select(["2024-01-20"]), moving, "2024-01-20")]
        walk = PartitionWalk(graph, {1: parts})
        wide = walk.blockers(2, moved, partition_key="2024-01-26", since=at(9))
        assert len(walk.blockers(2, moved, every=True, partition_key="2024-01-26")) == len(wide)
        return [one.partition_key for one in wide]

    held = Moving("backfill-proposed", cannot_run=True, origin=at(8))
    assert blocking(held) == ["2024-01-20"]
    assert blocking(replace(held, has_head=False)) == []
    assert blocking(Moving("due", origin=at(8), has_head=False)) == ["2024-01-20"]


def test_whether_a_partition_has_a_head() -> None:
    """Its data counts even if retention removed it. Without partitions a hold counts as it does for workflows."""
    held = Decision(Outcome.HOLD, Reason.BACKFILL_PROPOSED)
    empty = State(1, "w", "2024-01-31", 1, "job", at(8), outputs=(Output("clean"),))

    def has_head(state: State) -> bool:
        moving = moving_after(state, held)
        assert moving is not None
        assert moving.cannot_run
        return moving.has_head

    assert not has_head(empty)
    assert has_head(replace(empty, outputs=(Output("clean"), Output("new", Head(1, "v1", at(9))))))
    assert has_head(replace(empty, outputs=(Output("clean", lost=True),)))
    assert has_head(replace(empty, partition_key=""))


def test_a_single_partition_does_not_wait_for_its_own_input() -> None:
    """Day by day, the rule for workflows holds: the next change of the same day is not waited for."""
    graph = line(Around(0, 0))
    walk = PartitionWalk(graph, running(graph, "2024-01-31", at(9)))
    assert walk.blockers(2, ["clean@2024-01-31"], partition_key="2024-01-31", since=at(9)) == ()


def test_an_unexpanded_note_blocks_those_that_it_feeds() -> None:
    """A selection of partitions is in motion as one row."""
    graph = line(Around(-6, 0))
    january = graph.partitioning_of(1).select(["2024-01-30", "2024-01-31"])
    walk = PartitionWalk(graph, {1: [MovingPart(january, Moving("note", origin=at(1)))]})
    assert walk.blockers(2, ["clean@2024-02-01"], partition_key="2024-02-01", since=at(2))
    assert not walk.blockers(2, ["clean@2024-01-20"], partition_key="2024-01-20", since=at(2))
    walk.settle(1, None, "2024-01-31")
    assert walk.blockers(2, ["clean@2024-02-01"], partition_key="2024-02-01", since=at(2))


def test_partitions_are_named_by_references() -> None:
    """A reference has the asset and the key; a key may contain what separates them."""
    assert reference("sales.daily", "2024-01-31") == "sales.daily@2024-01-31"
    assert reference("sales.daily") == "sales.daily"
    assert split_reference("sales.daily@a@b") == ("sales.daily", "a@b")
    assert split_reference("sales.daily") == ("sales.daily", "")
    state = State(1, "w", "2024-01-31", 1, "job", at(8))
    one = Input("sales.daily", Head(3, "v3", at(9)), partition_key="2024-01-31")
    assert pins_of(replace(state, inputs=(one,))) == {"sales.daily@2024-01-31": Version(3, "v3")}


def test_a_predecessor_brings_its_roots() -> None:
    """A balance is in motion because of the day before: a total that read that day new would read two generations."""
    found = days("2024-01-01")
    flows = [Flow(1, ("raw", "balance"), ("balance",)), Flow(2, ("balance",), ("total",))]
    partitionings: dict[str, Partitioning] = {"raw": found, "balance": found, "total": Unpartitioned()}
    mappings = {
        ("raw", 1): mapping_between(found, found),
        ("balance", 1): mapping_between(found, found, Declaration(rule=Around(-1, -1)), own_output=True),
        ("balance", 2): mapping_between(found, Unpartitioned()),
    }
    graph = expand_nothing(flows, partitionings, mappings)
    walk = PartitionWalk(graph, running(graph, "2024-01-20", at(9)))
    assert [one.mixes for one in walk.blockers(2, ["balance@2024-01-19"], since=at(8))] == [True]
    assert walk.blockers(2, ["balance@2024-01-21"], since=at(8)) == ()
