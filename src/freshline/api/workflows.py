"""`/workflows`: definitions, policy status, and manual operations."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Request, Response

from freshline.api import models
from freshline.api.access import access
from freshline.api.auth import RequireOperate, RequireRead
from freshline.api.middleware import warn
from freshline.api.pagination import After, Limit, UnvalidatedRoute, page, tagged
from freshline.api.problems import RequestError
from freshline.model.documents.installation import Page
from freshline.model.documents.run import RunDetail
from freshline.model.documents.status import WorkflowStatus
from freshline.model.documents.workflow import PolicyStatus
from freshline.store.operations.audit import acting
from freshline.store.store import Store
from freshline.unmatched import unknown_parameters

router = APIRouter(tags=["workflows"], route_class=UnvalidatedRoute)
Slug = Annotated[str, Path(max_length=200, description="Slug of the workflow.")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="A repeated key has no further effect; with other data it is an error.",
    ),
]


def store(request: Request) -> Store:
    """Return the store of the application."""
    return access(request).store


StoreDep = Annotated[Store, Depends(store)]


@router.get("/workflows", response_model=models.Page[models.WorkflowState])
def list_workflows(_: RequireRead, store: StoreDep, limit: Limit = 50, after: After = None) -> Page[WorkflowStatus]:
    """List workflows by slug, with their state."""
    return page(limit, lambda most: store.reader.workflows(most, after), "slug")


@router.get("/workflows/{slug}", response_model=models.Workflow)
def show_workflow(_: RequireRead, store: StoreDep, request: Request, slug: Slug) -> Response:
    """Return the current definition of a workflow, as declared."""
    return tagged(request, store.reader.workflow(slug))


@router.get("/workflows/{slug}/auto-materialize", response_model=models.PolicyStatus)
def show_policy(_: RequireRead, store: StoreDep, slug: Slug) -> PolicyStatus:
    """Return the status of automatic runs: the last one, the next one with its reason, and the current hold."""
    return store.reader.policy(slug)


@router.post("/workflows/{slug}/run", response_model=models.RunDetail, status_code=202)
def run_workflow(
    actor: RequireOperate,
    request: Request,
    store: StoreDep,
    *,
    slug: Slug,
    body: models.RunRequest | None = None,
    key: Key = None,
) -> RunDetail:
    """Queue a manual run on the current data.

    A repeated key returns the same run; with other parameters it is an error. A full refresh that would drop rows which
    cannot be computed again needs `confirm`. A parameter that the workflow does not declare is passed to its jobs, and
    named in the header `Freshline-Warning`.
    """
    wanted = body or models.RunRequest()
    with acting(actor):
        run_id = store.operations.request_run(
            slug,
            wanted.parameters,
            key=one_key(key, wanted.key),
            partition_key=_key(store, slug, wanted.partition_key),
            full_refresh=wanted.full_refresh,
            confirm=wanted.confirm,
        )
    if wanted.parameters:
        warn(request, unknown_parameters(slug, wanted.parameters, store.reader.workflow(slug)["definition"]))
    return store.reader.run(run_id)


@router.post("/workflows/{slug}/pause", response_model=models.WorkflowState)
def pause_workflow(
    actor: RequireOperate, store: StoreDep, slug: Slug, body: models.PauseRequest | None = None
) -> WorkflowStatus:
    """Pause automatic runs. After the pause one run catches up with all changes."""
    with acting(actor):
        store.operations.pause(slug, body.until if body else None)
    return _state(store, slug)


@router.post("/workflows/{slug}/resume", response_model=models.WorkflowState)
def resume_workflow(
    actor: RequireOperate, store: StoreDep, slug: Slug, _: models.EmptyBody | None = None
) -> WorkflowStatus:
    """Resume automatic runs."""
    with acting(actor):
        store.operations.resume(slug)
    return _state(store, slug)


@router.post("/workflows/{slug}/reset", response_model=models.WorkflowState)
def reset_workflow(
    actor: RequireOperate, store: StoreDep, slug: Slug, _: models.EmptyBody | None = None
) -> WorkflowStatus:
    """End the cooldown, close the breaker and clear a cancellation."""
    with acting(actor):
        store.operations.reset(slug)
    return _state(store, slug)


def one_key(header: str | None, field: str | None) -> str | None:
    """Return the idempotency key of a request, from its header or its body. The body allows any character."""
    if header is not None and field is not None and header != field:
        raise RequestError(422, "two-keys", "the header Idempotency-Key and the field 'key' differ; give one of them")
    return header if header is not None else field


def _key(store: Store, slug: str, given: str | dict[str, str]) -> str:
    """Return a partition key as text. All outputs of a workflow have the same partitions."""
    if isinstance(given, str):
        return given
    produced = store.reader.workflow(slug)["produces"]
    if not produced:
        raise RequestError(422, "invalid-request", f"workflow '{slug}' produces nothing, so it has no partitions")
    return store.reader.partition_key(produced[0], given)


def _state(store: Store, slug: str) -> WorkflowStatus:
    return store.reader.status(slug)["workflows"][0]
