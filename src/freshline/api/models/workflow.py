"""Models of workflows and their policy status."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from freshline.api.models.asset import Hold
from freshline.api.models.base import Moment, RequestBody, ResponseBody, RunStatus, State
from freshline.api.models.run import InFlight, LastRun
from freshline.model.json import Json


class PauseRequest(RequestBody):
    """The request of a pause."""

    until: Moment | None = Field(default=None, description="End of the pause, with a time zone. None: no end.")


class Cooldown(ResponseBody):
    """Consecutive failures, and the earliest time of the next automatic run."""

    failures: int
    next_eligible_at: datetime | None


class Breaker(ResponseBody):
    """The state of the breaker."""

    state: Literal["open", "closed"]
    opened_at: datetime | None


class Pause(ResponseBody):
    """The start and the end of a pause."""

    since: datetime
    until: datetime | None


class WorkflowState(ResponseBody):
    """The state of a workflow."""

    slug: str
    workflow_version: int
    project: str
    automatic: bool
    paused: Pause | Literal[False]
    in_flight: str | None
    in_flight_status: RunStatus | None
    cooldown: Cooldown
    breaker: Breaker
    hold: Hold | None
    succeeded_at: datetime | None
    runs_avoided: int


class Workflow(ResponseBody):
    """The current definition of a workflow, as declared."""

    slug: str
    workflow_version: int
    project: str
    automatic: bool
    applied_at: datetime
    retired_at: datetime | None
    fingerprint: str
    source_file: str | None
    definition: Json
    produces: list[str]
    consumes: list[str]


class NextRefresh(ResponseBody):
    """The next automatic evaluation or run: time, reason and asset."""

    at: datetime
    reason: str
    asset_id: str


class Lag(ResponseBody):
    """The age of an asset compared with its `maxAgeMs`."""

    age_ms: int | None
    max_age_ms: int | None
    overdue: bool


class PolicyAsset(ResponseBody):
    """An asset in a policy status."""

    asset_id: str
    partition_key: str
    state: State
    produced_at: datetime | None
    expires_at: datetime | None
    expired: bool
    next_refresh_at: datetime | None
    freshness: Json | None
    auto_materialize: Json | None
    lag: Lag


class PolicyStatus(ResponseBody):
    """The status of a workflow's automatic runs."""

    at: datetime
    slug: str
    workflow_version: int
    project: str
    automatic: bool
    paused: Pause | Literal[False]
    in_flight: InFlight | None
    cooldown: Cooldown
    breaker: Breaker
    hold: Hold | None
    succeeded_at: datetime | None
    last_auto_run: LastRun | None
    next_refresh: NextRefresh | None
    runs_avoided: int
    assets: list[PolicyAsset]
