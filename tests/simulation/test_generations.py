"""Properties of waiting on random graphs, changes and durations."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain, repeat

import pytest

from freshline.model.enums import RunStatus
from freshline.model.policy import Policy
from freshline.simulation import Run
from tests.decide.builders import Flow
from tests.simulation.generations import START, Delays, TrackedSimulation, policy_of

# How many graphs of each kind: in the gate, and in `make full`.
SEPARATED, OVERLAPPING, SHORT, CUT = 300, 900, 300, 300
FULL = 20_000


def seeded(seed: int) -> random.Random:
    """Return random numbers that are the same every time."""
    return random.Random(seed)  # noqa: S311 - a seed, not a secret


def random_flows(rng: random.Random) -> tuple[list[str], list[Flow]]:
    """Up to three sources, up to eight workflows; some make two assets, a few read nothing."""
    sources = [f"s{n}" for n in range(rng.randint(1, 3))]
    assets, flows = list(sources), []
    for number in range(1, rng.randint(3, 9)):
        count = rng.choice([0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3])
        inputs = {rng.choice([*assets[-5:], *sources]) for _ in range(count)}
        outputs = tuple(f"a{number}{letter}" for letter in "xy"[: rng.choice([1, 1, 2])])
        flows.append(Flow(number, tuple(sorted(inputs)), outputs))
        assets.extend(outputs)
    return sources, flows


def random_delays(rng: random.Random, failing: float = 0.0) -> Delays:
    """Return short and long delays of consuming, claiming and working."""
    consume, claim, work = rng.choice([0, 0, 3_000]), rng.choice([0, 5_000, 40_000]), rng.choice([2_000, 60_000])
    return Delays((0, consume), (0, claim), (100, work), failing)


def random_policy(rng: random.Random, flow: Flow) -> Policy:
    """Return a policy with or without debounce and minimum interval. No wait reaches its deadline."""
    policy = policy_of(flow)
    held = rng.choice([{}, {}, {}, {"debounce_ms": 5_000, "max_delay_ms": 20_000}, {"min_interval_ms": 30_000}])
    return policy.__class__(**{name: getattr(policy, name) for name in policy.__dataclass_fields__} | held)


def touch(simulation: TrackedSimulation, origin: str | int) -> None:
    """Change a source, or expire a workflow without inputs."""
    if isinstance(origin, str):
        simulation.change(origin)
    else:
        simulation.expire(origin)


def bootstrap(simulation: TrackedSimulation, sources: list[str]) -> list[str | int]:
    """Report every source; return everything that can change from outside."""
    for source in sources:
        simulation.change(source)
    return [*sources, *(f.id for f in simulation.flows.values() if not f.inputs)]


def scatter(simulation: TrackedSimulation, origins: list[str | int], rng: random.Random) -> None:
    """Schedule changes at random times, some of them close together."""
    for _ in range(rng.randint(2, 8)):
        origin, moment = rng.choice(origins), START + timedelta(milliseconds=rng.randint(0, 200_000))
        simulation.at(moment, lambda origin=origin: touch(simulation, origin))  # type: ignore[misc]


def succeeded(simulation: TrackedSimulation) -> Iterator[Run]:
    """Return the runs that published."""
    return (run for run in simulation.runs if run.status is RunStatus.SUCCEEDED)


def check(simulation: TrackedSimulation, seed: int) -> None:
    """Assert that nothing is stale, that every run was necessary, and that every mix is marked."""
    assert simulation.idle, f"seed {seed}"
    for flow_id in simulation.flows:
        assert simulation.consumed(flow_id) == simulation.heads(flow_id), f"seed {seed}: workflow {flow_id} is stale"
    for run in simulation.runs:
        assert run not in simulation.unnecessary, f"seed {seed}: {run} read nothing new"
        assert run.mixed or not simulation.reads_a_mix(run), f"seed {seed}: {run} read two generations"


def separated(seed: int) -> None:
    """Assert that each change runs every descendant once, if it settles before the next change."""
    rng = seeded(seed)
    sources, flows = random_flows(rng)
    simulation = TrackedSimulation(flows, seed=seed, delays=random_delays(rng))
    origins = bootstrap(simulation, sources)
    simulation.settle()
    for _ in range(4):
        origin, before = rng.choice(origins), len(simulation.runs)
        touch(simulation, origin)
        simulation.settle()
        ran = Counter(run.workflow_id for run in simulation.runs[before:])
        expected = descendants(simulation, origin)
        assert dict(ran) == dict.fromkeys(expected, 1), f"seed {seed}: {origin} changed"
    assert not any(run.mixed for run in simulation.runs), f"seed {seed}"
    check(simulation, seed)


def descendants(simulation: TrackedSimulation, origin: str | int) -> set[int]:
    """Return everything below the origin, and the origin itself if it is a workflow."""
    if isinstance(origin, str):
        return set(simulation.catalogue.graph.descendants(origin))
    below = chain.from_iterable(
        simulation.catalogue.graph.descendants(output) for output in simulation.flows[origin].outputs
    )
    return {origin, *below}


def overlapping(seed: int, *, waiting_moves: bool = True, failing: float = 0.0) -> TrackedSimulation:
    """Run a simulation whose changes overlap."""
    rng = seeded(seed)
    sources, flows = random_flows(rng)
    policies = {flow.id: random_policy(rng, flow) for flow in flows}
    simulation = TrackedSimulation(
        flows,
        seed=seed,
        delays=random_delays(rng, failing),
        policies=lambda flow: policies[flow.id],
        waiting_moves=waiting_moves,
    )
    scatter(simulation, bootstrap(simulation, sources), rng)
    simulation.settle()
    return simulation


def blocks(count: int, parts: int = 10) -> list[range]:
    """Split the seeds 0 to count into parts, so that a failure is found earlier."""
    size = count // parts
    return [range(n * size, (n + 1) * size) for n in range(parts)]


@pytest.mark.parametrize("seeds", blocks(SEPARATED), ids=str)
def test_one_change_one_run_of_each_descendant(seeds: range) -> None:
    """Changes that settle run every descendant exactly once, on one generation."""
    for seed in seeds:
        separated(seed)


@pytest.mark.parametrize("seeds", blocks(OVERLAPPING), ids=str)
def test_overlapping_changes_converge_without_a_mix(seeds: range) -> None:
    """Whatever overlaps, everything is fresh in the end, and no wait ran out, so no run is mixed."""
    for seed in seeds:
        simulation = overlapping(seed)
        check(simulation, seed)
        assert not any(run.mixed for run in simulation.runs), f"seed {seed}"


@pytest.mark.full
@pytest.mark.parametrize("seeds", blocks(FULL, 40), ids=str)
def test_twenty_thousand_graphs(seeds: range) -> None:
    """The same, on many more."""
    for seed in seeds:
        separated(seed)
        check(overlapping(seed, failing=0.2 * (seed % 2)), seed)


@pytest.mark.parametrize("seeds", blocks(SHORT), ids=str)
def test_waits_that_run_out_say_so(seeds: range) -> None:
    """With short waits, with failures and open breakers, every run that read two generations is `mixed`.

    See docs/semantics.md#R4.5.
    """
    mixed = 0
    for seed in seeds:
        rng = seeded(seed)
        sources, flows = random_flows(rng)
        wait = rng.choice([0, 3_000, 20_000])
        failing = rng.choice([0.0, 0.0, 0.3])
        simulation = TrackedSimulation(
            flows,
            seed=seed,
            delays=random_delays(rng, failing),
            policies=lambda flow, wait=wait: policy_of(flow, max_wait_ms=wait),  # type: ignore[misc]
        )
        scatter(simulation, bootstrap(simulation, sources), rng)
        simulation.settle()
        check(simulation, seed)
        mixed += sum(simulation.reads_a_mix(run) for run in simulation.runs)
    assert mixed > 0, "short waits never led to a mix: the check proves nothing"


@pytest.mark.parametrize("seeds", blocks(CUT), ids=str)
def test_an_identical_output_stops_the_wave(seeds: range) -> None:
    """What lies only below workflows whose output does not change runs once, for the first time."""
    for seed in seeds:
        rng = seeded(seed)
        sources, flows = random_flows(rng)
        constant = frozenset(f.id for f in flows if rng.random() < 0.4)
        simulation = TrackedSimulation(flows, seed=seed, delays=random_delays(rng), constant=constant)
        origins = bootstrap(simulation, sources)
        simulation.settle()
        before = len(simulation.runs)
        scatter(simulation, origins, rng)
        simulation.settle()
        ran = {run.workflow_id for run in simulation.runs[before:]}
        assert ran <= reached(simulation, origins), f"seed {seed}"
        check(simulation, seed)


def reached(simulation: TrackedSimulation, origins: list[str | int]) -> set[int]:
    """Return the workflows that a change can reach without passing a constant one."""
    moving, found = {one for one in origins if isinstance(one, str)}, set()
    for flow in simulation.flows.values():
        if not flow.inputs or not moving.isdisjoint(flow.inputs):
            found.add(flow.id)
            moving |= set() if flow.id in simulation.constant else set(flow.outputs)
    return found


def test_a_source_faster_than_the_first_step_starves_nobody() -> None:
    """A chain of four under a source that changes every second: every level runs at its own pace.

    See docs/scenarios.md#scenario-0.
    """
    flows = [Flow(1, ("s",), ("a",)), Flow(2, ("a",), ("b",)), Flow(3, ("b",), ("c",)), Flow(4, ("c",), ("d",))]
    lengths = {1: 10, 2: 3, 3: 20, 4: 5}
    simulation = TrackedSimulation(flows, seconds={flow_id: repeat(length) for flow_id, length in lengths.items()})
    hour = timedelta(hours=1)
    for second in range(3600):
        simulation.at(START + timedelta(seconds=second), lambda: simulation.change("s"))
    simulation.settle(until=START + hour, most=100_000)
    ran = Counter(run.workflow_id for run in succeeded(simulation))
    pace = 0
    for flow_id, length in lengths.items():
        pace = max(pace, length)
        assert ran[flow_id] >= 3600 / pace - 5, ran
    simulation.settle()
    check(simulation, 0)


def test_a_join_under_a_fast_source_runs_at_its_deadline() -> None:
    """Where the branches never rest, the wait ends and the run says mixed (docs/scenarios.md#scenario-13)."""
    flows = [Flow(1, ("s",), ("a",)), Flow(2, ("s",), ("b",)), Flow(3, ("a", "b"), ("c",))]
    simulation = TrackedSimulation(
        flows,
        seconds={1: repeat(7), 2: repeat(11), 3: repeat(1)},
        policies=lambda flow: policy_of(flow, max_wait_ms=60_000),
    )
    for second in range(3600):
        simulation.at(START + timedelta(seconds=second), lambda: simulation.change("s"))
    simulation.settle(until=START + timedelta(hours=1), most=100_000)
    joins = [run for run in simulation.runs if run.workflow_id == 3]
    assert 50 <= len(joins) <= 65
    assert all(run.mixed for run in joins[1:])


def waiting_ancestor(*, waiting_moves: bool) -> TrackedSimulation:
    """s -> y, s -> z, (y, z) -> x, y -> u, (u, x) -> d; x has generation 2 of y and 3 of z, and waits for 3 of y."""
    flows = [
        Flow(1, ("s",), ("y",)),
        Flow(2, ("s",), ("z",)),
        Flow(3, ("y", "z"), ("x",)),
        Flow(4, ("y",), ("u",)),
        Flow(5, ("u", "x"), ("d",)),
    ]
    seconds = {1: chain([1, 1, 60], repeat(1)), 2: chain([1, 20], repeat(1))}
    simulation = TrackedSimulation(
        flows, seconds=seconds | {n: repeat(1) for n in (3, 4, 5)}, waiting_moves=waiting_moves
    )
    simulation.change("s")
    for second in (100, 110):
        simulation.at(START + timedelta(seconds=second), lambda: simulation.change("s"))
    simulation.settle()
    return simulation


def test_who_waits_is_in_motion_for_those_below() -> None:
    """A workflow that waits will change its output, though nothing of it runs: who reads it has to wait too."""
    simulation = waiting_ancestor(waiting_moves=True)
    check(simulation, 0)
    assert Counter(run.workflow_id for run in simulation.runs)[5] == 2


def test_why_waiting_counts_as_motion() -> None:
    """Without it the join reads u of generation 2 beside x of 1: whom x waits for lies above all that changed."""
    simulation = waiting_ancestor(waiting_moves=False)
    hidden = [run for run in simulation.runs if simulation.reads_a_mix(run) and not run.mixed]
    assert [run.workflow_id for run in hidden] == [5]


def mixed_before(*, mixes_linger: bool) -> TrackedSimulation:
    """s -> a, (s, a) -> d without patience: d reads s of 3 beside a of 1 and says so, then a of 2 arrives."""
    flows = [Flow(1, ("s",), ("a",)), Flow(2, ("s", "a"), ("d",))]
    simulation = TrackedSimulation(
        flows,
        seconds={1: chain([1], repeat(10)), 2: repeat(1)},
        policies=lambda flow: policy_of(flow, max_wait_ms=0),
        mixes_linger=mixes_linger,
    )
    simulation.change("s")
    for second in (100, 105):
        simulation.at(START + timedelta(seconds=second), lambda: simulation.change("s"))
    simulation.settle()
    return simulation


def test_a_mix_lingers() -> None:
    """After a mixed run all inputs count as changed, until a run that is not mixed."""
    simulation = mixed_before(mixes_linger=True)
    check(simulation, 0)
    assert [run.mixed for run in simulation.runs if run.workflow_id == 2] == [False, True, True, True, False]


def test_why_a_mix_lingers() -> None:
    """Without it a of generation 2 is read beside s of 3, which is not news any more, and the run does not say so."""
    simulation = mixed_before(mixes_linger=False)
    assert [run.mixed or not simulation.reads_a_mix(run) for run in simulation.runs] != [True] * len(simulation.runs)


def moment_of(simulation: TrackedSimulation, flow_id: int) -> list[datetime]:
    """Return when the runs of a workflow were queued."""
    return [run.queued_at for run in simulation.runs if run.workflow_id == flow_id]


def test_the_join_of_two_branches_runs_after_the_slower_one() -> None:
    """Branches of very different durations, one run of the join, after both (docs/scenarios.md#scenario-11)."""
    flows = [Flow(1, ("s",), ("a",)), Flow(2, ("s",), ("b",)), Flow(3, ("a", "b"), ("c",))]
    simulation = TrackedSimulation(flows, seconds={1: repeat(1), 2: repeat(600), 3: repeat(1)})
    simulation.change("s")
    simulation.settle()
    start = simulation.now
    simulation.change("s")
    simulation.settle()
    assert [at - start >= timedelta(seconds=600) for at in moment_of(simulation, 3)[1:]] == [True]
