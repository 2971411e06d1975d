"""Workflows: definitions, policy status, and a hand on them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from freshline.api.models.asset import Hold
from freshline.api.models.base import Asked, Moment, RunStatus, State, Told
from freshline.api.models.run import InFlight, LastRun
from freshline.model.json import Json


class PauseAsked(Asked):
    """A pause."""

    until: Moment | None = Field(default=None, description="Its end, with a zone. None: no end.")


class Cooldown(Told):
    """How failures stand."""

    failures: int
    next_eligible_at: datetime | None


class Breaker(Told):
    """Whether the failures were too many."""

    state: Literal["open", "closed"]
    opened_at: datetime | None


class Pause(Told):
    """Since when and until when."""

    since: datetime
    until: datetime | None


class WorkflowState(Told):
    """How a workflow stands."""

    slug: str
    version: int
    project: str
    automatic: bool
    paused: Pause | Literal[False]
    in_flight: str | None
    in_flight_status: RunStatus | None
    cooldown: Cooldown
    breaker: Breaker
    hold: Hold | None
    succeeded_at: datetime | None
    avoided: int


class Workflow(Told):
    """A workflow's current definition, as declared."""

    slug: str
    version: int
    project: str
    automatic: bool
    applied_at: datetime
    retired_at: datetime | None
    fingerprint: str
    source_file: str | None
    definition: Json
    produces: list[str]
    consumes: list[str]


class NextRefresh(Told):
    """When it is looked at or run next by itself, for which asset, and why then."""

    at: datetime
    reason: str
    asset_id: str


class Lag(Told):
    """The age of an asset against what was promised."""

    age_ms: int | None
    max_age_ms: int | None
    overdue: bool


class PolicyAsset(Told):
    """One asset of a policy status."""

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


class PolicyStatus(Told):
    """How a workflow's automatic runs stand."""

    at: datetime
    slug: str
    version: int
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
