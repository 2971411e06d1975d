"""Backfills as documents: their policy, their progress and what they would compute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from freshline.errors import NotFoundError
from freshline.model.backfill import BackfillRequest, BackfillStatus, Progress, remaining_time
from freshline.model.documents.backfill import (
    Backfill,
    BackfillDetail,
    BackfillPart,
    BackfillPreview,
    BackfillProgress,
    FailedPartition,
    PreviewPart,
)
from freshline.model.documents.partition import PartitionRange
from freshline.model.moment import iso
from freshline.store.backfills import cost
from freshline.store.backfills.selecting import Catalogue, Part
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load

SQL = load("backfills")
MOST_FAILURES = 100
COUNTS = ("total", "done", "failed", "refused", "running", "queued", "waiting")


def detail(there: Catalogue, backfill_id: str) -> BackfillDetail:
    """Return a backfill with its parts. Raise NotFoundError if it does not exist."""
    connection = there.connection
    row = connection.execute(SQL["find_backfill"], {"id": backfill_id}).fetchone()
    if row is None:
        raise unknown(backfill_id)
    parts = connection.execute(SQL["part_counts"], {"ids": [backfill_id]}).fetchall()
    bad = connection.execute(SQL["ended_badly"], {"id": backfill_id, "limit": MOST_FAILURES}).fetchall()
    failures: list[FailedPartition] = [
        {"workflowSlug": one["slug"], "partitionKey": one["partition_key"], "state": one["state"]} for one in bad
    ]
    states = cost.states(there, backfill_id, parts)
    shown = [_part(one, states.get(one["workflow_id"], [])) for one in parts]
    found = {**_document(row, parts), "parts": shown, "failures": failures}
    return cast("BackfillDetail", found)


def listed(
    connection: Connection, *, statuses: Sequence[BackfillStatus], asset_id: str | None, limit: int, after: str | None
) -> list[Backfill]:
    """Return backfills with their progress, the newest first."""
    asked = {"status": list(statuses) or None, "asset": asset_id, "limit": limit, "after": after}
    rows = connection.execute(SQL["list_backfills"], asked).fetchall()
    ids = [str(row["id"]) for row in rows]
    parts = connection.execute(SQL["part_counts"], {"ids": ids}).fetchall()
    return [_document(row, [part for part in parts if part["id"] == str(row["id"])]) for row in rows]


def progress(connection: Connection, backfill_id: str) -> BackfillProgress:
    """Return how many partitions of a backfill are in which state."""
    parts = connection.execute(SQL["part_counts"], {"ids": [backfill_id]}).fetchall()
    return _shown(_sum(parts))


def preview(there: Catalogue, request: BackfillRequest, parts: Sequence[Part]) -> BackfillPreview:
    """Return what a backfill would compute, with measured durations, and what runs because of it."""
    connection, sizes = there.connection, cost.sizes(there, parts)
    ids = [part.workflow_id for part in parts]
    measured = {row["workflow_id"]: row for row in connection.execute(SQL["durations"], {"workflows": ids})}
    shown: list[PreviewPart] = [
        {
            "workflowSlug": part.slug,
            "partitions": part.total,
            "runs": cost.runs_of(part.total, request.policy.batch),
            "first": part.first,
            "last": part.last,
            "p50Ms": measured[part.workflow_id]["p50"] if part.workflow_id in measured else None,
            "p95Ms": measured[part.workflow_id]["p95"] if part.workflow_id in measured else None,
            "rows": sizes[part.workflow_id]["rows"] if part.workflow_id in sizes else None,
            "bytes": sizes[part.workflow_id]["bytes"] if part.workflow_id in sizes else None,
        }
        for part in parts
    ]
    return {
        "assetId": request.asset_id,
        "partitions": sum(part.total for part in parts),
        "parts": shown,
        "downstream": cost.below(there, parts),
    }


def unknown(backfill_id: str) -> NotFoundError:
    """Return the error about a backfill that does not exist."""
    return NotFoundError(f"backfill {backfill_id} does not exist", hint="`freshline backfill list` lists them")


def _document(row: Row, parts: Sequence[Row]) -> Backfill:
    found = _sum(parts)
    left = remaining_time(found, row["now"] - row["requested_at"]) if row["status"] == BackfillStatus.ACTIVE else None
    return {
        "id": str(row["id"]),
        "project": row["project"],
        "assetId": row["asset_id"],
        "status": row["status"],
        "requestedBy": row["requested_by"],
        "requestedAt": iso(row["requested_at"]),
        "selection": row["selection"],
        "upstream": row["upstream"],
        "downstream": row["downstream"],
        "only": row["kind"],
        "batch": row["batch"],
        "concurrency": row["concurrency"],
        "order": "newest" if row["newest_first"] else "oldest",
        "notBefore": iso(row["not_before"]) if row["not_before"] else None,
        "duringQuietHours": row["during_quiet_hours"],
        "priority": row["priority"],
        "partial": row["partial"],
        "revision": row["revision"],
        "reasons": row["reasons"],
        "progressedAt": iso(row["progressed_at"]) if row["progressed_at"] else None,
        "endedAt": iso(row["ended_at"]) if row["ended_at"] else None,
        "progress": _shown(found),
        "etaMs": None if left is None else round(left.total_seconds() * 1000),
    }


def _part(row: Row, states: list[PartitionRange]) -> BackfillPart:
    counted = _shown(_sum([row]))
    return {
        **counted,
        "workflowSlug": row["slug"],
        "workflowVersion": row["version"],
        "selection": row["selection"],
        "states": states,
    }


def _sum(parts: Iterable[Row]) -> Progress:
    rows = list(parts)
    counts = {name: sum(row[name] for row in rows) for name in COUNTS}
    # Those that are done and not yet counted: the next turn counts them.
    counts["done"] += sum(row["unseen"] for row in rows)
    return Progress(**counts)


def _shown(found: Progress) -> BackfillProgress:
    return {
        "total": found.total,
        "done": found.done,
        "failed": found.failed,
        "refused": found.refused,
        "running": found.running,
        "queued": found.queued,
        "waiting": found.waiting,
        "rest": found.rest,
    }
