"""Properties of partitions on random graphs with random partitionings, mappings, changes and durations.

See docs/semantics.md#R13.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from freshline.errors import PartitioningError
from freshline.partitions.compatibility import mapping_between
from freshline.partitions.declaration import All, Around, Declaration, Rule
from freshline.partitions.key_partitionings import FixedKeys
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.requirements import ANY, Requirement
from freshline.partitions.selection import EVERYTHING
from freshline.simulation import Catalogue
from tests.simulation.generations import START, TrackedSimulation
from tests.simulation.partitioned import NONE, Job, catalogue_of, days, hours, months
from tests.simulation.test_generations import random_delays, seeded

GATE, FULL = 60, 20_000
PARTITIONINGS: tuple[Partitioning, ...] = (
    NONE,
    days("2026-01-01", end="2026-01-05"),
    days("2026-01-02", end="2026-01-06", timezone="Europe/Berlin"),
    hours("2026-01-02T21", end="2026-01-03T03"),
    months("2025-12-01", end="2026-02-01"),
    FixedKeys(("eu", "us")),
)
RULES: tuple[Rule | None, ...] = (None, None, None, All(), Around(-1, 0), Around(-2, -1), Around(0, 1))
KEYS_AT = datetime(2026, 1, 5, tzinfo=UTC)


class World:
    """A random catalogue."""

    def __init__(self, seed: int) -> None:
        self.rng = seeded(seed)
        rng = self.rng
        self.sources = {f"s{n}": rng.choice(PARTITIONINGS) for n in range(rng.randint(1, 3))}
        known, jobs = dict(self.sources), list[Job]()
        for number in range(1, rng.randint(3, 7)):
            made = rng.choice(PARTITIONINGS)
            inputs: dict[str, Declaration | None] = {}
            for _ in range(rng.choice([1, 1, 2, 2, 3])):
                name = rng.choice([*list(known)[-5:], *self.sources])
                if (declared := self._declared(known[name], made)) is not None:
                    inputs[name] = declared
            name = f"w{number}"
            if rng.random() < 0.15 and made.window(next(iter(made.keys(EVERYTHING, KEYS_AT)), "")):
                inputs[name] = Declaration(rule=Around(-1, -1))
            require: dict[str, Requirement] = {one: ANY for one in inputs if rng.random() < 0.2}
            jobs.append(Job(name, inputs, made, require=require))
            known[name] = made
        self.catalogue: Catalogue = catalogue_of(self.sources, jobs)

    def _declared(self, above: Partitioning, below: Partitioning) -> Declaration | None:
        for rule in (self.rng.choice(RULES), None, All()):
            try:
                mapping_between(above, below, Declaration(rule=rule))
            except PartitioningError:
                continue
            return Declaration(rule=rule)
        return None

    def origins(self) -> list[tuple[str, str]]:
        """Return every partition of every source."""
        return [(one, key) for one, found in self.sources.items() for key in found.keys(EVERYTHING, KEYS_AT)]


def overlapping(seed: int) -> TrackedSimulation:
    """Run a simulation whose changes overlap."""
    world = World(seed)
    rng = world.rng
    simulation = TrackedSimulation((), seed=seed, delays=random_delays(rng), catalogue=world.catalogue)
    origins = world.origins()
    for one in origins:
        if rng.random() < 0.9:
            simulation.change(*one)
    for _ in range(rng.randint(2, 10)):
        one = rng.choice(origins)
        moment = START + timedelta(milliseconds=rng.randint(0, 400_000))
        simulation.at(moment, lambda one=one: simulation.change(*one))  # type: ignore[misc]
    simulation.settle(START + timedelta(hours=20))
    return simulation


def check(simulation: TrackedSimulation, seed: int) -> None:
    """Assert that nothing is stale, that every run was necessary, and that every mix is marked."""
    assert simulation.idle, f"seed {seed}"
    for number, member in simulation.catalogue.members.items():
        ready = simulation.simulator.peek(member).reason
        assert ready in {"up-to-date", "input-missing"}, f"seed {seed}: {member.name} is {ready}"
        if ready == "up-to-date":
            assert simulation.consumed(number) == simulation.heads(number), f"seed {seed}: {member.name} is stale"
    for run in simulation.runs:
        assert run not in simulation.unnecessary, f"seed {seed}: {run} read nothing new"
        assert run.mixed or not simulation.reads_a_mix(run), f"seed {seed}: {run} read two generations"


@pytest.mark.parametrize("first", range(0, GATE, 20))
def test_random_worlds_settle_without_needless_runs_and_unmarked_mixes(first: int) -> None:
    """Whatever changes when: everything becomes fresh, no run is needless, and each mix is marked."""
    for seed in range(first, first + 20):
        check(overlapping(seed), seed)


@pytest.mark.full
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("first", range(0, FULL, 1_000))
def test_many_random_worlds(first: int) -> None:
    """The same in many worlds."""
    for seed in range(first, first + 1_000):
        check(overlapping(seed), seed)
