"""The groups of reports of a simulation that have not settled (docs/semantics.md#R4.7)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from freshline.decide.report_groups import Members, Settling
from freshline.errors import UsageError

if TYPE_CHECKING:
    from freshline.simulation.simulator import Simulator


class ReportGroups:
    """Sources that were reported together, until everything below them is at rest."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._groups: list[Members] = []
        self._awaited = Settling(simulator.catalogue.graph).awaited

    @property
    def open(self) -> tuple[Members, ...]:
        """The groups that have not settled."""
        return tuple(self._groups)

    def load(self, groups: Iterable[Members]) -> None:
        """Let these be the groups that have not settled."""
        self._set(list(groups))

    def add(self, references: Iterable[str]) -> None:
        """Add a group. It replaces those of which it has all members."""
        members = tuple(sorted(references))
        if len(set(members)) < max(2, len(members)):
            raise UsageError(f"{', '.join(members) or 'nothing'} cannot be reported together; name different sources")
        self._set([*(one for one in self._groups if not set(one) <= set(members)), members])

    def settle(self) -> None:
        """End the groups that have settled."""
        if self._groups:
            self._set([one for one in self._groups if self._moves(one)])

    def _set(self, groups: list[Members]) -> None:
        if groups != self._groups:
            self._groups = groups
            self._simulator.motion.link(groups)

    def _moves(self, members: Members) -> bool:
        simulator = self._simulator
        due = {simulator.catalogue.members[one].workflow_id for one in simulator.considerations.due()}
        return any(one in due or self._is_moving(one) for one in self._awaited(members))

    def _is_moving(self, workflow_id: int) -> bool:
        """Return whether a workflow is in motion, or may be: see `store.evaluation.report_groups`."""
        simulator = self._simulator
        graph = simulator.catalogue.graph
        unknown = graph.is_mapped(workflow_id) and not simulator.catalogue.workflows[workflow_id].policy.automatic
        return unknown or simulator.motion.is_moving(workflow_id)
