"""Assets: how they stand, their history, and what the outside says about them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, JsonValue

from freshline.api.models.base import Asked, State, Told
from freshline.api.models.run import LastRun
from freshline.model.json import Json


class ProducedAsked(Asked):
    """The outside changed a source (R3.3)."""

    data_version: str | None = Field(default=None, min_length=1, max_length=1000, description="None: always a change.")
    key: str | None = Field(default=None, min_length=1, max_length=200, description="As the header Idempotency-Key.")
    sequence: int | None = Field(default=None, ge=0, lt=2**63, description="A lower one than before is recorded only.")
    payload: JsonValue = Field(default=None, description="`path` says where this version's data is.")


class Hold(Told):
    """Why no automatic run starts now."""

    reason: str
    until: datetime | None
    blocker: str | None


class AssetState(Told):
    """How an asset stands."""

    asset_id: str
    partition_key: str
    workflow_slug: str | None
    state: State
    produced_at: datetime | None
    expires_at: datetime | None
    expired: bool
    data_version: str | None
    version: int | None
    table_version: int | None
    rows: int | None
    bytes: int | None
    run_id: str | None
    last_auto_run: LastRun | None
    next_refresh_at: datetime | None
    hold: Hold | None


class Asset(AssetState):
    """An asset with what was declared about it."""

    freshness: Json | None
    auto_materialize: Json | None
    declaration: Json
    consumed_by: list[str]


class Snapshot(Told):
    """One materialization of an asset."""

    asset_id: str
    partition_key: str
    version: int
    data_version: str
    changed: bool
    table_version: int | None
    location: Json | None
    schema_: Annotated[Any, Field(alias="schema")]
    rows: int | None
    bytes: int | None
    checks: Any
    workflow_slug: str | None
    run_id: str | None
    attempt: int | None
    step_id: str | None
    produced_at: datetime
    expires_at: datetime | None
    inputs: Json
    sources: Json
    payload: Any
    gone_at: datetime | None
    difference: Any
    parts: Any
    head: bool


class Graph(Told):
    """Who makes and who reads which asset."""

    assets: list[Json]
    workflows: list[Json]
    edges: list[Json]


class Planned(Told):
    """What would run if the asset changed now."""

    asset: str
    assumes: list[str]
    active: list[str]
    runs: list[Json]
    held: list[Json]
    cut: list[Json]


class Reported(Told):
    """What a report led to."""

    asset_id: str
    sequence: int
    data_version: str
    changed: bool
    duplicate: bool
    moved_head: bool
    event_id: str


class Expired(Told):
    """An asset whose freshness has run out."""

    asset_id: str
    partition_key: str
    expires_at: datetime | None
