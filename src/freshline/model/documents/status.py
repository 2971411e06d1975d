"""The status of the installation, its assets and its workflows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

from freshline.model.documents.partition import PartitionSummary
from freshline.model.enums import AssetState


class Hold(TypedDict):
    """Why a workflow does not run, until when, and the workflow that it waits for."""

    reason: str
    until: str | None
    blocker: str | None


class LastRun(TypedDict):
    """The last automatic run of a workflow."""

    runId: str
    status: str
    finishedAt: str | None
    reason: str | None


class OlderCode(TypedDict):
    """Rows of the current version that older code made, and about which nobody has decided (docs/semantics.md#R9.9).

    `exact`: False if it is at most so many, because a merge replaces rows. `versions`: the versions of the workflow
    that introduced the older code. `partitions`: the first keys of those with such rows, out of `partitionsTotal`.
    `rebuildMs`: what computing everything again costs about; None if no run was measured.
    """

    rows: int | None
    exact: bool
    versions: list[int]
    partitions: list[str]
    partitionsTotal: int
    rebuildMs: int | None


class AssetStatus(TypedDict):
    """An entry of `status.assets`. `hold` and `nextRefreshAt` are those of the producing workflow.

    Of an asset with partitions, `partitions` counts all of them, and the other fields describe the newest.
    """

    assetId: str
    project: str | None
    partitionKey: str
    workflowSlug: str | None
    state: str
    upstreamFailing: bool
    needsDecision: OlderCode | None
    producedAt: str | None
    expiresAt: str | None
    expired: bool
    dataVersion: str | None
    version: int | None
    tableVersion: int | None
    rows: int | None
    bytes: int | None
    mixed: bool
    mixedUpstream: bool
    runId: str | None
    lastAutoRun: LastRun | None
    nextRefreshAt: str | None
    hold: Hold | None
    partitions: PartitionSummary | None


class Pause(TypedDict):
    """When a workflow was paused, and until when; None: until it is resumed."""

    since: str
    until: str | None


class Cooldown(TypedDict):
    """The consecutive failures of a workflow, and when it may run again."""

    failures: int
    nextEligibleAt: str | None


class Breaker(TypedDict):
    """Whether the circuit breaker of a workflow is open."""

    state: Literal["open", "closed"]
    openedAt: str | None


class WorkflowStatus(TypedDict):
    """An entry of `status.workflows`. `inFlight` is the id of the active run."""

    slug: str
    workflowVersion: int
    project: str
    automatic: bool
    paused: Pause | Literal[False]
    inFlight: str | None
    inFlightStatus: str | None
    cooldown: Cooldown
    breaker: Breaker
    hold: Hold | None
    succeededAt: str | None
    runsAvoided: int


class Pool(TypedDict):
    """A pool and its use."""

    project: str
    name: str
    slots: int
    running: int
    queued: int


class RootCause(TypedDict):
    """Why an asset is not produced or updated, at its origin: a source, or a workflow above it or its own.

    `kind`: `never-reported` (a source), `nothing-found` (a source that is watched, with the error of the last look),
    `failing` (with the run and its error), `paused`, or `not-automatic` (it was never run). `append`: each report of
    the source must name a path. `partitioned`: each report of the source must name a partition.
    """

    kind: Literal["never-reported", "nothing-found", "failing", "paused", "not-automatic"]
    assetId: str | None
    workflowSlug: str | None
    partitionKey: str
    runId: str | None
    error: str | None
    append: bool
    partitioned: bool


@dataclass(frozen=True, slots=True)
class WantedStatus:
    """Which assets to show: in one of these states, of this project, after this name, and so many.

    `everything`: also assets that nobody uses any more.
    """

    everything: bool = False
    states: frozenset[AssetState] = frozenset()
    project: str | None = None
    after: str | None = None
    limit: int | None = None

    @property
    def whole(self) -> bool:
        """Return whether all assets are wanted that a name stands for."""
        return not self.states and self.project is None and self.after is None and self.limit is None


EVERYTHING_USED = WantedStatus()


class StatusSummary(TypedDict):
    """All assets that a name stands for, of a project if one is named, in whatever state.

    `total` and `fresh` count those that are produced, and are not retired; `counts` has all by state. `matched`: how
    many are in the wanted states. `causes`: how many explain what is not fresh; null for a part of the installation.
    """

    sentence: str
    total: int
    fresh: int
    counts: dict[str, int]
    matched: int
    causes: int | None


class Status(TypedDict):
    """The state of the installation. `notes`: work that no running process can do, and proposals.

    `warnings`: what sources lose, of the asset or workflow that was asked for.
    `retired`: how many assets are left out because nobody uses them. `materializers`: how many are live. `rootCauses`:
    of the asset or workflow that was asked for. `next`: the last asset of this page, if more follow.
    """

    at: str
    summary: StatusSummary
    next: str | None
    assets: list[AssetStatus]
    workflows: list[WorkflowStatus]
    pools: list[Pool]
    notes: list[str]
    warnings: list[str]
    retired: int
    materializers: int
    rootCauses: list[RootCause]
