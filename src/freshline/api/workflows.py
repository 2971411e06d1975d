"""`/workflows`: definitions, policy status, and a hand on their runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Request, Response

from freshline.api import models
from freshline.api.auth import Operating, Reading, access
from freshline.api.pagination import After, Limit, Plain, page, tagged
from freshline.api.problems import Refusal
from freshline.model.json import Json
from freshline.store.operations.audit import acting
from freshline.store.store import Store

router = APIRouter(tags=["workflows"], route_class=Plain)
Slug = Annotated[str, Path(max_length=200)]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key", min_length=1, max_length=200, description="The same key again has no other effect."
    ),
]


def store(request: Request) -> Store:
    """The store that the application was made with."""
    return access(request).store


Stored = Annotated[Store, Depends(store)]


@router.get("/workflows", response_model=models.Page[models.WorkflowState])
def list_workflows(_: Reading, store: Stored, limit: Limit = 50, after: After = None) -> Json:
    """Workflows by slug, and how they stand."""
    return page(limit, lambda most: store.reader.workflows(most, after), "slug")


@router.get("/workflows/{slug}", response_model=models.Workflow)
def show_workflow(_: Reading, store: Stored, request: Request, slug: Slug) -> Response:
    """A workflow's current definition, as declared."""
    return tagged(request, store.reader.workflow(slug))


@router.get("/workflows/{slug}/auto-materialize", response_model=models.PolicyStatus)
def show_policy(_: Reading, store: Stored, slug: Slug) -> Json:
    """How its automatic runs stand: the last one, the next one and why then, and what holds it."""
    return store.reader.policy(slug)


@router.post("/workflows/{slug}/run", response_model=models.RunDetail, status_code=202)
def run_workflow(
    actor: Operating, store: Stored, slug: Slug, asked: models.RunAsked | None = None, key: Key = None
) -> Json:
    """Queue a manual run on the data of this moment. The same key returns the same run."""
    wanted = asked or models.RunAsked()
    with acting(actor):
        run_id = store.operations.request_run(
            slug, wanted.parameters, key=one_key(key, wanted.key), full_refresh=wanted.full_refresh
        )
    run = store.reader.run(run_id)
    refresh = bool(run["trigger"].get("fullRefresh", False))
    if (run["parameters"], refresh) != (wanted.parameters, wanted.full_refresh):
        raise Refusal(422, "key-reused", "the key was used for a run with other parameters; choose another")
    return run


@router.post("/workflows/{slug}/pause", response_model=models.WorkflowState)
def pause_workflow(actor: Operating, store: Stored, slug: Slug, asked: models.PauseAsked | None = None) -> Json:
    """Hold its automatic runs. Nothing is lost: after the pause one run catches up."""
    with acting(actor):
        store.operations.pause(slug, asked.until if asked else None)
    return _state(store, slug)


@router.post("/workflows/{slug}/resume", response_model=models.WorkflowState)
def resume_workflow(actor: Operating, store: Stored, slug: Slug, _: models.Nothing | None = None) -> Json:
    """End a pause."""
    with acting(actor):
        store.operations.resume(slug)
    return _state(store, slug)


@router.post("/workflows/{slug}/reset", response_model=models.WorkflowState)
def reset_workflow(actor: Operating, store: Stored, slug: Slug, _: models.Nothing | None = None) -> Json:
    """End its cooldown, close its breaker and forget a cancellation."""
    with acting(actor):
        store.operations.reset(slug)
    return _state(store, slug)


def one_key(header: str | None, field: str | None) -> str | None:
    """The key of a request, which may stand in its header or in its body: there it may have any character."""
    if header is not None and field is not None and header != field:
        raise Refusal(422, "two-keys", "the header Idempotency-Key and the field 'key' differ; give one of them")
    return header if header is not None else field


def _state(store: Store, slug: str) -> Json:
    found: Json = store.reader.status(slug)["workflows"][0]
    return found
