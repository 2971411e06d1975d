"""`/backfills`: requests to compute partitions again, and their progress."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from freshline.api import models
from freshline.api.auth import RequireOperate, RequireRead
from freshline.api.pagination import After, Limit, Name, UnvalidatedRoute, page
from freshline.api.workflows import Key, StoreDep, one_key
from freshline.model.backfill import BackfillStatus
from freshline.model.documents.backfill import Backfill, BackfillDetail, BackfillPreview
from freshline.model.documents.installation import Page
from freshline.store.operations.audit import acting

router = APIRouter(tags=["backfills"], route_class=UnvalidatedRoute)
BackfillId = Annotated[str, Path(max_length=100, description="Id of the backfill.")]
Status = Annotated[models.BackfillStatus | None, Query(description="Only backfills in this state.")]


@router.get("/backfills", response_model=models.Page[models.Backfill])
def list_backfills(
    _: RequireRead,
    store: StoreDep,
    *,
    status: Status = None,
    asset: Name = None,
    limit: Limit = 50,
    after: After = None,
) -> Page[Backfill]:
    """List backfills with their progress, newest first."""
    statuses = [BackfillStatus(status)] if status else []
    return page(limit, lambda most: store.backfills.list(statuses=statuses, asset_id=asset, limit=most, after=after))


@router.post("/backfills", response_model=models.BackfillDetail, status_code=202)
def create_backfill(
    actor: RequireOperate, store: StoreDep, body: models.BackfillRequest, key: Key = None
) -> BackfillDetail:
    """Start a backfill. A repeated key returns the same one."""
    with acting(actor):
        made = store.backfills.create(body.as_request(), key=one_key(key, body.key))
    return store.backfills.find(made)


@router.post("/backfills/preview", response_model=models.BackfillPreview)
def preview_backfill(_: RequireOperate, store: StoreDep, body: models.BackfillRequest) -> BackfillPreview:
    """Return what a backfill would compute, and what that costs, from measured runs. Nothing is stored."""
    return store.backfills.preview(body.as_request())


@router.get("/backfills/{backfillId}", response_model=models.BackfillDetail)
def show_backfill(_: RequireRead, store: StoreDep, backfillId: BackfillId) -> BackfillDetail:
    """Return one backfill: the progress of each workflow, the states of its partitions, and what failed."""
    return store.backfills.find(backfillId)


@router.post("/backfills/{backfillId}/approve", response_model=models.BackfillDetail, status_code=202)
def approve_backfill(
    actor: RequireOperate, store: StoreDep, backfillId: BackfillId, body: models.BackfillRevision
) -> BackfillDetail:
    """Let a proposal run, as it was shown. If it grew since, the answer is 409."""
    with acting(actor):
        store.backfills.approve(backfillId, revision=body.revision)
    return store.backfills.find(backfillId)


@router.post("/backfills/{backfillId}/deny", response_model=models.BackfillDetail)
def deny_backfill(
    actor: RequireOperate, store: StoreDep, backfillId: BackfillId, body: models.BackfillRevision
) -> BackfillDetail:
    """Accept the versions that a proposal lists without running it. If it grew since, the answer is 409."""
    with acting(actor):
        store.backfills.deny(backfillId, revision=body.revision)
    return store.backfills.find(backfillId)


@router.post("/backfills/{backfillId}/pause", response_model=models.BackfillDetail)
def pause_backfill(
    actor: RequireOperate, store: StoreDep, backfillId: BackfillId, _: models.EmptyBody | None = None
) -> BackfillDetail:
    """Pause a backfill: its queued runs end, its running ones go on."""
    with acting(actor):
        store.backfills.pause(backfillId)
    return store.backfills.find(backfillId)


@router.post("/backfills/{backfillId}/resume", response_model=models.BackfillDetail)
def resume_backfill(
    actor: RequireOperate, store: StoreDep, backfillId: BackfillId, _: models.EmptyBody | None = None
) -> BackfillDetail:
    """Go on with a paused backfill."""
    with acting(actor):
        store.backfills.resume(backfillId)
    return store.backfills.find(backfillId)


@router.post("/backfills/{backfillId}/retry", response_model=models.BackfillDetail)
def retry_backfill(
    actor: RequireOperate, store: StoreDep, backfillId: BackfillId, _: models.EmptyBody | None = None
) -> BackfillDetail:
    """Try the partitions again that failed or were refused."""
    with acting(actor):
        store.backfills.retry(backfillId)
    return store.backfills.find(backfillId)


@router.post("/backfills/{backfillId}/cancel", response_model=models.BackfillDetail, status_code=202)
def cancel_backfill(
    actor: RequireOperate, store: StoreDep, backfillId: BackfillId, body: models.CancelBackfill | None = None
) -> BackfillDetail:
    """End a backfill. Its queued runs end, its running ones finish unless `kill`. What is done stays done."""
    with acting(actor):
        store.backfills.cancel(backfillId, kill=body.kill if body else False)
    return store.backfills.find(backfillId)
