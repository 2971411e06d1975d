"""`/assets/graph/layout` and `/assets/states`: the graph as a picture, for the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import StringConstraints

from freshline.api import models
from freshline.api.auth import RequireRead
from freshline.api.pagination import UnvalidatedRoute, tagged
from freshline.api.workflows import StoreDep
from freshline.model.documents.graph_view import AssetStates

MOST_ASSETS = 500
Assets = Annotated[
    Sequence[Annotated[str, StringConstraints(max_length=200)]],
    Query(alias="asset", max_length=MOST_ASSETS, description="Only these assets; it can be repeated. Default: all."),
]
router = APIRouter(tags=["assets"], route_class=UnvalidatedRoute)


@router.get("/assets/graph/layout", response_model=models.GraphLayout)
def show_layout(_: RequireRead, store: StoreDep, request: Request) -> Response:
    """Return where each asset is drawn: its layer, its order in the layer, and its group by the prefix of its name.

    It changes only when definitions change, and has an ETag.
    """
    return tagged(request, store.reader.graph_view.picture())


@router.get("/assets/states", response_model=models.AssetStates)
def list_states(_: RequireRead, store: StoreDep, assets: Assets = ()) -> AssetStates:
    """Return the state of every asset, or of the named ones, and the event position that they belong to.

    A stream of events that begins at `position` misses no change. Assets that do not exist are left out.
    """
    return store.reader.graph_view.states(assets or None)
