"""What would run, in which order, if an asset changed now, and what would not and why.

Runs take no time and all succeed with changed output; a hold that has to be waited for stays one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from freshline.decide import Decision
from freshline.decide.decision import iso
from freshline.model.words import Outcome, Reason, RunStatus
from freshline.world.catalogue import Member
from freshline.world.records import Run
from freshline.world.world import Witness, World

ASSUMES = (
    "every run succeeds at once, those that are queued or running now included",
    "every run changes its output; equal output would stop the wave there",
)
MOST_RUNS = 100_000


@dataclass(slots=True)
class Queued(Witness):
    """The runs that a world queued, in order, each with the decision behind it."""

    runs: list[tuple[Run, Decision]] = field(default_factory=list)

    def decided(self, world: World, member: Member, decision: Decision, run: Run | None) -> None:  # noqa: ARG002
        """A run was queued."""
        if decision.run is not None and run is not None:
            self.runs.append((run, decision))


@dataclass(frozen=True, slots=True)
class Planned:
    """One workflow below the asset: a run with its place in the order, or the decision that keeps it from running."""

    member: Member
    decision: Decision
    order: int | None = None
    run: Run | None = None
    behind: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As `freshline plan --json` shows it."""
        told: dict[str, Any] = {
            "workflowSlug": self.member.slug,
            "assets": list(self.member.outputs),
            "outcome": self.decision.outcome,
            "reason": self.decision.reason,
        }
        if self.run is not None:
            upstream = [one["assetId"] for one in self.run.trigger.get("upstream", ())]
            return {"order": self.order, **told, "upstream": upstream, "mixed": self.run.mixed}
        until = self.decision.blocks_until if self.decision.outcome is Outcome.HOLD else None
        return {**told, "until": iso(until), "behind": list(self.behind), "evidence": self.decision.evidence}


@dataclass(frozen=True, slots=True)
class Plan:
    """`active`: what is queued or running already. `runs`: in order. `held`: later. `cut`: not by themselves."""

    asset_id: str
    active: tuple[str, ...]
    runs: tuple[Planned, ...]
    held: tuple[Planned, ...]
    cut: tuple[Planned, ...]


def plan(world: World, asset_id: str) -> Plan:
    """Let the asset change in the world, and everything that follows happen at this moment."""
    queued = Queued()
    world.witness = queued
    active = tuple(sorted(run.slug for run in world.active.values()))
    below = world.catalogue.graph.descendants(world.catalogue.asset(asset_id))
    world.change(asset_id, f"changed:{iso(world.now)}")
    _finish(world)
    ran = [(run, decision) for run, decision in queued.runs if run.workflow_id in set(below)]
    done = {run.workflow_id for run, _ in ran}
    runs = tuple(
        Planned(world.catalogue.members[run.workflow_id], decision, number, run)
        for number, (run, decision) in enumerate(ran, start=1)
    )
    rest = [_left(world, workflow_id, below, done) for workflow_id in below if workflow_id not in done]
    return Plan(
        asset_id,
        active,
        runs,
        tuple(one for one in rest if one.decision.outcome is not Outcome.SKIP),
        tuple(one for one in rest if one.decision.outcome is Outcome.SKIP),
    )


def _finish(world: World) -> None:
    """Runs end in the order of their urgency, until nothing is left to do at this moment."""
    for run in [run for run in world.active.values() if run.status is RunStatus.RUNNING]:
        world.succeed(run)
    for _ in range(MOST_RUNS):
        world.settle()
        claimed = world.claim()
        if claimed is None:
            return
        world.succeed(claimed)


def _left(world: World, workflow_id: int, below: Iterable[int], done: set[int]) -> Planned:
    """Why it does not run. Nothing new to read: those between it and the asset that do not run either."""
    member = world.catalogue.members[workflow_id]
    decision = world.peek(member)
    blocked = set(below) - done
    behind = [world.catalogue.members[one].slug for one in world.catalogue.graph.parents(workflow_id) if one in blocked]
    shows = decision.reason is Reason.UP_TO_DATE
    return Planned(member, decision, behind=tuple(sorted(set(behind))) if shows else ())
