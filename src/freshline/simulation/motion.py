"""The workflows in motion of a simulation, as bit sets.

The results are those of `decide.motion.Walk`. A simulated week needs them at every evaluation, so ancestors and roots
are integers whose bits are workflows and sources. They are computed once per catalogue.
"""

from __future__ import annotations

from freshline.decide.motion import Moving, Walk
from freshline.decide.partition_motion import PartitionWalk
from freshline.reading import selection_of
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

    def settle(self, workflow_id: int, moving: Moving | None, partition_key: str = "") -> None:  # noqa: ARG002
        """Record the motion of a workflow; None: it is at rest."""
        if moving is None:
            self._motion.pop(workflow_id, None)
            self._bits &= ~self._reach.bit[workflow_id]
        else:
            self._motion[workflow_id] = moving
            self._bits |= self._reach.bit[workflow_id]

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

    def _could_mix(self, ancestor: int, changed: tuple[str, ...]) -> bool:
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
