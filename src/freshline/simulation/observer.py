"""Who watches a simulator: plans, metrics and tests are told what happens, and change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from freshline.decide import Decision
from freshline.simulation.catalogue import Member
from freshline.simulation.records import Asset, Run

if TYPE_CHECKING:
    from freshline.simulation.simulator import Simulator


class Observer:
    """Is told what happens in a simulator. This one does not care."""

    def decided(self, simulator: Simulator, member: Member, decision: Decision, run: Run | None) -> None:
        """A workflow was looked at; `run`: the one that was queued or renewed."""

    def published(self, simulator: Simulator, asset: Asset, run: Run | None, *, changed: bool) -> None:
        """An asset has a new snapshot; no run: a source was reported."""

    def ended(self, simulator: Simulator, run: Run) -> None:
        """A run succeeded, failed or was canceled."""

    def overdue(self, simulator: Simulator, asset: Asset) -> None:
        """An asset is older than its `maxAge`."""
