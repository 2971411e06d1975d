"""Lags of assets with partitions, and of those below them (docs/simulate.md).

The lag of a partition begins with the first change that its run is the first to read. Of a new partition it begins when
the partition could be computed: when it came to exist, or when the last of its inputs came. Only the newest partition
counts, as with freshness (docs/semantics.md#R13.7), and what a backfill computes never does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from freshline.model.enums import TriggerType
from freshline.model.state import split_reference
from freshline.simulation.catalogue import Catalogue, Member
from freshline.simulation.records import Asset, Run

if TYPE_CHECKING:
    from freshline.simulation.simulator import Simulator


class PartitionLags:
    """The changes of each partition: their sequences, and when the lag of each begins (None: it has none)."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._sequences: defaultdict[str, list[int]] = defaultdict(list)
        self._begins: defaultdict[str, list[float | None]] = defaultdict(list)

    def reported(self, asset: Asset, now: float) -> None:
        """Record a change from outside."""
        self._record(asset, now)

    def published(self, simulator: Simulator, asset: Asset, run: Run, *, changed: bool) -> float | None:
        """Record a publication, and return its lag; None: it has none."""
        member = self._catalogue.members[run.workflow_id]
        asked = run.trigger["type"] is TriggerType.BACKFILL
        begins = None if asked else self._begin_of(simulator, member, run.pins)
        if changed:
            self._record(asset, begins)
        if begins is None or not simulator.reading.is_newest(member, simulator.now):
            return None
        return simulator.now.timestamp() - begins

    def pending(self, simulator: Simulator) -> Iterator[tuple[str, float]]:
        """Yield the assets whose newest partition lacks a change, with the lag until now."""
        catalogue, now = self._catalogue, simulator.now
        late: dict[str, float] = {}
        for workflow_id in sorted(catalogue.workflows, key=catalogue.rank.__getitem__):
            workflow = catalogue.workflows[workflow_id]
            if not workflow.policy.automatic or not workflow.outputs:
                continue
            for name in simulator.reading.newest(workflow.outputs[0], now, 1):
                member = catalogue.member(workflow_id, split_reference(name)[1])
                begins = self._begin_of(simulator, member, list(simulator.reading.inputs(member, now)), late)
                if begins is not None and begins < now.timestamp():
                    late |= dict.fromkeys(simulator.outputs(member), begins)
        for name, begins in late.items():
            yield split_reference(name)[0], now.timestamp() - begins

    def _record(self, asset: Asset, begins: float | None) -> None:
        assert asset.head is not None  # noqa: S101 - it has just changed
        self._sequences[asset.id].append(asset.head.sequence)
        self._begins[asset.id].append(begins)

    def _begin_of(
        self, simulator: Simulator, member: Member, inputs: Iterable[str], late: dict[str, float] | None = None
    ) -> float | None:
        """Return when the lag of a run that reads these inputs begins. `late`: what is pending above."""
        consumed = simulator.workflow_state(member.id).consumed_versions
        triggering, found = member.policy.triggering, []
        for name in inputs:
            if triggering and split_reference(name)[0] not in triggering:
                continue
            known = consumed.get(name)
            begins = self._first_after(name, known.sequence if known else 0)
            if begins is None and late:
                begins = late.get(name)
            if begins is not None:
                found.append(begins)
        if not found:
            return None
        if simulator.workflow_state(member.id).succeeded_at is not None:
            return min(found)
        came = self._catalogue.graph.partitioning_of(member.workflow_id)
        at = came.comes_at(member.partition_key) if member.partition_key else None
        return max([*found, at.timestamp()] if at else found)

    def _first_after(self, name: str, sequence: int) -> float | None:
        sequences = self._sequences.get(name)
        if not sequences or sequences[-1] <= sequence:
            return None
        following = self._begins[name][bisect_right(sequences, sequence) :]
        return next((one for one in following if one is not None), None)


def plain_assets(catalogue: Catalogue) -> frozenset[str]:
    """Return the assets without partitions that are computed from such assets only."""
    graph = catalogue.graph
    found = {one for one in catalogue.sources if not graph.partitioning(one).columns}
    for workflow_id in sorted(catalogue.workflows, key=catalogue.rank.__getitem__):
        member = catalogue.workflows[workflow_id]
        if not graph.partitioning_of(workflow_id).columns and found.issuperset(member.inputs):
            found.update(member.outputs)
    return frozenset(found)
