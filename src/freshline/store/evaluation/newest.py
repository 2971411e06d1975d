"""The newest partitions in the store: of inputs those that have data, and dynamic keys by when they were first seen."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from freshline.graph import Graph
from freshline.partitions.axis import LatestSlice
from freshline.partitions.dimensions import Dimensions
from freshline.partitions.key_partitionings import DynamicKeys, FixedKeys
from freshline.partitions.mapping import NO_VALUES, Values
from freshline.partitions.partitioning import Newness
from freshline.partitions.time_partitioning import TimePartitioning
from freshline.store.db.database import Connection
from freshline.store.db.queries import load

SQL = load("partitions")


class StoredNewest:
    """The newest partitions of inputs. Each is read once, from an index.

    Values of a dynamic dimension are the exception: those of the asset are read.
    """

    def __init__(self, connection: Connection, graph: Graph, now: datetime) -> None:
        self._connection = connection
        self._graph = graph
        self._now = now
        self._found: dict[tuple[str, int, LatestSlice], Sequence[str]] = {}

    def values(self, asset_id: str, workflow_id: int) -> Values:
        """Return the newest values with data of each dimension that the workflow reads by `latest`."""
        mapping = self._graph.mapping(asset_id, workflow_id)
        if mapping is None or not mapping.latest:
            return NO_VALUES
        return {place: self._values(asset_id, place, axis) for place, axis in mapping.latest.items()}

    def newness(self, asset_id: str, key: str) -> Newness:
        """Return when a dynamic key was the newest: from when it was first seen until the next one was."""
        row = self._connection.execute(SQL["seen_from"], {"asset": asset_id, "key": key}).fetchone()
        return Newness(row["since"], row["until"]) if row else Newness()

    def seen_last(self, asset_id: str, at: datetime) -> str | None:
        """Return the dynamic key that was the newest at a time."""
        row = self._connection.execute(SQL["seen_last"], {"asset": asset_id, "at": at}).fetchone()
        return row["partition_key"] if row else None

    def _values(self, asset_id: str, place: int, axis: LatestSlice) -> Sequence[str]:
        known = asset_id, place, axis
        if known not in self._found:
            self._found[known] = self._read(asset_id, place, axis)
        return self._found[known]

    def _read(self, asset_id: str, place: int, axis: LatestSlice) -> Sequence[str]:
        whole = not isinstance(self._graph.partitioning(asset_id), Dimensions)
        where: dict[str, object] = {"asset": asset_id, "count": axis.count, "place": place + 1}
        if isinstance(axis.input, TimePartitioning):
            last = axis.input.newest_key(self._now)
            if last is None:
                return []
            return self._rows(
                "newest_times" if whole else "newest_in_dimension", first=axis.input.start, last=last, **where
            )
        if whole and isinstance(axis.input, DynamicKeys):
            return self._rows("newest_seen", **where)
        if whole and isinstance(axis.input, FixedKeys):
            rows = self._connection.execute(SQL["with_data"], {**where, "keys": list(axis.input.values)}).fetchall()
            found = {row["partition_key"] for row in rows}
        else:
            seen = self._rows("dimension_values", **where)
            if not isinstance(axis.input, FixedKeys):
                return seen[: axis.count]
            found = set(seen)
        return [value for value in axis.input.values if value in found][: axis.count]

    def _rows(self, query: str, **where: object) -> list[str]:
        return [row["value"] for row in self._connection.execute(SQL[query], where).fetchall()]
