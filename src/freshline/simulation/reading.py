"""The partitions of a simulation: what members read, who reads a partition, and which exist at a moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from freshline import reading
from freshline.model.state import reference, split_reference
from freshline.partitions.calendar import END
from freshline.partitions.declaration import Affects
from freshline.partitions.selection import Selection
from freshline.reading import Change, Expected
from freshline.simulation.catalogue import Catalogue, Member
from freshline.simulation.newest import SimulatedNewest


class Reading:
    """The edges between partitions. Dynamic keys are known in the order in which they were first seen."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._partitioned = catalogue.graph.partitioned
        self._known: dict[str, dict[str, datetime]] = {}
        self._data: dict[str, dict[str, None]] = {}

    def inputs(self, member: Member, now: datetime) -> Iterable[str]:
        """Return the references that a member reads, whether they have data or not."""
        if not self._partitioned:
            return member.inputs
        return [reference(one.asset_id, key) for one in self.expected(member, now) for key in one.keys]

    def expected(self, member: Member, now: datetime) -> Iterator[Expected]:
        """Yield, per input, the partitions that a member reads if they have data."""
        graph = self._catalogue.graph
        unit = member.workflow_id, member.partition_key
        return reading.expected_inputs(graph, unit, now, self.known_keys, newest=self.newest_at(now))

    def consumers(self, name: str, now: datetime, *, first: bool = False) -> Sequence[int]:
        """Return the members that a change of a partition concerns. `first`: it had no data before."""
        graph = self._catalogue.graph
        if not self._partitioned:
            return graph.consumers(name)
        change = Change(*split_reference(name), now, first)
        found = reading.readers(graph, change, now, self.known_keys, self.newest_at(now))
        return [self._catalogue.member(*one).id for one in found]

    def newest_at(self, now: datetime) -> SimulatedNewest:
        """Return the newest partitions at a time."""
        return SimulatedNewest(self._catalogue.graph, now, self._known, self._data)

    def partitions(self, workflow_id: int, selection: Selection, now: datetime) -> list[int]:
        """Return the existing partitions of a workflow that are selected, as members."""
        keys = reading.existing(self._catalogue.graph, workflow_id, selection, now, self.known_keys)
        return [self._catalogue.member(workflow_id, key).id for key in keys]

    def newest(self, asset_id: str, now: datetime, count: int) -> list[str]:
        """Return the references of the newest partitions of an asset."""
        partitioning, known = self._catalogue.graph.partitioning(asset_id), self.known_keys(asset_id)
        newest = partitioning.newest(now, known, count)
        return [reference(asset_id, key) for key in partitioning.keys(newest, now, known)]

    def is_newest(self, member: Member, now: datetime) -> bool:
        """Return whether no partition of the workflow is newer."""
        return reading.is_newest(
            self._catalogue.graph, (member.workflow_id, member.partition_key), now, self.known_keys
        )

    def later(self, workflow_id: int, key: str, now: datetime, most: int) -> int:
        """Return how many partitions follow from one in a chain of predecessors."""
        return reading.later_in_chain(self._catalogue.graph, (workflow_id, key), now, self.known_keys, most)

    def arrived(self, asset_id: str, since: datetime, now: datetime, has_data: Callable[[str], bool]) -> Iterator[int]:
        """Yield the partitions of a workflow that came to exist; of a source, those that read one that has data."""
        partitioning, producer = self._catalogue.graph.partitioning(asset_id), self._catalogue.graph.producer(asset_id)
        selection = partitioning.arrived(since, now)
        if producer is not None:
            yield from self.partitions(producer, selection, now)
            return
        for key in partitioning.keys(selection, now, self.known_keys(asset_id)):
            if has_data(reference(asset_id, key)):
                yield from self.consumers(reference(asset_id, key), now)

    def grows(self, member: Member, now: datetime) -> bool:
        """Return whether a partition that comes to exist can be one that the member misses. No event says so."""
        graph, workflow_id = self._catalogue.graph, member.workflow_id
        own = reading.selection_of(graph, workflow_id, member.partition_key)
        for asset_id in graph.inputs(workflow_id):
            following = graph.partitioning(asset_id).next_key_at(now)
            if following is None or graph.requirement(asset_id, workflow_id).percent == 0:
                continue
            coming = graph.partitioning(asset_id).arrived(following, END)
            if not graph.read_of(asset_id, workflow_id, own).intersection(coming).is_empty:
                return True
        return False

    def concerns_all(self, asset_id: str) -> bool:
        """Return whether changes of an asset concern all partitions that read it."""
        graph = self._catalogue.graph
        mappings = (graph.mapping(asset_id, one) for one in graph.consumers(asset_id))
        return all(one is None or one.affects is Affects.ALL for one in mappings)

    def produced(self, name: str, now: datetime) -> None:
        """Let a partition have data."""
        if self._partitioned:
            asset_id, key = split_reference(name)
            self._data.setdefault(asset_id, {})[key] = None
            self.see(name, now)

    def see(self, name: str, now: datetime) -> None:
        """Let a dynamic key be known, and those of the consumers that appear because of it."""
        asset_id, key = split_reference(name)
        graph = self._catalogue.graph
        if graph.partitioning(asset_id).is_dynamic:
            if key in self._known.get(asset_id, ()):
                return
            self._known.setdefault(asset_id, {})[key] = now
        for workflow_id in graph.consumers(asset_id):
            mapping = graph.mapping(asset_id, workflow_id)
            for appearing in mapping.appearing(key) if mapping else ():
                for output in self._catalogue.workflows[workflow_id].outputs:
                    self.see(f"{output}@{appearing}", now)

    def known_keys(self, asset_id: str) -> dict[str, datetime]:
        """Return the dynamic keys of an asset that were seen, in their order."""
        return self._known.get(asset_id, {})
