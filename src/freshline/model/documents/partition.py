"""The partitions of an asset: how many are in which state, and which."""

from __future__ import annotations

from typing import NamedTuple, TypedDict

from freshline.model.enums import PartitionState
from freshline.model.json import Json

# Equal states in a row: of `count` partitions, `from` the oldest `to` the newest.
PartitionRange = TypedDict("PartitionRange", {"state": str, "from": str, "to": str, "count": int})


class WantedPartitions(NamedTuple):
    """The partitions that a user asks for: one by its key, or those in a range and a state.

    `after`: the last key of the previous page.
    """

    first: str | None = None
    last: str | None = None
    state: PartitionState | None = None
    after: str | None = None
    key: str | None = None


class PartitionSummary(TypedDict):
    """How many partitions of an asset exist, and how many of them are in which state."""

    total: int
    counts: dict[str, int]


class AssetPartitions(PartitionSummary):
    """A page of the states of an asset's partitions, the newest first. `next` is the value of `after` for the next.

    An asset without partitions has one with an empty key, and `partitioning` is None.
    """

    assetId: str
    at: str
    partitioning: Json | None
    newest: str | None
    items: list[PartitionRange]
    next: str | None
