"""Models of the graph as a picture: places and states."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from freshline.api.models.base import ResponseBody, State


class GraphLayout(ResponseBody):
    """The places of all assets, for drawing. Ids come once, and numbers stand for them.

    A node is `[assetId, layer, order, kind, workflowSlug, group]`, by id; an edge leads from the number of one node to
    that of another, in a later layer, and ends with 1 if a change triggers a run.
    """

    epoch: int
    layers: int
    groups: list[str]
    # Not tuples: what is generated from their schema, clients and tests, reads `prefixItems` in different ways.
    nodes: list[Annotated[list[str | int | None], Field(min_length=6, max_length=6)]]
    edges: list[Annotated[list[int], Field(min_length=3, max_length=3)]]


class AssetStates(ResponseBody):
    """The states of assets by id. Events after `position` are about later changes."""

    at: datetime
    position: int
    epoch: int
    states: dict[str, State]
