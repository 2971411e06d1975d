"""Models of a simulation."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from freshline.api.models.base import RequestBody, ResponseBody
from freshline.model.json import Json


class SimulationRequest(RequestBody):
    """Which time is played, and which policies are changed."""

    since: str = Field(default="7d", min_length=1, max_length=100, description="How much time, such as 12h or 7d.")
    workflows: dict[Annotated[str, Field(max_length=200)], Json] = Field(
        default_factory=dict,
        max_length=100,
        description="Changes by workflow: fields of `autoMaterialize` and `freshness`, and `quietHours` and `backoff`, "
        "as definitions name them. Null removes a field.",
    )
    seed: int = Field(default=0, ge=0, lt=2**31, description="The same seed gives the same answer.")
    slots: int = Field(default=4, ge=1, le=100_000, description="How many runs at once.")


class Percentiles(ResponseBody):
    """Lags in seconds."""

    p50: float
    p95: float
    max: float


class SimulationSeries(ResponseBody):
    """What happened in each bucket of the time, the oldest first."""

    bucket_seconds: int
    runs: list[int]
    slot_hours: list[float]
    lag_seconds: list[Percentiles | None]


class SimulationResult(ResponseBody):
    """What happened under one policy."""

    runs: int
    failed: int
    mixed: int
    avoided: int
    pending: int
    slot_hours: float
    breaches: int
    holds: dict[str, int]
    held_partitions: int | None
    lag_seconds: Percentiles | None
    series: SimulationSeries


class SimulationNumbers(ResponseBody):
    """What happened to one workflow."""

    runs: int
    partitions: int | None
    run_seconds: float
    lag_seconds: Percentiles | None


class ComparedWorkflow(ResponseBody):
    """A workflow under both policies."""

    slug: str
    changed: bool
    before: SimulationNumbers | None
    after: SimulationNumbers | None


class Simulation(ResponseBody):
    """What would have happened."""

    start: datetime
    end: datetime
    seed: int
    slots: int
    reports: int
    notes: list[str]
    before: SimulationResult
    after: SimulationResult | None
    workflows: list[ComparedWorkflow]
    yaml: dict[str, str]
