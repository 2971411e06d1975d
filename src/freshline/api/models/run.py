"""Models of runs, steps and logs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, JsonValue

from freshline.api.models.base import PartitionKey, RequestBody, ResponseBody, RunStatus
from freshline.model.json import Json


class RunRequest(RequestBody):
    """The request of a manual run."""

    parameters: dict[str, JsonValue] = Field(
        default_factory=dict, description="They take precedence over the workflow's parameters."
    )
    key: str | None = Field(
        default=None, min_length=1, max_length=200, description="Same as the header Idempotency-Key."
    )
    full_refresh: bool = Field(default=False, description="Rewrite all outputs, including those with mode append.")
    confirm: bool = Field(
        default=False,
        description="With `fullRefresh`: drop rows that cannot be computed again. Without it they are an error.",
    )
    partition_key: PartitionKey = ""


class CancelRequest(RequestBody):
    """The cancellation of a run."""

    reason: str = Field(
        default="canceled by a user", min_length=1, max_length=1000, description="Stored with the run and in its event."
    )


class Step(ResponseBody):
    """One try of a step."""

    step_id: str
    attempt: int
    try_: Annotated[int, Field(alias="try")]
    status: str
    started_at: datetime
    finished_at: datetime | None
    metrics: Json | None
    error: Json | None


class Run(ResponseBody):
    """One execution of a workflow."""

    id: str
    workflow_slug: str
    partition_key: str
    partition_keys: list[str]
    batch_id: str | None
    status: RunStatus
    attempt: int
    trigger: Json
    priority: int
    mixed: bool
    mixed_upstream: bool
    parameters: Json
    workflow_version: int
    queued_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error: Json | None
    result: Json | None
    progress: Json | None
    worker_id: str | None
    lease_until: datetime | None
    cancel_reason: str | None
    decision_id: str | None
    inputs: list[Json]
    steps: list[Step]


class RunDetail(Run):
    """A run with its published outputs."""

    outputs: list[Json]


class LogLine(ResponseBody):
    """A log line of a run."""

    line: int
    at: datetime
    attempt: int
    step_id: str
    stream: str
    text: str


class LastRun(ResponseBody):
    """The last automatic run."""

    run_id: str
    status: RunStatus
    finished_at: datetime | None
    reason: str | None


class InFlight(ResponseBody):
    """The active run."""

    run_id: str
    status: RunStatus
