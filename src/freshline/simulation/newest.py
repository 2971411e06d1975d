"""The newest partitions in a simulation: those of inputs that have data, and dynamic keys by when they were seen."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from freshline.graph import Graph
from freshline.partitions.mapping import NO_VALUES, Values
from freshline.partitions.newest import newest_values
from freshline.partitions.partitioning import Newness


class SimulatedNewest:
    """The newest partitions at one moment. `known`: when dynamic keys were first seen. `data`: the keys with data."""

    def __init__(
        self,
        graph: Graph,
        now: datetime,
        known: Mapping[str, Mapping[str, datetime]],
        data: Mapping[str, Mapping[str, None]],
    ) -> None:
        self._graph = graph
        self._now = now
        self._known = known
        self._data = data

    def values(self, asset_id: str, workflow_id: int) -> Values:
        """Return the newest values with data of each dimension that the workflow reads by `latest`."""
        mapping = self._graph.mapping(asset_id, workflow_id)
        if mapping is None or not mapping.latest:
            return NO_VALUES
        partitioning = self._graph.partitioning(asset_id)
        found = (key for key in self._data.get(asset_id, ()) if partitioning.defines(key))
        come = [key for key in found if partitioning.has_come(key, self._now)]
        return newest_values(mapping, come, self._known.get(asset_id, {}))

    def newness(self, asset_id: str, key: str) -> Newness:
        """Return when a dynamic key was the newest: from when it was first seen until the next one was."""
        known = self._known.get(asset_id, {})
        keys = list(known)
        following = keys[keys.index(key) + 1 :] if key in known else []
        return Newness(known.get(key), known[following[0]] if following else None)

    def seen_last(self, asset_id: str, at: datetime) -> str | None:
        """Return the dynamic key that was the newest at a time."""
        known = self._known.get(asset_id, {})
        return next((key for key in reversed(list(known)) if known[key] <= at), None)
