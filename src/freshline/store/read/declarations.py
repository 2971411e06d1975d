"""Assets with their state and declaration, and the policy status of a workflow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from freshline.errors import NotFoundError
from freshline.model.documents.asset import Asset, AssetDeclaration, DeclaredPolicy, Delivery, StoredDelivery
from freshline.model.documents.status import WorkflowStatus
from freshline.model.documents.workflow import ActiveRun, Lag, NextRefresh, PolicyAsset, PolicyStatus
from freshline.model.json import Json
from freshline.store.db.database import Row
from freshline.store.read import older_code
from freshline.store.read.partitions import CurrentPartitions
from freshline.store.read.session import ReadSession, json_value
from freshline.store.read.status import asset_status, newest_of, next_refresh, workflow_status

NO_FILTER = {"assets": None, "workflow": None, "after": None, "limit": None}


def assets(session: ReadSession, partitions: CurrentPartitions, **filters: Any) -> list[Asset]:
    """List assets by id, with state, declared `freshness` and `autoMaterialize`, and consumers."""
    found = {row["assetId"]: row for row in session.json_rows("declarations", **{**NO_FILTER, **filters})}
    newest = partitions.newest(found)
    summaries = partitions.summaries(newest)
    states = session.rows("status_assets", assets=list(found), **newest_of(newest))
    undecided = older_code.read(session, list(found))
    return [
        {
            **asset_status(row, summaries.get(row["assetId"]), undecided.get(row["assetId"])),
            **_declaration(found[row["assetId"]]),
        }
        for row in states
    ]


def policy(session: ReadSession, partitions: CurrentPartitions, slug: str, workflow_id: int | None) -> PolicyStatus:
    """Return the policy status of a workflow that is not retired. Of partitions it describes the newest."""
    newest = partitions.newest(row["id"] for row in session.rows("assets_of", slug=slug))
    rows = session.rows("status_workflows", slugs=[slug], **newest_of(newest))
    if not rows:
        raise NotFoundError(f"workflow {slug!r} is retired; it has no policy", hint="apply it again to bring it back")
    now: datetime = session.rows("clock")[0]["now"]
    found = {row["assetId"]: row for row in session.json_rows("declarations", **{**NO_FILTER, "workflow": workflow_id})}
    states = session.rows("status_assets", assets=list(found), **newest_of(newest))
    workflow = workflow_status(rows[0])
    return {
        "at": json_value(now),
        "slug": workflow["slug"],
        "workflowVersion": workflow["workflowVersion"],
        "project": workflow["project"],
        "automatic": workflow["automatic"],
        "paused": workflow["paused"],
        "cooldown": workflow["cooldown"],
        "breaker": workflow["breaker"],
        "hold": workflow["hold"],
        "succeededAt": workflow["succeededAt"],
        "runsAvoided": workflow["runsAvoided"],
        "inFlight": _active_run(workflow),
        "lastAutoRun": asset_status(states[0])["lastAutoRun"] if states else None,
        "nextRefresh": _earliest_refresh(states),
        "assets": [_asset_policy(row, found[row["assetId"]], now) for row in states],
    }


def _active_run(workflow: WorkflowStatus) -> ActiveRun | None:
    run_id = workflow["inFlight"]
    return {"runId": run_id, "status": workflow["inFlightStatus"]} if run_id else None


def _asset_policy(row: Row, declaration: Row, now: datetime) -> PolicyAsset:
    status = asset_status(row)
    policy = _policy(declaration)
    return {
        "assetId": status["assetId"],
        "partitionKey": status["partitionKey"],
        "state": status["state"],
        "producedAt": status["producedAt"],
        "expiresAt": status["expiresAt"],
        "expired": status["expired"],
        "nextRefreshAt": status["nextRefreshAt"],
        **policy,
        "lag": _lag(row, policy["freshness"] or {}, now),
    }


def _lag(row: Row, freshness: Json, now: datetime) -> Lag:
    age = None if row["producedAt"] is None else max(0, int((now - row["producedAt"]).total_seconds() * 1000))
    max_age = freshness.get("maxAgeMs")
    return {"ageMs": age, "maxAgeMs": max_age, "overdue": max_age is not None and age is not None and age > max_age}


def _earliest_refresh(states: Sequence[Row]) -> NextRefresh | None:
    """Return the earliest planned refresh of the assets; None if none is planned."""
    planned = [(*found, row["assetId"]) for row in states if (found := next_refresh(row)) is not None]
    if not planned:
        return None
    at, reason, asset_id = min(planned)
    return {"at": json_value(at), "reason": reason, "assetId": asset_id}


def _declaration(row: Row) -> AssetDeclaration:
    return {**_policy(row), "declaration": row["declaration"], "consumedBy": row["consumedBy"]}


def _policy(row: Row) -> DeclaredPolicy:
    declared = row["declaration"]
    return {"freshness": declared.get("freshness"), "autoMaterialize": declared.get("autoMaterialize")}


def delivery(stored: StoredDelivery) -> Delivery:
    """Return a delivery as commands and the API show it."""
    shown = {"dataVersion": stored["version"], "version": stored["sequence"]}
    rest = {name: value for name, value in stored.items() if name not in {"version", "sequence"}}
    return cast("Delivery", {**rest, **shown})
