"""Properties of partitions on random graphs with random partitionings, mappings, changes and durations.

See docs/semantics.md#R13 and docs/semantics.md#R14.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import timedelta

import pytest

from freshline.errors import UsageError
from freshline.model.backfill import BackfillStatus, PartitionState
from freshline.model.enums import RunStatus
from tests.simulation.generations import START, TrackedSimulation
from tests.simulation.test_generations import random_delays, seeded
from tests.simulation.worlds import World, check, overlapping

GATE, FULL = 40, 20_000


@pytest.mark.parametrize("first", range(0, GATE, 20))
def test_random_worlds_settle_without_needless_runs_and_unmarked_mixes(first: int) -> None:
    """Whatever changes when: everything becomes fresh, no run is needless, and each mix is marked."""
    for seed in range(first, first + 20):
        check(overlapping(World(seed), seed), seed)


@pytest.mark.full
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("first", range(0, FULL, 1_000))
def test_many_random_worlds(first: int) -> None:
    """The same in many worlds."""
    for seed in range(first, first + 1_000):
        check(overlapping(World(seed), seed), seed)


def demanded(seed: int, *, quiet: bool) -> TrackedSimulation:
    """Run a simulation with backfills; `quiet`: nothing else happens after the request."""
    world, rng = World(seed), seeded(seed + 1_000_000)
    delays = random_delays(rng, failing=0.0 if quiet else rng.choice((0.0, 0.1)))
    simulation = TrackedSimulation((), seed=seed, delays=delays, catalogue=world.catalogue, rewrites=rng.random() < 0.7)
    origins = world.origins()
    for one in origins:
        if rng.random() < 0.95:
            simulation.change(*one)
    simulation.settle(START + timedelta(hours=2))
    for _ in range(1 if quiet else rng.randint(1, 3)):
        slug = rng.choice(sorted(world.made))
        later = timedelta(0) if quiet else timedelta(milliseconds=rng.randint(0, 300_000))
        policy = {
            "upstream": rng.random() < 0.3,
            "downstream": rng.random() < 0.5,
            "concurrency": rng.choice((1, 2, 4, 50)),
            "newest_first": rng.random() < 0.5 and slug not in world.chains,
        }
        simulation.at(simulation.now + later, lambda slug=slug, policy=policy: demand(simulation, slug, policy))  # type: ignore[misc]
    for _ in range(0 if quiet else rng.randint(0, 6)):
        one = rng.choice(origins)
        moment = simulation.now + timedelta(milliseconds=rng.randint(0, 400_000))
        simulation.at(moment, lambda one=one: simulation.change(*one))  # type: ignore[misc]
    simulation.settle(START + timedelta(hours=12 if quiet else 20))  # 12: before the next day comes
    return simulation


def demand(simulation: TrackedSimulation, slug: str, policy: dict[str, object]) -> None:
    """Request a backfill of all partitions of an asset, unless none exists."""
    with suppress(UsageError):
        simulation.demand(slug, **policy)


def check_backfills(simulation: TrackedSimulation, seed: int, *, quiet: bool) -> None:
    """Assert that every demand ended, or waits for an input, and that a quiet one ran each partition once."""
    for one in simulation.simulator.backfills.known.values():
        for number in one.open():
            member = simulation.catalogue.members[number]
            reason = simulation.simulator.peek(member).reason
            assert reason == "input-missing", f"seed {seed}: {member.name} of {one.id} is {reason}"
        assert one.open() or one.status is BackfillStatus.FINISHED, f"seed {seed}: {one.id} is {one.status}"
        assert PartitionState.REFUSED not in one.states.values(), f"seed {seed}: {one.states}"
        if quiet:
            ran = Counter(
                run.workflow_id
                for run in simulation.runs
                if run.status is RunStatus.SUCCEEDED and run.started_at and run.started_at >= one.requested_at
            )
            members = simulation.catalogue.members
            twice = {
                members[n].name: count for n, count in ran.items() if members[n].workflow_id in one.parts and count > 1
            }
            # Those beside the backfill may read several of its partitions that are not fed by one root.
            assert twice == {}, f"seed {seed}: {twice} ran more than once"
            assert sum(part.done for part in one.parts.values()) + len(one.open()) == sum(
                part.total for part in one.parts.values()
            ), f"seed {seed}: {one}"


@pytest.mark.parametrize("first", range(0, GATE, 20))
@pytest.mark.parametrize("quiet", [True, False])
def test_backfills_in_random_worlds(first: int, quiet: bool) -> None:
    """Every demand ends. In a quiet world each of its partitions succeeds exactly once after the request."""
    for seed in range(first, first + 20):
        simulation = demanded(seed, quiet=quiet)
        check(simulation, seed)
        check_backfills(simulation, seed, quiet=quiet)


@pytest.mark.full
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("first", range(0, FULL, 1_000))
@pytest.mark.parametrize("quiet", [True, False])
def test_backfills_in_many_random_worlds(first: int, quiet: bool) -> None:
    """The same in many worlds."""
    for seed in range(first, first + 1_000):
        simulation = demanded(seed, quiet=quiet)
        check(simulation, seed)
        check_backfills(simulation, seed, quiet=quiet)
