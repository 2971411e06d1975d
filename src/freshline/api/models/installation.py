"""The installation as a whole: status, processes, changes, health."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from freshline.api.models.asset import AssetState
from freshline.api.models.base import Told
from freshline.api.models.workflow import WorkflowState
from freshline.model.json import Json


class Pool(Told):
    """How full a pool is."""

    name: str
    project: str
    slots: int
    running: int
    queued: int


class Status(Told):
    """How everything stands, or one asset or workflow and its own. `notes`: what keeps everything from moving."""

    at: datetime
    assets: list[AssetState]
    workflows: list[WorkflowState]
    pools: list[Pool]
    notes: list[str]


class About(Told):
    """What answers here: its version, the database's clock, and the position of the newest event."""

    version: str
    at: datetime
    position: int


class Worker(Told):
    """A process that announced itself."""

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


class Change(Told):
    """An entry of the audit."""

    id: str
    at: datetime
    who: str
    token_id: str | None
    what: str
    subject: str
    before: Json | None
    after: Json | None


class HealthCheck(Told):
    """One thing that has to be so."""

    name: str
    ok: bool
    detail: str | None


class Health(Told):
    """Whether a process is there, and whether it can work. Checks after one that fails are not made."""

    status: Literal["ok", "unavailable"]
    checks: list[HealthCheck] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
