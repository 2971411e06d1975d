"""Definitions of workflows, and the status of their automatic runs."""

from __future__ import annotations

from typing import Literal, TypedDict

from freshline.model.documents.asset import DeclaredPolicy
from freshline.model.documents.status import Breaker, Cooldown, Hold, LastRun, Pause
from freshline.model.json import Json


class Definition(TypedDict):
    """The current definition of a workflow, as declared."""

    slug: str
    workflowVersion: int
    project: str
    automatic: bool
    appliedAt: str
    retiredAt: str | None
    fingerprint: str
    sourceFile: str | None
    definition: Json
    produces: list[str]
    consumes: list[str]


class ActiveRun(TypedDict):
    """The active run of a workflow."""

    runId: str
    status: str | None


class NextRefresh(TypedDict):
    """The next automatic evaluation or run."""

    at: str
    reason: str
    assetId: str


class Lag(TypedDict):
    """The age of an asset compared with its `maxAgeMs`."""

    ageMs: int | None
    maxAgeMs: int | None
    overdue: bool


class PolicyAsset(DeclaredPolicy, TypedDict):
    """An asset in a policy status."""

    assetId: str
    partitionKey: str
    state: str
    producedAt: str | None
    expiresAt: str | None
    expired: bool
    nextRefreshAt: str | None
    lag: Lag


class PolicyStatus(TypedDict):
    """The status of the automatic runs of a workflow."""

    at: str
    slug: str
    workflowVersion: int
    project: str
    automatic: bool
    paused: Pause | Literal[False]
    inFlight: ActiveRun | None
    cooldown: Cooldown
    breaker: Breaker
    hold: Hold | None
    succeededAt: str | None
    lastAutoRun: LastRun | None
    nextRefresh: NextRefresh | None
    runsAvoided: int
    assets: list[PolicyAsset]
