"""Models of the graph as a picture: places and states."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from freshline.api.models.base import ResponseBody, State


class GraphLayout(ResponseBody):
    """The places of all assets, for drawing. Ids come once, and numbers stand for them.

    A node is `[assetId, layer, order, kind, workflowSlug, group]`, by id; an edge leads from the number of one node to
    that of another, in a later layer, and ends with 1 if a change triggers a run.
    """

    epoch: int
    layers: int
    groups: list[str]
    nodes: list[tuple[str, int, int, Literal["asset", "source"], str | None, int]]
    edges: list[tuple[int, int, Literal[0, 1]]]


class AssetStates(ResponseBody):
    """The states of assets by id. Events after `position` are about later changes."""

    at: datetime
    position: int
    epoch: int
    states: dict[str, State]
