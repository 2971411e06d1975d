"""`/runs`, `/events`, `/decisions`, `/workers` and `/audit`: what happened, newest first."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request

from freshline.api import models, stream
from freshline.api.auth import Administrating, Operating, Reading, access
from freshline.api.pagination import After, Flag, Limit, Name, Plain, page, period
from freshline.api.problems import Refusal
from freshline.api.workflows import Stored
from freshline.model.json import Json
from freshline.store.operations.audit import acting
from freshline.store.read.reader import MAX_LIMIT, Period
from freshline.store.store import Store

router = APIRouter(tags=["history"], route_class=Plain)
Id = Annotated[str, Path(max_length=100)]
Within = Annotated[Period, Depends(period)]
Type = Annotated[str | None, Query(max_length=200, description="A type, or its beginning: `asset`.")]
Position = Annotated[int, Query(ge=0, lt=2**63, description="The position of the last known event.")]
Many = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="At most so many.")]
Line = Annotated[int, Query(ge=-1, lt=2**31, description="The number of the last line that is known.")]


@router.get("/runs", response_model=models.Page[models.Run])
def list_runs(
    _: Reading,
    store: Stored,
    within: Within,
    *,
    limit: Limit = 50,
    after: After = None,
    status: models.RunStatus | None = None,
    workflow: Name = None,
    asset: Name = None,
    trigger: Annotated[models.TriggerType | None, Query(description="The type of the trigger.")] = None,
) -> Json:
    """Runs. The period is that of `queuedAt`; `asset` means the workflow that produces it."""
    _one_of(workflow, asset)
    return page(
        limit,
        lambda most: store.reader.runs(most, after, status, workflow, asset=asset, trigger=trigger, period=within),
    )


@router.get("/runs/{runId}", response_model=models.RunDetail)
def show_run(_: Reading, store: Stored, runId: Id) -> Json:  # noqa: N803 - the name of the field
    """One run, with its steps and what it published."""
    return store.reader.run(runId)


@router.get("/runs/{runId}/logs", response_model=models.Page[models.LogLine])
def list_logs(_: Reading, store: Stored, runId: Id, limit: Limit = 1000, after: Line = -1) -> Json:  # noqa: N803
    """What it printed, in its order."""
    return page(limit, lambda most: store.reader.logs(runId, after, most), "line")


@router.post("/runs/{runId}/cancel", response_model=models.RunDetail, status_code=202)
def cancel_run(actor: Operating, store: Stored, runId: Id, asked: models.CancelAsked | None = None) -> Json:  # noqa: N803
    """End a run: at once if it is queued, through its worker if it is running. One that has ended stays as it is."""
    found = store.reader.find_run(runId)
    with acting(actor):
        store.operations.cancel(found, (asked or models.CancelAsked()).reason)
    return store.reader.run(found)


@router.get("/events", response_model=models.Page[models.Event], responses={200: {"content": {stream.MEDIA: {}}}})
def list_events(
    _: Reading,
    request: Request,
    store: Stored,
    within: Within,
    *,
    limit: Limit = 50,
    after: After = None,
    type: Type = None,  # noqa: A002
    subject: Name = None,
    last: Annotated[
        str | None, Header(alias="Last-Event-ID", max_length=100, description="The last known one.")
    ] = None,
) -> Any:
    """Events, newest first. With `Accept: text/event-stream`, those to come as they happen, oldest first.

    Such a stream begins after the event that `Last-Event-ID` or `after` names, else now.
    """
    if accepts_stream(request):
        return access(request).streams.open(_position(store, last or after), type, subject)
    return page(limit, lambda most: store.reader.events(most, after, type, subject, period=within))


@router.get("/events/{eventId}", response_model=models.EventDetail)
def show_event(_: Reading, store: Stored, eventId: Id, limit: Many = 100) -> Json:  # noqa: N803
    """One event by its id or position, and what became of it for the first so many workflows that it concerns."""
    return store.reader.event(eventId, limit)


@router.get("/feed", response_model=models.Page[models.Event])
def list_feed(
    _: Reading,
    store: Stored,
    position: Position = 0,
    type: Type = None,  # noqa: A002
    subject: Name = None,
) -> Json:
    """Up to 1,000 events after a position, oldest first. `next`: the position to go on from; none while nothing is new.

    Positions are in the order of commits: who reads on misses none.
    """
    found = store.reader.events_since(position, type, subject)
    return {"items": found, "next": str(found[-1]["position"]) if found else None}


@router.get("/decisions", response_model=models.Page[models.Decision])
def list_decisions(
    _: Reading,
    store: Stored,
    within: Within,
    *,
    limit: Limit = 50,
    after: After = None,
    workflow: Name = None,
    asset: Name = None,
    outcome: models.Outcome | None = None,
) -> Json:
    """Decisions: run, hold, skip or error, with the reason and the evidence."""
    _one_of(workflow, asset)
    return page(
        limit, lambda most: store.reader.decisions(most, after, workflow, asset, outcome=outcome, period=within)
    )


@router.get("/workers", response_model=models.Page[models.Worker])
def list_workers(_: Reading, store: Stored, limit: Many = 100, stopped: Flag = False) -> Json:
    """The processes that announced themselves, the first so many; with `stopped`, those that ended too."""
    return {"items": store.reader.workers(limit, stopped=stopped), "next": None}


@router.get("/audit", response_model=models.Page[models.Change])
def list_changes(
    _: Administrating, store: Stored, limit: Limit = 50, after: After = None, subject: Name = None
) -> Json:
    """Every change that somebody made, by whichever way: who, what, before and after."""
    return page(limit, lambda most: store.reader.audit(most, after, subject))


def _position(store: Store, known: str | None) -> int:
    """Where a stream begins. A position need not be there any more: old events are forgotten."""
    if known is None or not (known.isascii() and known.isdecimal()):
        return store.reader.position(known)
    return min(int(known), 2**63 - 1)


def accepts_stream(request: Request) -> bool:
    """Whether a stream is asked for."""
    return stream.MEDIA in request.headers.get("accept", "")


def _one_of(workflow: str | None, asset: str | None) -> None:
    if workflow is not None and asset is not None:
        raise Refusal(422, "invalid-request", "'workflow' and 'asset' exclude each other; give one of them")
