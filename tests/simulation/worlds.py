"""Random graphs with random partitionings, mappings and requirements, played with overlapping changes and checked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from freshline.errors import PartitioningError
from freshline.partitions.compatibility import mapping_between
from freshline.partitions.declaration import Affects, All, Around, Declaration, Overlap, Rule
from freshline.partitions.dimensions import Dimensions
from freshline.partitions.grain import Grain
from freshline.partitions.key_partitionings import DynamicKeys, FixedKeys
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.requirements import ANY, Requirement
from freshline.partitions.selection import EVERYTHING
from freshline.partitions.time_partitioning import TimePartitioning
from freshline.simulation import Catalogue, Member
from tests.simulation.generations import START, TrackedSimulation
from tests.simulation.partitioned import NONE, Job, catalogue_of, days, hours, months
from tests.simulation.test_generations import random_delays, seeded

REGIONS = FixedKeys(("eu", "us"))
NEW_YEAR: tuple[Partitioning, ...] = (
    NONE,
    days("2026-01-01", end="2026-01-05"),
    days("2026-01-02", end="2026-01-06", timezone="Europe/Berlin"),
    hours("2026-01-02T21", end="2026-01-03T03"),
    months("2025-12-01", end="2026-02-01"),
    REGIONS,
)
AUTUMN: tuple[Partitioning, ...] = (  # the clock goes back in Berlin: a day has 25 hours
    NONE,
    days("2025-10-25", end="2025-10-28"),
    days("2025-10-25", end="2025-10-28", timezone="Europe/Berlin"),
    days("2025-10-25", end="2025-10-28", timezone="Asia/Kolkata"),
    hours("2025-10-25T20", end="2025-10-27T02"),
    months("2025-10-01", end="2025-12-01", timezone="Europe/Berlin"),
    TimePartitioning(Grain.WEEK, "2025-W43", end="2025-W45"),
)
SPRING: tuple[Partitioning, ...] = (  # the clock goes forward in St. John's, half an hour beside the hours of UTC
    NONE,
    days("2025-03-08", end="2025-03-11"),
    days("2025-03-08", end="2025-03-11", timezone="America/St_Johns"),
    hours("2025-03-09T00", end="2025-03-10T06"),
    days("2025-03-08", end="2025-03-11", timezone="Asia/Kolkata"),
)
NAMED: tuple[Partitioning, ...] = (
    NONE,
    REGIONS,
    DynamicKeys(),
    DynamicKeys(),
    days("2026-01-02", end="2026-01-05"),
    Dimensions((("day", days("2026-01-02", end="2026-01-05")), ("region", REGIONS))),
    days("2026-01-03"),  # the next one comes while the simulation goes on
)
CALENDARS = (NEW_YEAR, NEW_YEAR, AUTUMN, SPRING, NAMED, NAMED)
RULES: tuple[Rule | None, ...] = (None, None, None, All(), Around(-1, 0), Around(-2, -1), Around(0, 1))
REQUIRED = (ANY, Requirement(0, 1), Requirement(50), Requirement(100, grace_ms=60_000))
KEYS_AT = datetime(2026, 1, 5, tzinfo=UTC)
NAMES = {"a": None, "b": None, "c": None}  # dynamic keys that are reported


class World:
    """A random catalogue."""

    rules: tuple[Rule | None, ...] = RULES

    def __init__(self, seed: int) -> None:
        self.rng = seeded(seed)
        rng = self.rng
        reported, computed = self._partitionings()
        self.sources = {f"s{n}": rng.choice(reported) for n in range(rng.randint(1, 3))}
        known, jobs = dict(self.sources), list[Job]()
        for number in range(1, rng.randint(3, 7)):
            made = rng.choice(computed)
            inputs: dict[str, Declaration | None] = {}
            for _ in range(rng.choice([1, 1, 2, 2, 3])):
                name = rng.choice([*list(known)[-5:], *self.sources])
                if (declared := self._declared(known[name], made)) is not None:
                    inputs[name] = declared
            name = f"w{number}"
            if rng.random() < 0.15 and isinstance(made, TimePartitioning):
                inputs[name] = Declaration(rule=Around(-1, -1))
            require: dict[str, Requirement] = {one: self._required(made) for one in inputs if rng.random() < 0.2}
            jobs.append(Job(name, inputs, made, require=require))
            known[name] = made
        self.made = {job.name: job.partitioning for job in jobs}
        self.chains = {job.name for job in jobs if job.name in job.inputs}
        self.catalogue: Catalogue = catalogue_of(self.sources, jobs)

    def _partitionings(self) -> tuple[tuple[Partitioning, ...], tuple[Partitioning, ...]]:
        """Return the partitionings of sources, and those of workflows."""
        found = self.rng.choice(CALENDARS)
        return found, found

    def _required(self, made: Partitioning) -> Requirement:
        found = self.rng.choice(REQUIRED)
        return found if found.grace_ms is None or isinstance(made, TimePartitioning) else ANY

    def _declared(self, above: Partitioning, below: Partitioning) -> Declaration | None:
        for rule in (self.rng.choice(self.rules), None, Overlap(whole=True), All()):
            try:
                mapping_between(above, below, Declaration(rule=rule))
            except PartitioningError:
                continue
            return Declaration(rule=rule)
        return None

    def origins(self) -> list[tuple[str, str]]:
        """Return every partition of every source."""
        return [(one, key) for one, found in self.sources.items() for key in keys_of(found)]


def keys_of(partitioning: Partitioning) -> list[str]:
    """Return the keys of a partitioning that can be reported; the empty one without partitions."""
    return list(partitioning.keys(EVERYTHING, KEYS_AT, NAMES)) if partitioning.columns else [""]


def overlapping(world: World, seed: int, kind: type[TrackedSimulation] = TrackedSimulation) -> TrackedSimulation:
    """Run a simulation whose changes overlap."""
    rng = world.rng
    simulation = kind((), seed=seed, delays=random_delays(rng), catalogue=world.catalogue)
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
            limited = set(limited_inputs(simulation.catalogue, member))
            consumed, heads = (
                {name: version for name, version in found.items() if name not in limited}
                for found in (simulation.consumed(number), simulation.heads(number))
            )
            assert consumed == heads, f"seed {seed}: {member.name} is stale"
            for name in limited:
                assert not _is_behind(simulation, member, name), f"seed {seed}: {member.name} is behind {name}"
    for run in simulation.runs:
        assert run not in simulation.unnecessary, f"seed {seed}: {run} read nothing new"
        assert run.mixed or not simulation.reads_a_mix(run), f"seed {seed}: {run} read two generations"


def limited_inputs(catalogue: Catalogue, member: Member) -> Iterator[str]:
    """Yield the inputs whose changes do not concern all partitions."""
    for asset_id in member.inputs:
        mapping = catalogue.graph.mapping(asset_id, member.workflow_id)
        if mapping is not None and mapping.affects is not Affects.ALL:
            yield asset_id


def _is_behind(simulation: TrackedSimulation, member: Member, name: str) -> bool:
    """Return whether the last change while a partition was the newest was not read, and no later one either."""
    mapping = simulation.catalogue.graph.mapping(name, member.workflow_id)
    if mapping is None or mapping.affects is Affects.NONE:
        return False
    asset = simulation.simulator.asset(name)
    consumed = simulation.simulator.workflow_state(member.id).consumed_versions[name]
    own = simulation.catalogue.graph.partitioning_of(member.workflow_id)
    own_selection = own.select([member.partition_key])
    during = [
        (sequence, version)
        for sequence, version, at in zip(asset.sequences, asset.versions, asset.times, strict=True)
        if not own.newest(at).intersection(own_selection).is_empty
    ]
    return bool(during) and during[-1][0] > consumed.sequence and during[-1][1] != consumed.data_version
