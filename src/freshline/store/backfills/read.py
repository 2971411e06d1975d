"""Backfills as documents: their policy, their progress and what they would compute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
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
from freshline.partitions.selection import from_json
from freshline.reading import existing
from freshline.store.backfills import cost
from freshline.store.backfills.ages import ages
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
    priced = _cost(there, row, parts) if row["status"] == BackfillStatus.PROPOSED else None
    found = {**_document(row, parts), "parts": shown, "failures": failures, "cost": priced}
    return cast("BackfillDetail", found)


def _cost(there: Catalogue, row: Row, parts: Sequence[Row]) -> BackfillPreview:
    """Return what a proposal would compute."""
    graph = there.graph
    priced: list[Part] = []
    for one in parts:
        workflow_id, selection = one["workflow_id"], from_json(one["selection"])
        keys = existing(graph, workflow_id, selection, there.now, there.known) if workflow_id in graph.slugs else ()
        ends = list(keys)
        if ends:
            priced.append(Part(workflow_id, one["slug"], selection, one["total"], ends[0], ends[-1]))
    return priced_preview(there, row["asset_id"], priced, row["batch"])


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
    return priced_preview(there, request.asset_id, parts, request.policy.batch)


def priced_preview(there: Catalogue, asset_id: str, parts: Sequence[Part], batch: int) -> BackfillPreview:
    """Return what parts of a backfill would compute."""
    connection, sizes, found = there.connection, cost.sizes(there, parts), ages(there, parts)
    ids = [part.workflow_id for part in parts]
    steps = connection.execute(SQL["batching"], {"workflows": ids}).fetchall()
    batched = set(ids) - {step["workflow_id"] for step in steps if not step["batch"]}
    measured = {row["workflow_id"]: row for row in connection.execute(SQL["durations"], {"workflows": ids})}
    shown: list[PreviewPart] = [
        {
            "workflowSlug": part.slug,
            "partitions": part.total,
            "runs": cost.runs_of(part.total, batch if part.workflow_id in batched else 1),
            "first": part.first,
            "last": part.last,
            "frozen": found[part.workflow_id].frozen,
            "sealed": found[part.workflow_id].sealed,
            "outside": found[part.workflow_id].outside,
            "p50Ms": measured[part.workflow_id]["p50"] if part.workflow_id in measured else None,
            "p95Ms": measured[part.workflow_id]["p95"] if part.workflow_id in measured else None,
            "rows": sizes[part.workflow_id]["rows"] if part.workflow_id in sizes else None,
            "bytes": sizes[part.workflow_id]["bytes"] if part.workflow_id in sizes else None,
        }
        for part in parts
    ]
    return {
        "assetId": asset_id,
        "partitions": sum(part.total for part in parts),
        "parts": shown,
        "downstream": cost.below(there, parts),
    }


def unknown(backfill_id: str) -> NotFoundError:
    """Return the error about a backfill that does not exist."""
    return NotFoundError(f"backfill {backfill_id} does not exist", hint="`freshline backfill list` lists them")


def _document(row: Row, parts: Sequence[Row]) -> Backfill:
    found = _sum(parts)
    left = _left(row, parts, found) if row["status"] == BackfillStatus.ACTIVE else None
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


def _left(row: Row, parts: Sequence[Row], found: Progress) -> timedelta | None:
    """Return how long the rest takes. Nothing runs before `not_before`, or during the cooldown of a partition."""
    now: datetime = row["now"]
    begun = max(row["requested_at"], row["not_before"] or row["requested_at"])
    cooled = max((part["eligible_at"] for part in parts if part["eligible_at"] is not None), default=now)
    return remaining_time(found, now - begun, cooled - now)


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
