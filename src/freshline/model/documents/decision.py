"""Decisions with their evidence, triggers of runs, and plans."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from freshline.model.enums import ExpiryReason, Reason, RunStatus, TriggerType

# `partitionKey` is there only for an input with partitions.
InputEvidence = TypedDict(
    "InputEvidence",
    {
        "assetId": str,
        "partitionKey": NotRequired[str],
        "from": str | None,
        "to": str | None,
        "changed": bool,
        "changes": int,
        "triggers": bool,
        "retired": NotRequired[bool],
        "unread": NotRequired[bool],
    },
)
UpstreamChange = TypedDict(
    "UpstreamChange", {"assetId": str, "partitionKey": str, "from": str | None, "to": str, "runId": str | None}
)


class InputPartition(TypedDict, total=False):
    """The partition of an input; empty for an input without partitions."""

    partitionKey: str


class InputRetention(TypedDict, total=False):
    """Whether retention removed the partition of an input; empty if it did not."""

    retired: bool


class InputColumns(TypedDict, total=False):
    """Whether only columns of an input changed that the consumer does not read; empty if not."""

    unread: bool


class BlockerEvidence(TypedDict):
    """An ancestor in motion. `partitionKey`: its partition, if it has partitions and one of them is in motion.

    `together`: sources that were reported together, if that alone is why a run would read a mix.
    """

    workflowSlug: str
    partitionKey: NotRequired[str]
    motion: str
    until: str | None
    together: NotRequired[list[str]]


class ForeignHead(TypedDict):
    """An output whose head was made by another workflow (`madeBy`), or reported from outside."""

    assetId: str
    madeBy: str | None
    dataVersion: str


class ExpiryEvidence(TypedDict):
    """The expiry that a run serves."""

    reason: ExpiryReason
    expiresAt: str


class Evidence(TypedDict, total=False):
    """The facts behind a decision. Each reason has its own keys (docs/decisions.md)."""

    inputs: list[InputEvidence]
    cause: Reason
    assetId: str
    expiry: ExpiryEvidence
    foreign: list[ForeignHead]
    changes: list[str]
    error: str

    until: str
    alsoHeldBy: list[Reason]
    missing: list[str]
    runId: str
    runStatus: RunStatus
    trigger: TriggerType
    renewed: bool
    superseded: str
    accepted: bool
    failures: int
    openedAt: str
    nextProbeAt: str
    producedAt: str
    maxAgeMs: int
    waitingFor: list[str]
    blockers: list[BlockerEvidence]
    deadline: str
    waitedOut: list[BlockerEvidence]
    backfillId: str
    retired: list[str]
    retiredCount: int
    frozenAt: str
    retiredAt: str
    limit: int


class Trigger(TypedDict, total=False):
    """Why an automatic run exists."""

    type: TriggerType
    reason: Reason
    assetId: str
    partitionKey: str
    upstream: list[UpstreamChange]
    expiry: ExpiryEvidence | None
    eventIds: list[str]
    backfillId: str


class StoredTrigger(Trigger, total=False):
    """Why a run exists. Automatic runs have the id of the decision, manual runs the names of their parameters."""

    decisionId: str
    parameters: list[str]
    fullRefresh: bool


class Conclusion(TypedDict):
    """The part of a decision that a sentence describes."""

    workflowSlug: str
    partitionKey: str
    outcome: str
    reason: str
    evidence: Evidence


class Decision(Conclusion):
    """A stored decision. `count`: how many equal decisions in a row it stands for, until `lastAt`."""

    id: str
    workflowVersion: int
    at: str
    lastAt: str
    count: int
    runId: str | None


class PlannedRun(TypedDict):
    """A run of a plan, with its place in the order. `notBefore`: the end of its debounce; None: it starts at once."""

    order: int | None
    notBefore: str | None
    workflowSlug: str
    partitionKey: str
    assets: list[str]
    outcome: str
    reason: str
    upstream: list[str]
    mixed: bool


class PlannedHold(Conclusion):
    """A workflow that does not run. `behind`: workflows above that keep the change from it."""

    assets: list[str]
    until: str | None
    behind: list[str]


class Wave(TypedDict):
    """The effects of a change or of an apply: new runs in order, workflows held, and workflows that do not run."""

    assumes: list[str]
    active: list[str]
    runs: list[PlannedRun]
    held: list[PlannedHold]
    cut: list[PlannedHold]


class Plan(Wave):
    """The effects of a change of an asset."""

    assetId: str
