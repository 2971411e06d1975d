"""Which partitions a member reads, who reads a partition, and which partitions exist at a moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from freshline.model.state import split_reference
from freshline.partitions.selection import EVERYTHING, Selection
from freshline.simulation.catalogue import Catalogue, Member


class Expected(NamedTuple):
    """What a member reads of one input. `outside`: it has no such partition by definition."""

    asset_id: str
    references: list[str]
    outside: bool


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
        return [one for expected in self.expected(member, now) for one in expected.references]

    def expected(self, member: Member, now: datetime) -> Iterator[Expected]:
        """Yield, per input, the partitions that a member reads if they have data."""
        graph = self._catalogue.graph
        own = self.selection(member)
        earlier = graph.own_input(member.workflow_id)
        for asset_id in (*member.inputs, *((earlier,) if earlier else ())):
            partitioning = graph.partitioning(asset_id)
            if not partitioning.columns:
                yield Expected(asset_id, [asset_id], outside=False)
                continue
            read = graph.read_of(asset_id, member.workflow_id, own)
            keys = partitioning.keys(read, now, self._known.get(asset_id, ()), newest_first=False)
            yield Expected(asset_id, [f"{asset_id}@{key}" for key in keys], outside=read.is_empty)

    def consumers(self, reference: str, now: datetime) -> Sequence[int]:
        """Return the members that read a partition."""
        graph = self._catalogue.graph
        if not self._partitioned:
            return graph.consumers(reference)
        asset_id, key = split_reference(reference)
        found: list[int] = []
        producer = graph.producer(asset_id)
        own = (producer,) if producer is not None and graph.own_input(producer) == asset_id else ()
        for workflow_id in (*graph.consumers(asset_id), *own):
            if workflow_id in self._catalogue.members:
                found.append(workflow_id)
                continue
            mapping = graph.mapping(asset_id, workflow_id)
            fed = EVERYTHING if mapping is None or mapping.latest else mapping.down(key)
            found.extend(self.partitions(workflow_id, fed, now))
        return found

    def partitions(self, workflow_id: int, selection: Selection, now: datetime) -> list[int]:
        """Return the existing partitions of a workflow that are selected, as members."""
        workflow = self._catalogue.workflows[workflow_id]
        known = self._known.get(workflow.outputs[0], ())
        keys = self._catalogue.graph.partitioning_of(workflow_id).keys(selection, now, known)
        return [self._catalogue.member(workflow_id, key).id for key in keys]

    def newest(self, workflow_id: int, now: datetime) -> list[int]:
        """Return the newest partitions of a workflow, as members."""
        workflow = self._catalogue.workflows[workflow_id]
        known = self._known.get(workflow.outputs[0], ())
        return self.partitions(workflow_id, self._catalogue.graph.partitioning_of(workflow_id).newest(now, known), now)

    def see(self, reference: str) -> None:
        """Let a dynamic key be known, and those of the consumers that have the same keys."""
        if not self._partitioned:
            return
        asset_id, key = split_reference(reference)
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

    def next_key_at(self, workflow_id: int, now: datetime) -> datetime | None:
        """Return when the next partition of a workflow comes to exist by itself."""
        return self._catalogue.graph.partitioning_of(workflow_id).next_key_at(now)

    def selection(self, member: Member) -> Selection:
        """Return the partition of a member as a selection."""
        if not member.partition_key:
            return EVERYTHING
        return self._catalogue.graph.partitioning_of(member.workflow_id).select([member.partition_key])
