"""`/runs`, `/events`, `/decisions`, `/workers` and `/audit`: history, newest first."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request

from freshline.api import MAX_PAGE, models, stream
from freshline.api.access import access
from freshline.api.auth import RequireAdmin, RequireOperate, RequireRead
from freshline.api.middleware import warn
from freshline.api.pagination import (
    After,
    Flag,
    Limit,
    Name,
    Partition,
    Pattern,
    Project,
    UnvalidatedRoute,
    Within,
    page,
)
from freshline.api.problems import RequestError
from freshline.api.workflows import StoreDep
from freshline.model.documents.decision import Decision
from freshline.model.documents.event import Event, EventDetail
from freshline.model.documents.installation import AuditEntry, Page, Process, Tally
from freshline.model.documents.listing import About
from freshline.model.documents.run import LogLine, Run, RunDetail
from freshline.store.operations.audit import acting
from freshline.store.read.history import MAX_LIMIT
from freshline.store.store import Store
from freshline.unmatched import unknown_types

router = APIRouter(tags=["history"], route_class=UnvalidatedRoute)
Id = Annotated[str, Path(max_length=100, description="An id; for an event also a position.")]
Type = Annotated[str | None, Query(max_length=200, description="A type, or its prefix: `asset`.")]
Position = Annotated[int, Query(ge=0, lt=2**63, description="The position of the last known event.")]
Many = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Maximum number of entries.")]
Line = Annotated[int, Query(ge=-1, lt=2**31, description="The number of the last known line.")]


@router.get("/runs", response_model=models.Page[models.Run])
def list_runs(
    _: RequireRead,
    store: StoreDep,
    within: Within,
    *,
    limit: Limit = 50,
    after: After = None,
    status: Annotated[models.RunStatus | None, Query(description="Status of the runs.")] = None,
    workflow: Pattern = None,
    asset: Pattern = None,
    project: Project = None,
    partitionKey: Partition = None,
    trigger: Annotated[models.TriggerType | None, Query(description="The type of the trigger.")] = None,
) -> Page[Run]:
    """List runs. `since` and `until` apply to `queuedAt`; `asset` selects the workflows that produce it.

    `workflow` and `asset` may be patterns. `partitionKey` is a partition of the one workflow or asset.
    """
    _one_of("workflow", workflow, "asset", asset)
    about = {"asset": asset, "project": project, "partition": partitionKey}
    return page(
        limit,
        lambda most: store.reader.runs(most, after, status, workflow, **about, trigger=trigger, period=within),
    )


@router.get("/runs/summary", response_model=models.Tally)
def count_runs(
    _: RequireRead,
    store: StoreDep,
    within: Within,
    *,
    status: Annotated[models.RunStatus | None, Query(description="Status of the runs.")] = None,
    workflow: Pattern = None,
    asset: Pattern = None,
    project: Project = None,
    partitionKey: Partition = None,
    trigger: Annotated[models.TriggerType | None, Query(description="The type of the trigger.")] = None,
) -> Tally:
    """Count the runs that `GET /runs` lists with these filters on all of its pages, by status: up to 10,000."""
    _one_of("workflow", workflow, "asset", asset)
    return store.reader.run_tally(status, trigger, About(workflow, asset, project, partitionKey), period=within)


@router.get("/runs/{runId}", response_model=models.RunDetail)
def show_run(_: RequireRead, store: StoreDep, runId: Id) -> RunDetail:
    """Return one run, with its steps and published outputs."""
    return store.reader.run(runId)


@router.get("/runs/{runId}/logs", response_model=models.Page[models.LogLine])
def list_logs(
    _: RequireRead,
    store: StoreDep,
    within: Within,
    *,
    runId: Id,
    limit: Limit = 1000,
    after: Line = -1,
    tail: Annotated[int | None, Query(ge=1, le=MAX_PAGE, description="Only the last lines, this many.")] = None,
) -> Page[LogLine]:
    """List the log lines of a run, in order."""
    if tail is not None:
        return {"items": store.reader.logs(runId, after, tail=tail, period=within), "next": None}
    return page(limit, lambda most: store.reader.logs(runId, after, most, period=within), "line")


@router.post("/runs/{runId}/cancel", response_model=models.RunDetail, status_code=202)
def cancel_run(
    actor: RequireOperate, store: StoreDep, runId: Id, body: models.CancelRequest | None = None
) -> RunDetail:
    """Cancel a run: immediately if it is queued, through its worker if it is running. An ended run does not change."""
    found = store.reader.find_run(runId)
    with acting(actor):
        store.operations.cancel(found, (body or models.CancelRequest()).reason)
    return store.reader.run(found)


@router.get("/events", response_model=models.Page[models.Event], responses={200: {"content": {stream.MEDIA: {}}}})
def list_events(
    actor: RequireRead,
    request: Request,
    store: StoreDep,
    within: Within,
    *,
    limit: Limit = 50,
    after: After = None,
    type: Type = None,  # noqa: A002
    subject: Pattern = None,
    asset: Pattern = None,
    project: Project = None,
    partitionKey: Partition = None,
    last: Annotated[
        str | None, Header(alias="Last-Event-ID", max_length=100, description="The position of the last known event.")
    ] = None,
) -> Any:
    """List events, newest first. With `Accept: text/event-stream`, stream new events, oldest first.

    A stream starts after the event that `Last-Event-ID` or `after` names, otherwise now. `asset` selects events about
    the asset and about the workflow that produces it. `subject` and `asset` may be patterns. A `type` that no event has
    is named in `Freshline-Warning`.
    """
    _one_of("subject", subject, "asset", asset)
    warn(request, unknown_types([type] if type else ()))
    if accepts_stream(request):
        if project is not None:
            raise RequestError(422, "invalid-request", "'project' is for the listing; a stream takes 'asset'")
        wanted = stream.Wanted(type, subject, asset, partitionKey)
        if partitionKey is not None:  # an error must be the answer, not the end of a stream
            store.reader.events(1, None, type, subject, asset=asset, partition=partitionKey)
        return access(request).streams.open(actor.name, _position(store, last or after), wanted)
    about = {"asset": asset, "project": project, "partition": partitionKey}
    return page(limit, lambda most: store.reader.events(most, after, type, subject, **about, period=within))


@router.get("/events/summary", response_model=models.Tally)
def count_events(
    _: RequireRead,
    store: StoreDep,
    within: Within,
    *,
    type: Type = None,  # noqa: A002
    subject: Pattern = None,
    asset: Pattern = None,
    project: Project = None,
    partitionKey: Partition = None,
) -> Tally:
    """Count the events that `GET /events` lists with these filters on all of its pages, by type: up to 10,000."""
    _one_of("subject", subject, "asset", asset)
    return store.reader.event_tally(type, subject, About(None, asset, project, partitionKey), period=within)


@router.get("/events/{eventId}", response_model=models.EventDetail)
def show_event(_: RequireRead, store: StoreDep, eventId: Id, limit: Many = 100) -> EventDetail:
    """Return one event by id or position, and its outcome for each affected workflow, up to `limit`."""
    return store.reader.event(eventId, limit)


@router.get("/feed", response_model=models.Page[models.Event])
def list_feed(
    _: RequireRead,
    request: Request,
    store: StoreDep,
    *,
    position: Position = 0,
    type: Type = None,  # noqa: A002
    subject: Name = None,
    asset: Name = None,
    partitionKey: Partition = None,
) -> Page[Event]:
    """List up to 1,000 events after a position, oldest first.

    `next` is the position to continue from, or null after the newest event. Positions follow the order of
    commits, so a reader that continues from `next` misses none.
    """
    _one_of("subject", subject, "asset", asset)
    warn(request, unknown_types([type] if type else ()))
    found = store.reader.events_since(position, type, subject, asset=asset, partition=partitionKey)
    return {"items": found, "next": str(found[-1]["position"]) if found else None}


@router.get("/decisions", response_model=models.Page[models.Decision])
def list_decisions(
    _: RequireRead,
    store: StoreDep,
    within: Within,
    *,
    limit: Limit = 50,
    after: After = None,
    workflow: Pattern = None,
    asset: Pattern = None,
    project: Project = None,
    partitionKey: Partition = None,
    outcome: Annotated[models.Outcome | None, Query(description="Outcome of the decisions.")] = None,
) -> Page[Decision]:
    """List decisions: run, hold, skip or error, with reason and evidence."""
    _one_of("workflow", workflow, "asset", asset)
    about = {"project": project, "partition": partitionKey, "outcome": outcome}
    return page(limit, lambda most: store.reader.decisions(most, after, workflow, asset, **about, period=within))


@router.get("/decisions/summary", response_model=models.Tally)
def count_decisions(
    _: RequireRead,
    store: StoreDep,
    within: Within,
    *,
    workflow: Pattern = None,
    asset: Pattern = None,
    project: Project = None,
    partitionKey: Partition = None,
    outcome: Annotated[models.Outcome | None, Query(description="Outcome of the decisions.")] = None,
) -> Tally:
    """Count the decisions that `GET /decisions` lists with these filters on all pages, by outcome: up to 10,000."""
    _one_of("workflow", workflow, "asset", asset)
    return store.reader.decision_tally(outcome, About(workflow, asset, project, partitionKey), period=within)


@router.get("/workers", response_model=models.Page[models.Worker])
def list_workers(_: RequireRead, store: StoreDep, limit: Many = 100, stopped: Flag = False) -> Page[Process]:
    """List registered processes, up to `limit`; with `stopped`, also those that have ended."""
    return {"items": store.reader.workers(limit, stopped=stopped), "next": None}


@router.get("/audit", response_model=models.Page[models.AuditEntry])
def list_changes(
    _: RequireAdmin, store: StoreDep, limit: Limit = 50, after: After = None, subject: Name = None
) -> Page[AuditEntry]:
    """List every change made by a user, through any interface: actor, action, and the state before and after."""
    return page(limit, lambda most: store.reader.audit(most, after, subject))


def _position(store: Store, known: str | None) -> int:
    """Return the position after which a stream starts. The event may have been pruned."""
    if known is None or not (known.isascii() and known.isdecimal()):
        return store.reader.position(known)
    return min(int(known), 2**63 - 1)


def accepts_stream(request: Request) -> bool:
    """Return whether the client accepts a stream."""
    return stream.MEDIA in request.headers.get("accept", "")


def _one_of(name: str, value: str | None, other_name: str, other: str | None) -> None:
    if value is not None and other is not None:
        raise RequestError(422, "invalid-request", f"'{name}' and '{other_name}' exclude each other; give one of them")
