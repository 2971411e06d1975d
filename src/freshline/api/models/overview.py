"""Models of the overview: causes, counts, and what changed."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from freshline.api.models.base import ResponseBody, State
from freshline.api.models.installation import Pool
from freshline.model.documents.overview import ActionType, CauseKind


class Action(ResponseBody):
    """What a client can do about a cause."""

    type: ActionType
    target: str


class NextStep(ResponseBody):
    """What to do about a cause."""

    text: str
    command: str | None
    action: Action | None


class Cause(ResponseBody):
    """Why assets are not fresh, at its origin."""

    kind: CauseKind
    asset_id: str | None
    workflow_slug: str | None
    partition_key: str
    run_id: str | None
    backfill_id: str | None
    reason: str | None
    since: datetime | None
    until: datetime | None
    explains: int
    behind: int
    assets: list[str]
    sentence: str
    error: str | None
    next: NextStep


class AgeAgainstPromise(ResponseBody):
    """The age of an asset, and the age that it promises."""

    asset_id: str
    age_ms: int
    max_age_ms: int
    overdue: bool


class UnreadChange(ResponseBody):
    """For how long an asset has not had a change of its inputs."""

    asset_id: str
    lag_ms: int


class OverviewLag(ResponseBody):
    """Promises (`maxAge`), and how they are kept."""

    promised: int
    overdue: int
    worst: list[AgeAgainstPromise]
    behind: list[UnreadChange]


class RunCounts(ResponseBody):
    """Runs now, and in the last 24 hours."""

    running: int
    queued: int
    succeeded24h: int = Field(alias="succeeded24h")
    failed24h: int = Field(alias="failed24h")
    avoided24h: int = Field(alias="avoided24h")


class ProcessCounts(ResponseBody):
    """Processes with a heartbeat, and those without one that have not stopped."""

    materializers: int
    workers: int
    apis: int
    silent: int


class WatchCounts(ResponseBody):
    """Watches of sources."""

    total: int
    failing: int
    stopped: int


class AppliedDefinition(ResponseBody):
    """A version of a workflow."""

    slug: str
    workflow_version: int
    applied_at: datetime


class RecentChanges(ResponseBody):
    """What happened in the last 24 hours."""

    since: datetime
    assets: int
    versions: int
    identical: int
    failing: list[str]
    definitions: list[AppliedDefinition]
    changes: int


class Overview(ResponseBody):
    """What is not fresh, why, and what to do."""

    at: datetime
    position: int
    sentence: str
    total: int
    counts: dict[State, int]
    causes: list[Cause]
    more_causes: int
    lag: OverviewLag
    runs: RunCounts
    processes: ProcessCounts
    pools: list[Pool]
    watches: WatchCounts
    notes: list[str]
    changed_since_yesterday: RecentChanges
