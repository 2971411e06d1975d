"""Partitions that come to exist with the time, and those that exist at the start (docs/semantics.md#R13.2)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from freshline.model.state import reference
from freshline.partitions.selection import EVERYTHING

if TYPE_CHECKING:
    from freshline.simulation.records import Asset
    from freshline.simulation.simulator import Simulator


class Arrivals:
    """The times at which the next partitions come to exist: one per workflow, and one per source."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._next: list[tuple[datetime, str]] = []

    def existing(self) -> Iterator[str]:
        """Yield the references of all partitions of assets that exist, except dynamic ones."""
        graph = self._simulator.catalogue.graph
        for asset_id in self._simulator.catalogue.assets:
            partitioning = graph.partitioning(asset_id)
            for key in partitioning.keys(EVERYTHING, self._simulator.now) if partitioning.columns else ():
                yield reference(asset_id, key)

    def members(self) -> Iterator[int]:
        """Yield the existing partitions of workflows."""
        for workflow_id in self._partitioned():
            yield from self._simulator.reading.partitions(workflow_id, EVERYTHING, self._simulator.now)

    def start(self) -> None:
        """Await the next partitions of workflows and of sources, and let freshness clocks run."""
        for workflow_id in self._partitioned():
            self.move_clocks(workflow_id)
            self._await_key(self._simulator.catalogue.workflows[workflow_id].outputs[0])
        for asset_id in self._simulator.catalogue.sources:
            self._await_key(asset_id)

    def _partitioned(self) -> list[int]:
        catalogue = self._simulator.catalogue
        return [one for one in catalogue.workflows if catalogue.graph.partitioning_of(one).columns]

    def _await_key(self, asset_id: str) -> None:
        at = self._simulator.catalogue.graph.partitioning(asset_id).next_key_at(self._simulator.now)
        if at is not None:
            heapq.heappush(self._next, (at, asset_id))

    def add(self) -> None:
        """Evaluate all partitions whose time has come, and those that read one whose time has come with its data."""
        simulator = self._simulator
        while self._next and self._next[0][0] <= simulator.now:
            since, asset_id = heapq.heappop(self._next)
            producer = simulator.catalogue.graph.producer(asset_id)
            if producer is not None:
                self.move_clocks(producer)
            for number in simulator.reading.arrived(asset_id, since, simulator.now, self._has_data):
                simulator.note(number)
            self._await_key(asset_id)

    def next(self) -> datetime | None:
        """Return when the next partition comes to exist."""
        return self._next[0][0] if self._next else None

    def _has_data(self, name: str) -> bool:
        found = self._simulator.assets.get(name)
        return found is not None and found.current is not None

    def is_clocked(self, asset: Asset) -> bool:
        """Return whether the freshness clock of an asset runs: of its partitions, only those of the newest ones do."""
        if not asset.partition_key:
            return True
        freshness, now = self._simulator.catalogue.freshness.get(asset.asset_id), self._simulator.now
        return freshness is not None and asset.id in self._simulator.reading.newest(
            asset.asset_id, now, freshness.partitions
        )

    def move_clocks(self, workflow_id: int) -> None:
        """Let the freshness clocks of the newest partitions run, and no others."""
        simulator = self._simulator
        for asset_id in simulator.catalogue.workflows[workflow_id].outputs:
            freshness = simulator.catalogue.freshness.get(asset_id)
            if freshness is not None:
                newest = simulator.reading.newest(asset_id, simulator.now, freshness.partitions)
                simulator.timers.keep(asset_id, [simulator.asset(one).id for one in newest], simulator.now)
