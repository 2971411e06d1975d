"""The workflows in motion of a simulation, as bit sets.

The results are those of `decide.motion.Walk`. A simulated week needs them at every evaluation, so ancestors and roots
are integers whose bits are workflows and sources. They are computed once per catalogue.
"""

from __future__ import annotations

from collections.abc import Iterable

from freshline.decide.motion import Moving, Walk, strongest
from freshline.decide.partition_motion import MovingPart, PartitionWalk
from freshline.partitions.selection import Selection
from freshline.reading import Newest, selection_of
from freshline.simulation.catalogue import Catalogue


def motion_of(catalogue: Catalogue) -> Motion | PartitionMotion:
    """Return the motion of a simulation at rest."""
    return PartitionMotion(catalogue) if catalogue.graph.partitioned else Motion(catalogue)


class PartitionMotion(PartitionWalk):
    """A search among partitions that is kept for the whole simulation. Members are partitions of workflows."""

    def __init__(self, catalogue: Catalogue) -> None:
        super().__init__(catalogue.graph, {})
        self._catalogue = catalogue
        self._floor = 0

    def settle(self, workflow_id: int, moving: Moving | None, partition_key: str = "") -> None:  # noqa: ARG002
        """Record the motion of a member; None: it is at rest."""
        member = self._catalogue.members[workflow_id]
        super().settle(member.workflow_id, moving, member.partition_key)

    def rest(self, resting: Iterable[tuple[int, Selection, Moving]]) -> None:
        """Record the partitions of backfills whose turn has not come, and forget all others."""
        parts = {one: [part for part in known if part.key is not None] for one, known in self._parts.items()}
        for workflow_id, selection, moving in resting:
            parts.setdefault(workflow_id, []).append(MovingPart(selection, moving))
        self._parts = parts

    def is_moving(self, workflow_id: int) -> bool:
        """Return whether any partition of the workflow is in motion."""
        return bool(self._parts.get(workflow_id))

    def set_newest(self, newest: Newest) -> None:
        """Let the newest partitions with data be these. What was found with others is forgotten."""
        found = {edge: newest.values(*edge) for edge in self._graph.latest_edges}
        if found != self._newest:
            self._newest = found
            self._above.clear()
            self._roots.clear()
            self._computed.clear()

    def above(self, workflow_id: int) -> bool:
        """Return whether an ancestor of the member is in motion."""
        member = self._catalogue.members[workflow_id]
        own = selection_of(self._graph, member.workflow_id, member.partition_key)
        return any(self._moving(self._feeding(member.workflow_id, own)))


class Motion(Walk):
    """A walk that is kept for the whole simulation. `settle` records every change."""

    def __init__(self, catalogue: Catalogue) -> None:
        super().__init__(catalogue.graph, {})
        self._reach = _Reach(catalogue)
        self._bits = 0
        self._own: dict[int, Moving] = {}
        self._resting: dict[int, Moving] = {}

    def settle(self, workflow_id: int, moving: Moving | None, partition_key: str = "") -> None:  # noqa: ARG002
        """Record the motion of a workflow; None: it is at rest."""
        if moving is not None:
            self._own[workflow_id] = moving
        else:
            self._own.pop(workflow_id, None)
        self._record(workflow_id)

    def rest(self, resting: Iterable[tuple[int, Selection, Moving]]) -> None:
        """Record the workflows of backfills whose turn has not come, and forget all others."""
        before, self._resting = self._resting, {}
        for workflow_id, _, moving in resting:
            self._resting[workflow_id] = strongest(self._resting.get(workflow_id), moving)
        for workflow_id in {*before, *self._resting}:
            self._record(workflow_id)

    def _record(self, workflow_id: int) -> None:
        own, resting = self._own.get(workflow_id), self._resting.get(workflow_id)
        moving = strongest(own, resting) if resting is not None else own
        if moving is None:
            self._motion.pop(workflow_id, None)
            self._bits &= ~self._reach.bit[workflow_id]
        else:
            self._motion[workflow_id] = moving
            self._bits |= self._reach.bit[workflow_id]

    def is_moving(self, workflow_id: int) -> bool:
        """Return whether the workflow is in motion."""
        return workflow_id in self._motion

    def above(self, workflow_id: int) -> bool:
        """Return whether an ancestor of the workflow is in motion."""
        return bool(self._reach.above[workflow_id] & self._bits)

    def _moving_above(self, start: int) -> frozenset[int]:
        bits = self._reach.above[start] & self._bits
        found = set()
        while bits:
            lowest = bits & -bits
            found.add(self._reach.workflow[lowest.bit_length() - 1])
            bits ^= lowest
        return frozenset(found)

    def _shares_root(self, ancestor: int, changed: tuple[str, ...]) -> bool:
        reach = self._reach
        origins = reach.origins[ancestor]
        return any(origins & reach.roots[one] and not self._descends(one, ancestor) for one in changed)

    def _descends(self, asset_id: str, ancestor: int) -> bool:
        producer = self._graph.producer(asset_id)
        return producer is not None and (
            producer == ancestor or bool(self._reach.above[producer] & self._reach.bit[ancestor])
        )


class _Reach:
    """Ancestors of workflows and roots of assets as bits."""

    def __init__(self, catalogue: Catalogue) -> None:
        graph = catalogue.graph
        self.workflow = sorted(catalogue.rank, key=lambda one: catalogue.rank[one])
        self.bit = {workflow_id: 1 << place for place, workflow_id in enumerate(self.workflow)}
        self.above: dict[int, int] = {}
        for workflow_id in self.workflow:
            bits = 0
            for parent in graph.parents(workflow_id):
                bits |= self.bit[parent] | self.above[parent]
            self.above[workflow_id] = bits
        self.roots = {asset_id: graph.roots(asset_id) for asset_id in catalogue.assets}
        self.origins = {workflow_id: graph.origins(workflow_id) for workflow_id in self.workflow}

    def __deepcopy__(self, _memo: object) -> _Reach:
        """Return the object itself: it depends only on the catalogue."""
        return self
