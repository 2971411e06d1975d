"""Small catalogues with partitions, for tests of the rules in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zlib import crc32

from freshline.graph import Graph
from freshline.model.enums import RunStatus
from freshline.model.policy import Backoff, Freshness, InputPolicy, OutputPolicy, Policy
from freshline.partitions.compatibility import mapping_between
from freshline.partitions.declaration import Declaration
from freshline.partitions.grain import Grain
from freshline.partitions.key_partitionings import Unpartitioned
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.requirements import Requirement
from freshline.partitions.time_partitioning import TimePartitioning
from freshline.simulation import Catalogue, Driver, Member, Observer, Run, Simulator, Work

NOW = datetime(2024, 12, 1, 9, 0, tzinfo=UTC)
NONE = Unpartitioned()


def hours(start: str = "2024-01-01", **fields: object) -> TimePartitioning:
    """Return hours from a start on."""
    return TimePartitioning(Grain.HOUR, start, **fields)  # type: ignore[arg-type]


def days(start: str = "2024-01-01", **fields: object) -> TimePartitioning:
    """Return days from a start on."""
    return TimePartitioning(Grain.DAY, start, **fields)  # type: ignore[arg-type]


def months(start: str = "2024-01-01", **fields: object) -> TimePartitioning:
    """Return months from a start on."""
    return TimePartitioning(Grain.MONTH, start, **fields)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Job:
    """A workflow: what it reads and how, and the partitioning of what it makes under its own name."""

    name: str
    inputs: Mapping[str, Declaration | None]
    partitioning: Partitioning = NONE
    policy: Mapping[str, object] = field(default_factory=dict)
    require: Mapping[str, Requirement] = field(default_factory=dict)
    freshness: Freshness = field(default_factory=Freshness)


def catalogue_of(sources: Mapping[str, Partitioning], jobs: Iterable[Job]) -> Catalogue:
    """Return the catalogue of these sources and jobs."""
    known = list(jobs)
    numbers = {job.name: number for number, job in enumerate(known, start=1)}
    partitionings = {**sources, **{job.name: job.partitioning for job in known}}
    graph = Graph(
        epoch=1,
        slugs={numbers[job.name]: job.name for job in known},
        producers=numbers,
        edges=[(one, numbers[job.name]) for job in known for one in job.inputs],
        partitionings={name: one for name, one in partitionings.items() if one.columns},
        mappings={
            (one, numbers[job.name]): mapping_between(
                partitionings[one], job.partitioning, declared or Declaration(), own_output=one == job.name
            )
            for job in known
            for one, declared in job.inputs.items()
            if partitionings[one].columns or job.partitioning.columns
        },
        requirements={(one, numbers[job.name]): found for job in known for one, found in job.require.items()},
    )
    return Catalogue([_member(numbers[job.name], job) for job in known], graph)


def _member(number: int, job: Job) -> Member:
    fields = {"max_wait_ms": 10**9, "backoff": Backoff(base_ms=1_000, max_ms=8_000), **job.policy}
    policy = Policy(
        declared=True,
        automatic=True,
        inputs=tuple(InputPolicy(one, triggers=True) for one in sorted(job.inputs)),
        outputs=(OutputPolicy(job.name, enabled=True, freshness=job.freshness),),
        **fields,  # type: ignore[arg-type]
    )
    inputs = tuple(sorted(one for one in job.inputs if one != job.name))
    return Member(number, job.name, policy, "job", inputs, (job.name,))


class Ran(Observer):
    """The runs that ended, in order."""

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def ended(self, simulator: Simulator, run: Run) -> None:  # noqa: ARG002 - as every observer
        """Keep it."""
        if run.status is RunStatus.SUCCEEDED:
            self.runs.append(run)

    def keys(self, slug: str) -> list[str]:
        """Return the partitions of a workflow that ran, in order."""
        return [run.partition_key for run in self.runs if run.slug == slug]

    def counts(self) -> dict[str, int]:
        """Return how many runs each workflow had."""
        return dict(Counter(run.slug for run in self.runs))


class Steady:
    """Jobs that take a fixed time. With `spread`, some partitions take up to so much longer."""

    def __init__(self, seconds: Mapping[str, float] | None = None, default: float = 60.0, spread: float = 0.0) -> None:
        self._seconds = seconds or {}
        self._default = default
        self._spread = spread

    def work(self, run: Run) -> Work:
        """Return the work."""
        more = self._spread * (crc32(run.partition_key.encode()) % 100) / 100
        return Work(timedelta(seconds=self._seconds.get(run.slug, self._default) + more))


def fresh(catalogue: Catalogue, now: datetime = NOW) -> tuple[Simulator, Ran]:
    """Return a simulator in which everything that exists was just produced."""
    ran = Ran()
    simulator = Simulator(catalogue, now, observer=ran)
    simulator.start(fresh=True)
    simulator.settle()
    return simulator, ran


def drive(simulator: Simulator, until: timedelta, jobs: Steady | None = None, slots: int | None = 2) -> None:
    """Let runs start and end for a time."""
    Driver(simulator, jobs or Steady(), slots=slots).run(simulator.now + until)
