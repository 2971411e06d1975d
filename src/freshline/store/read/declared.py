"""What was declared about assets beside how they stand: for those who look at policies."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from freshline.errors import NotFoundError
from freshline.model.json import Json
from freshline.store.read.look import Look, plain
from freshline.store.read.status import asset_status, next_refresh, workflow_status

EVERYTHING = {"assets": None, "workflow": None, "after": None, "limit": None}


def assets(look: Look, **filters: Any) -> list[Json]:
    """Assets by id, each with its state, `freshness` and `autoMaterialize` as declared, and who consumes it."""
    found = {row["assetId"]: row for row in look.all("declarations", **{**EVERYTHING, **filters})}
    states = look.raw("status_assets", assets=list(found))
    return [{**asset_status(row), **_declaration(found[row["assetId"]])} for row in states]


def policy(look: Look, slug: str, workflow_id: int | None) -> Json:
    """The policy status of one workflow that is not retired."""
    rows = look.raw("status_workflows", slugs=[slug])
    if not rows:
        raise NotFoundError(f"workflow {slug!r} is retired; it has no policy", hint="apply it again to bring it back")
    now: datetime = look.raw("clock")[0]["now"]
    found = {row["assetId"]: row for row in look.all("declarations", **{**EVERYTHING, "workflow": workflow_id})}
    states = look.raw("status_assets", assets=list(found))
    workflow = workflow_status(rows[0])
    flying = {"runId": workflow.pop("inFlight"), "status": workflow.pop("inFlightStatus")}
    avoided = workflow.pop("avoided")
    return {
        "at": plain(now),
        **workflow,
        "runsAvoided": avoided,
        "inFlight": flying if flying["runId"] else None,
        "lastAutoRun": asset_status(states[0])["lastAutoRun"] if states else None,
        "nextRefresh": _next(states),
        "assets": [_asset(row, found[row["assetId"]], now) for row in states],
    }


def _asset(row: Json, declaration: Json, now: datetime) -> Json:
    shown = asset_status(row)
    names = ("assetId", "partitionKey", "state", "producedAt", "expiresAt", "expired", "nextRefreshAt")
    lag = _lag(row, declaration["declaration"].get("freshness") or {}, now)
    return {**{name: shown[name] for name in names}, **_policy(declaration), "lag": lag}


def _lag(row: Json, freshness: Json, now: datetime) -> Json:
    age = None if row["producedAt"] is None else max(0, int((now - row["producedAt"]).total_seconds() * 1000))
    most = freshness.get("maxAgeMs")
    return {"ageMs": age, "maxAgeMs": most, "overdue": most is not None and age is not None and age > most}


def _next(states: Sequence[Json]) -> Json | None:
    """The first of what is planned for its assets."""
    planned = [(*found, row["assetId"]) for row in states if (found := next_refresh(row)) is not None]
    if not planned:
        return None
    at, reason, asset_id = min(planned)
    return {"at": plain(at), "reason": reason, "assetId": asset_id}


def _declaration(row: Json) -> Json:
    return {**_policy(row), "declaration": row["declaration"], "consumedBy": row["consumedBy"]}


def _policy(row: Json) -> Json:
    return {name: row["declaration"].get(name) for name in ("freshness", "autoMaterialize")}
