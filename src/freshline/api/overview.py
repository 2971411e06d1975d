"""`/overview`, `/status` and `/about`: the state of the installation, and the version of the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from freshline import __version__
from freshline.api import MAX_PAGE, models
from freshline.api.auth import RequireRead
from freshline.api.models.base import State
from freshline.api.pagination import Limit, Name, UnvalidatedRoute
from freshline.api.workflows import StoreDep
from freshline.model.documents.asset import Name as NamedThing
from freshline.model.documents.installation import About, Page
from freshline.model.documents.overview import Overview
from freshline.model.documents.status import Status, WantedStatus
from freshline.model.enums import AssetState
from freshline.store.read.session import json_value

Prefix = Annotated[str, Query(max_length=200, description="The beginning of the names.")]
States = Annotated[Sequence[State], Query(description="Only assets in one of these states.")]
ProjectName = Annotated[str | None, Query(max_length=200, description="Only assets of this project.")]
After = Annotated[str | None, Query(max_length=300, description="Continue after this asset.")]
MostAssets = Annotated[int | None, Query(ge=1, le=100_000, description="Maximum number of assets.")]
Everything = Annotated[bool, Query(alias="all", description="Also return retired assets.")]
router = APIRouter(tags=["overview"], route_class=UnvalidatedRoute)


@router.get("/status", response_model=models.Status)
def show_status(  # noqa: PLR0917 - each is a query parameter
    _: RequireRead,
    store: StoreDep,
    name: Name = None,
    everything: Everything = False,
    state: States = (),
    project: ProjectName = None,
    after: After = None,
    limit: MostAssets = None,
) -> Status:
    """Return all assets and workflows; with `name`, one asset or workflow, or the assets that a pattern matches.

    An asset takes precedence over a workflow. Retired assets are left out, unless one is named or `all` is true. The
    workflows are those of the returned assets. `summary` counts all assets that `name` and `project` stand for.
    """
    return store.reader.status(name, WantedStatus(everything, frozenset(map(AssetState, state)), project, after, limit))


@router.get("/overview", response_model=models.Overview)
def show_overview(_: RequireRead, store: StoreDep) -> Overview:
    """Return how many assets are fresh, and the causes that explain the others, with what to do about each.

    Up to 20 causes: those that a user ends first, and of these the ones that explain most assets.
    """
    return store.reader.overview()


@router.get("/names", response_model=models.Page[models.NamedThing])
def list_names(_: RequireRead, store: StoreDep, prefix: Prefix = "", limit: Limit = MAX_PAGE) -> Page[NamedThing]:
    """List the names of assets and of workflows that are not retired, for completion."""
    return {"items": store.reader.names(prefix, limit), "next": None}


@router.get("/about", response_model=models.About)
def show_about(_: RequireRead, store: StoreDep) -> About:
    """Return the version of the API and the time of the database."""
    reader = store.reader
    return {"version": __version__, "at": json_value(reader.now()), "position": reader.position()}
