"""Models of the installation: status, processes, audit, health."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from freshline.api.models.asset import AssetState
from freshline.api.models.base import RequestBody, ResponseBody
from freshline.api.models.workflow import WorkflowState
from freshline.model.json import Json


class Pool(ResponseBody):
    """The use of a pool."""

    name: str
    project: str
    slots: int
    running: int
    queued: int


class RootCause(ResponseBody):
    """What keeps an asset from being produced or updated, at its origin."""

    kind: Literal["never-reported", "nothing-found", "failing", "paused", "not-automatic"]
    asset_id: str | None
    workflow_slug: str | None
    partition_key: str
    run_id: str | None
    error: str | None
    append: bool
    partitioned: bool


class Tally(ResponseBody):
    """How many entries a listing has on all of its pages, in total and by kind.

    If not all were counted, the numbers are about the newest ones.
    """

    sentence: str
    total: int
    complete: bool
    counts: dict[str, int]


class StatusSummary(ResponseBody):
    """All assets that were asked for, in whatever state.

    `total` and `fresh` count those that are produced, `counts` all by state. `matched`: how many are in the wanted
    states. `causes`: how many explain what is not fresh; null if only a part of the installation was asked for.
    """

    sentence: str
    total: int
    fresh: int
    counts: dict[str, int]
    matched: int
    causes: int | None


class Status(ResponseBody):
    """The state of the installation, or of one asset or workflow. `notes` lists what prevents progress."""

    at: datetime
    summary: StatusSummary
    next: str | None
    assets: list[AssetState]
    workflows: list[WorkflowState]
    pools: list[Pool]
    notes: list[str]
    warnings: list[str]
    retired: int
    materializers: int
    root_causes: list[RootCause]


class About(ResponseBody):
    """The version of the API, the time of the database, and the position of the newest event."""

    version: str
    at: datetime
    position: int


class Worker(ResponseBody):
    """A registered process."""

    id: str
    kind: Literal["materializer", "worker", "api"]
    host: str
    pid: int
    live: bool
    project: str | None
    code_hash: str | None
    info: Json
    started_at: datetime
    seen_at: datetime
    stopped_at: datetime | None
    runs: list[str]


class AuditEntry(ResponseBody):
    """An audit entry."""

    id: str
    at: datetime
    who: str
    token_id: str | None
    what: str
    subject: str
    before: Json | None
    after: Json | None


class HealthCheck(ResponseBody):
    """The result of one health check."""

    name: str
    ok: bool
    detail: str | None


class Health(ResponseBody):
    """Liveness or readiness of a process. Checks stop at the first failure."""

    status: Literal["ok", "unavailable"]
    checks: list[HealthCheck] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


class LoginRequest(RequestBody):
    """A token that becomes a cookie."""

    token: str = Field(min_length=1, max_length=300, description="A token of `freshline token create`.")


class Session(ResponseBody):
    """Who sent a request, and what it may do."""

    actor: str
    name: str | None
    scope: Literal["read", "operate", "admin"]
    scopes: list[Literal["read", "data", "operate", "admin"]]
    anonymous: bool
    expires_at: datetime | None
