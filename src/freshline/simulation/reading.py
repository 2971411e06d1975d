"""The partitions of a simulation: what members read, who reads a partition, and which exist at a moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from freshline import reading
from freshline.model.state import reference, split_reference
from freshline.partitions.selection import Selection
from freshline.reading import Expected
from freshline.simulation.catalogue import Catalogue, Member


class Reading:
    """The edges between partitions. Dynamic keys are known in the order in which they were first seen."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._partitioned = catalogue.graph.partitioned
        self._known: dict[str, dict[str, None]] = {}

    def inputs(self, member: Member, now: datetime) -> Iterable[str]:
        """Return the references that a member reads, whether they have data or not."""
        if not self._partitioned:
            return member.inputs
        return [reference(one.asset_id, key) for one in self.expected(member, now) for key in one.keys]

    def expected(self, member: Member, now: datetime) -> Iterator[Expected]:
        """Yield, per input, the partitions that a member reads if they have data."""
        graph = self._catalogue.graph
        return reading.expected_inputs(graph, (member.workflow_id, member.partition_key), now, self._keys)

    def consumers(self, name: str, now: datetime) -> Sequence[int]:
        """Return the members that read a partition."""
        graph = self._catalogue.graph
        if not self._partitioned:
            return graph.consumers(name)
        found = reading.readers(graph, *split_reference(name), now, self._keys)
        return [self._catalogue.member(*one).id for one in found]

    def partitions(self, workflow_id: int, selection: Selection, now: datetime) -> list[int]:
        """Return the existing partitions of a workflow that are selected, as members."""
        keys = reading.existing(self._catalogue.graph, workflow_id, selection, now, self._keys)
        return [self._catalogue.member(workflow_id, key).id for key in keys]

    def newest(self, asset_id: str, now: datetime, count: int) -> list[str]:
        """Return the references of the newest partitions of an asset."""
        partitioning, known = self._catalogue.graph.partitioning(asset_id), self._keys(asset_id)
        newest = partitioning.newest(now, known, count)
        return [reference(asset_id, key) for key in partitioning.keys(newest, now, known)]

    def arrived(self, asset_id: str, since: datetime, now: datetime, has_data: Callable[[str], bool]) -> Iterator[int]:
        """Yield the partitions of a workflow that came to exist; of a source, those that read one that has data."""
        partitioning, producer = self._catalogue.graph.partitioning(asset_id), self._catalogue.graph.producer(asset_id)
        selection = partitioning.arrived(since, now)
        if producer is not None:
            yield from self.partitions(producer, selection, now)
            return
        for key in partitioning.keys(selection, now, self._keys(asset_id)):
            if has_data(reference(asset_id, key)):
                yield from self.consumers(reference(asset_id, key), now)

    def see(self, name: str) -> None:
        """Let a dynamic key be known, and those of the consumers that appear because of it."""
        if not self._partitioned:
            return
        asset_id, key = split_reference(name)
        graph = self._catalogue.graph
        if graph.partitioning(asset_id).is_dynamic:
            if key in self._known.get(asset_id, ()):
                return
            self._known.setdefault(asset_id, {})[key] = None
        for workflow_id in graph.consumers(asset_id):
            mapping = graph.mapping(asset_id, workflow_id)
            for appearing in mapping.appearing(key) if mapping else ():
                for output in self._catalogue.workflows[workflow_id].outputs:
                    self.see(f"{output}@{appearing}")

    def _keys(self, asset_id: str) -> dict[str, None]:
        return self._known.get(asset_id, {})
