"""The graph as a picture: the places of the assets, and their states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

Node = tuple[str, int, int, Literal["asset", "source"], str | None, int]
"""Asset id, layer, order within the layer, kind, slug of the workflow, number of the group."""
Edge = tuple[int, int, int]
"""Number of the input, number of what is made from it, and 1 if a change of the input triggers a run."""


class GraphPicture(TypedDict):
    """The places of all assets, by id. `groups`: the prefixes of their names."""

    epoch: int
    layers: int
    groups: Sequence[str]
    nodes: list[Node]
    edges: list[Edge]


class AssetStates(TypedDict):
    """The states of assets. A stream of events that begins at `position` misses no change of them."""

    at: str
    position: int
    epoch: int
    states: dict[str, str]
