"""Retention in a simulation: partitions lose their data when they are old enough (docs/semantics.md#R13.14)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from freshline.model.state import reference
from freshline.partitions.calendar import BEGINNING
from freshline.reading import earlier, is_kept
from freshline.simulation.catalogue import Member

if TYPE_CHECKING:
    from freshline.simulation.simulator import Simulator


class Retirement:
    """When the next partition of each asset is removed."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._graph = simulator.catalogue.graph
        self._due: list[tuple[datetime, str]] = []

    def start(self) -> None:
        """Remove what is too old already at the next `fire`, and plan the rest."""
        for asset_id in self._simulator.catalogue.assets:
            retained = self._graph.retained(asset_id)
            first = self._graph.partitioning(asset_id).next_end_after(BEGINNING)
            if retained is not None and first is not None:
                heapq.heappush(self._due, (first + retained, asset_id))

    def next(self) -> datetime | None:
        """Return when the next partition is removed."""
        return self._due[0][0] if self._due else None

    def fire(self) -> None:
        """Remove the data of all partitions that are old enough, and evaluate what read them."""
        simulator = self._simulator
        while self._due and self._due[0][0] <= simulator.now:
            since, asset_id = heapq.heappop(self._due)
            for number in set(self._concerned(asset_id, since)):
                simulator.note(number)
            retained = self._graph.retained(asset_id)
            assert retained is not None  # noqa: S101 - only such assets are planned
            ends = self._graph.partitioning(asset_id).next_end_after(earlier(simulator.now, retained))
            if ends is not None:
                heapq.heappush(self._due, (ends + retained, asset_id))

    def has_removed(self, member: Member) -> bool:
        """Return whether a member is a partition whose data is removed: its run publishes nothing."""
        key, now = member.partition_key, self._simulator.now
        return bool(key) and not all(is_kept(self._graph, one, key, now) for one in member.outputs)

    def _concerned(self, asset_id: str, since: datetime) -> Iterator[int]:
        """Remove data. Yield the partitions that were removed, and those that read one whose time ended."""
        simulator, now = self._simulator, self._simulator.now
        partitioning, retained = self._graph.partitioning(asset_id), self._graph.retained(asset_id)
        assert retained is not None  # noqa: S101 - only such assets are planned
        ended = partitioning.ended(earlier(since, retained), earlier(now, retained))
        producer = self._graph.producer(asset_id)
        for key in list(partitioning.keys(ended, now, simulator.reading.known_keys(asset_id))):
            name = reference(asset_id, key)
            yield from simulator.reading.consumers(name, now)
            if name in simulator.assets and simulator.assets[name].retire(now) and producer is not None:
                simulator.timers.stop(simulator.assets[name])
                yield simulator.catalogue.member(producer, key).id
