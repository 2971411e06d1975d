"""The answer of a simulation: what a policy would have done, compared with the current one."""

from __future__ import annotations

from typing import TypedDict


class Percentiles(TypedDict):
    """Lags in seconds."""

    p50: float
    p95: float
    max: float


class SimulationSeries(TypedDict):
    """What happened in each bucket of the time, the oldest first; there are at most 100.

    `runs`: that started in it. `slotHours`: of the runs in it. `lagSeconds`: of the changes that happened in it.
    """

    bucketSeconds: int
    runs: list[int]
    slotHours: list[float]
    lagSeconds: list[Percentiles | None]


class SimulationResult(TypedDict):
    """What happened under one policy. `heldPartitions`: None if nothing has partitions."""

    runs: int
    failed: int
    mixed: int
    avoided: int
    pending: int
    slotHours: float
    breaches: int
    holds: dict[str, int]
    heldPartitions: int | None
    lagSeconds: Percentiles | None
    series: SimulationSeries


class SimulationNumbers(TypedDict):
    """What happened to one workflow. The lag is that of its slowest output.

    `partitions`: how many partitions ran; None: it has none.
    """

    runs: int
    partitions: int | None
    runSeconds: float
    lagSeconds: Percentiles | None


class ComparedWorkflow(TypedDict):
    """A workflow under both policies. `changed`: its policy is another."""

    slug: str
    changed: bool
    before: SimulationNumbers | None
    after: SimulationNumbers | None


class Simulation(TypedDict):
    """The recorded reports, played through the current policies and through changed ones.

    `after`: None without changes. `workflows`: the changed ones, and those that differ most or run longest. `yaml`: the
    policy of each changed workflow, as its file has it.
    """

    start: str
    end: str
    seed: int
    slots: int
    reports: int
    notes: list[str]
    before: SimulationResult
    after: SimulationResult | None
    workflows: list[ComparedWorkflow]
    yaml: dict[str, str]
