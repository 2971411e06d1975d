"""The first page: what is not fresh, why, and what to do about it."""

from __future__ import annotations

from typing import Literal, TypedDict

from freshline.model.documents.status import Pool

CauseKind = Literal[
    "never-reported",
    "nothing-found",
    "watch-failing",
    "failing",
    "paused",
    "canceled",
    "not-automatic",
    "proposal",
    "overdue",
    "running",
    "queued",
    "due",
    "held",
    "stale",
]


ActionType = Literal["report", "run", "resume", "reset", "approve"]


class Action(TypedDict):
    """What a user can do in the page. `target`: an asset, a workflow or a backfill."""

    type: ActionType
    target: str


class NextStep(TypedDict):
    """What to do about a cause. Without an action there is nothing to press, without a command nothing to type."""

    text: str
    command: str | None
    action: Action | None


class Cause(TypedDict):
    """Why assets are not fresh, at its origin.

    `explains`: how many assets that are not fresh or overdue have this cause, `assets`: the first of them. `behind`:
    how many assets are made from its origin, in any state. `since`: when it began, if that is known.
    """

    kind: CauseKind
    assetId: str | None
    workflowSlug: str | None
    partitionKey: str
    runId: str | None
    backfillId: str | None
    reason: str | None
    since: str | None
    until: str | None
    explains: int
    behind: int
    assets: list[str]
    sentence: str
    error: str | None
    next: NextStep


class AgeAgainstPromise(TypedDict):
    """The age of an asset and the age that it promises."""

    assetId: str
    ageMs: int
    maxAgeMs: int
    overdue: bool


class UnreadChange(TypedDict):
    """For how long an input of an asset has had a change that the asset does not include."""

    assetId: str
    lagMs: int


class OverviewLag(TypedDict):
    """Promises (`maxAge`) and how they are kept. `worst`: nearest to the limit or furthest beyond it."""

    promised: int
    overdue: int
    worst: list[AgeAgainstPromise]
    behind: list[UnreadChange]


class RunCounts(TypedDict):
    """Runs now, and those that ended in the last 24 hours."""

    running: int
    queued: int
    succeeded24h: int
    failed24h: int
    avoided24h: int


class ProcessCounts(TypedDict):
    """Live processes by kind. `silent`: they have not stopped, and send no heartbeat."""

    materializers: int
    workers: int
    apis: int
    silent: int


class WatchCounts(TypedDict):
    """Watches of sources. `failing`: the last look failed; `stopped`: the breaker is open."""

    total: int
    failing: int
    stopped: int


class AppliedDefinition(TypedDict):
    """A version of a workflow."""

    slug: str
    workflowVersion: int
    appliedAt: str


class RecentChanges(TypedDict):
    """What happened in the last 24 hours.

    `assets`: how many have other data; `versions`, `identical`: snapshots with other and with equal data. `failing`:
    the first outputs of workflows that began to fail. `changes`: entries of the audit.
    """

    since: str
    assets: int
    versions: int
    identical: int
    failing: list[str]
    definitions: list[AppliedDefinition]
    changes: int


class Overview(TypedDict):
    """The state of the installation in one sentence, its causes, and what changed."""

    at: str
    position: int
    sentence: str
    total: int
    counts: dict[str, int]
    causes: list[Cause]
    moreCauses: int
    lag: OverviewLag
    runs: RunCounts
    processes: ProcessCounts
    pools: list[Pool]
    watches: WatchCounts
    notes: list[str]
    changedSinceYesterday: RecentChanges
