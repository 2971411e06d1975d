"""What `status` says about an asset and a workflow, derived from the facts that one statement reads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from freshline.model.enums import AssetState
from freshline.model.json import Json
from freshline.store.read.look import plain


def asset_status(row: Json) -> Json:
    """One entry of `status.assets`."""
    return {
        "assetId": row["assetId"],
        "partitionKey": row["partitionKey"],
        "workflowSlug": row["workflowSlug"],
        "state": asset_state(row).value,
        "producedAt": plain(row["producedAt"]),
        "expiresAt": plain(row["expiresAt"]),
        "expired": row["expired_at"] is not None,
        "dataVersion": row["dataVersion"],
        "version": row["version"],
        "tableVersion": row["tableVersion"],
        "rows": row["rows"],
        "bytes": row["bytes"],
        "runId": plain(row["runId"]),
        "lastAutoRun": _last_run(row),
        "nextRefreshAt": plain(_first(next_refresh(row))),
        "hold": _hold(row),
    }


def asset_state(row: Json) -> AssetState:
    """The state, first match wins (R5.2)."""
    for state, holds in (
        (AssetState.SOURCE, row["workflowSlug"] is None),
        (AssetState.RUNNING, row["running"]),
        (AssetState.MISSING, row["missing"]),
        (AssetState.FAILING, row["failures"] > 0),
        (AssetState.WAITING, row["queued"] or row["hold"] is not None),
        (AssetState.STALE, row["due"] or row["behind"] or row["expired_at"] is not None),
    ):
        if holds:
            return state
    return AssetState.FRESH


def workflow_status(row: Json) -> Json:
    """One entry of `status.workflows`."""
    return {
        "slug": row["slug"],
        "version": row["version"],
        "project": row["project"],
        "automatic": row["automatic"],
        "paused": _paused(row),
        "inFlight": plain(row["inFlight"]),
        "inFlightStatus": row["inFlightStatus"],
        "cooldown": {"failures": row["failures"], "nextEligibleAt": plain(row["eligible_at"])},
        "breaker": {"state": "open" if row["breaker_at"] else "closed", "openedAt": plain(row["breaker_at"])},
        "hold": _hold(row),
        "succeededAt": plain(row["succeededAt"]),
        "avoided": row["avoided"],
    }


def notes(queue: Json) -> list[str]:
    """What keeps everything from moving, in words: work that waits and nobody there who can do it."""
    told = []
    if queue["unattended"]:
        names = ", ".join(queue["unattended"])
        told.append(f"{_count(queue['queued'], 'run')} queued and no worker of project {names} is running")
    if queue["other_code"]:
        told.append(
            f"{_count(queue['other_code'], 'run')} queued for other code than the workers have; "
            "apply the project where they run, or update their files"
        )
    if queue["unabsorbed"] and not queue["materializers"]:
        told.append(f"{_count(queue['unabsorbed'], 'event')} not looked at and no materializer is running")
    told += [f"a worker takes no Spark runs: {trouble}" for trouble in queue["engine"] or ()]
    return told + [f"{trouble}; events wait for it, all else goes on" for trouble in queue["bus"] or ()]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun} is" if number == 1 else f"{number} {noun}s are"


def _last_run(row: Json) -> Json | None:
    if row["last_run"] is None:
        return None
    return {
        "runId": plain(row["last_run"]),
        "status": row["last_status"],
        "finishedAt": plain(row["last_finished"]),
        "reason": row["last_reason"],
    }


def _hold(row: Json) -> Json | None:
    if row["hold"] is None:
        return None
    return {"reason": row["hold"], "until": plain(_hold_end(row)), "blocker": row["blocker"]}


def _hold_end(row: Json) -> datetime | None:
    until: datetime | None = row["blocks_until"]
    return until or _time(row["until"])


def next_refresh(row: Json) -> tuple[datetime, str] | None:
    """When it is looked at or run next by itself, and why then; None when nothing is planned."""
    if not row["automatic"] or (row["paused_at"] is not None and row["paused_until"] is None):
        return None
    if row["eligible_at"] is not None:
        return row["eligible_at"], "retry"
    planned = [(row["due_at"], row["due_reason"]), (row["not_before"] if row["hold"] else None, row["hold"])]
    return min(((time, why) for time, why in planned if time is not None), default=None)


def _first(found: tuple[datetime, str] | None) -> datetime | None:
    return found[0] if found else None


def _paused(row: Json) -> Json | bool:
    if row["paused_at"] is None:
        return False
    return {"since": plain(row["paused_at"]), "until": plain(row["paused_until"])}


def _time(text: Any) -> datetime | None:
    if not isinstance(text, str):
        return None
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)
