"""Runs with their steps, inputs, outputs and log lines."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from freshline.model.documents.decision import StoredTrigger
from freshline.model.json import Json


class Check(TypedDict):
    """The result of a check. `message` says why it did not pass."""

    check: str
    severity: str
    passed: bool
    observed: Any
    message: NotRequired[str]


class RunError(TypedDict):
    """The error of a run or a step. `traceback`: the lines of the user's code."""

    code: str
    message: str
    step: NotRequired[str | None]
    traceback: NotRequired[str | None]
    checks: NotRequired[list[Check]]


class JobProgress(TypedDict):
    """The progress that a job reports."""

    done: float | None
    total: float | None


class SparkProgress(TypedDict, total=False):
    """The progress of Spark's tasks."""

    done: int
    total: int


class Progress(TypedDict, total=False):
    """The progress of a running run."""

    step: str | None
    job: JobProgress | None
    spark: SparkProgress


class HasProgress(TypedDict):
    """The part of a run that says how much of it is done. None unless it is running."""

    progress: Progress | None


class StepMetrics(TypedDict, total=False):
    """The metrics of one try of a step, as far as its engine reports them."""

    durationMs: int
    rowsIn: int
    bytesIn: int
    rowsOut: int
    bytesOut: int
    tasks: int
    shuffleWriteBytes: int
    diskSpilledBytes: int
    progress: JobProgress


# `try` is a keyword, so this one cannot be written as a class.
Step = TypedDict(
    "Step",
    {
        "stepId": str,
        "attempt": int,
        "try": int,
        "status": str,
        "startedAt": str,
        "finishedAt": str | None,
        "metrics": StepMetrics | None,
        "error": RunError | None,
    },
)


class RunInput(TypedDict):
    """A pinned input of a run. `partitionKey` is empty for an asset without partitions."""

    assetId: str
    partitionKey: str
    dataVersion: str
    version: int


class RunOutput(TypedDict):
    """A published output of a run."""

    assetId: str
    partitionKey: str
    version: int
    dataVersion: str
    changed: bool
    rows: int | None
    bytes: int | None
    checks: list[Check] | None


class RunResult(TypedDict):
    """The result of a successful run. `metrics` are those of each step."""

    assets: list[str]
    unchanged: list[str]
    metrics: dict[str, StepMetrics]


class Run(HasProgress):
    """A run with its inputs and the tries of its steps.

    `batchId`: the run that leads its batch, which has the steps and the log. `partitionKeys`: of this run all.
    """

    id: str
    workflowSlug: str
    partitionKey: str
    partitionKeys: list[str]
    batchId: str | None
    status: str
    attempt: int
    trigger: StoredTrigger
    priority: int
    mixed: bool
    mixedUpstream: bool
    parameters: Json
    workflowVersion: int
    queuedAt: str
    startedAt: str | None
    finishedAt: str | None
    error: RunError | None
    result: RunResult | None
    workerId: str | None
    leaseUntil: str | None
    cancelReason: str | None
    decisionId: str | None
    inputs: list[RunInput]
    steps: list[Step]


class RunDetail(Run):
    """A run with its published outputs."""

    outputs: list[RunOutput]


class LogLine(TypedDict):
    """A log line of a run."""

    line: int
    at: str
    attempt: int
    stepId: str
    stream: str
    text: str
