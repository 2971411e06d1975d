"""Callbacks for plans, metrics and tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from freshline.decide import Decision
from freshline.simulation.catalogue import Member
from freshline.simulation.records import Asset, Run

if TYPE_CHECKING:
    from freshline.simulation.simulator import Simulator


class Observer:
    """Base class of observers. Its methods do nothing, and none may change the simulation."""

    def decided(self, simulator: Simulator, member: Member, decision: Decision, run: Run | None) -> None:
        """Handle a decision. `run`: the run that was queued or renewed."""

    def published(self, simulator: Simulator, asset: Asset, run: Run | None, *, changed: bool) -> None:
        """Handle a new snapshot. `run` is None for a reported source."""

    def ended(self, simulator: Simulator, run: Run) -> None:
        """Handle the end of a run: success, failure or cancellation."""

    def overdue(self, simulator: Simulator, asset: Asset) -> None:
        """Handle an asset that became older than its `maxAge`."""
