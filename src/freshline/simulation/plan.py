"""What would run, in which order, if an asset changed now or definitions were applied, and what would not and why.

Runs take no time and all succeed with changed output; a hold that has to be waited for stays one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from freshline.decide import Decision
from freshline.model.enums import Outcome, Reason, RunStatus
from freshline.model.moment import iso
from freshline.simulation.catalogue import Catalogue, Member
from freshline.simulation.observer import Observer
from freshline.simulation.records import Run
from freshline.simulation.simulator import Simulator

ASSUMES = (
    "every run succeeds at once, those that are queued or running now included",
    "every run changes its output; equal output would stop the wave there",
    "one run after the other, the most urgent first",
)
MOST_ROUNDS = 100_000
LEAST_URGENT = 2**31


@dataclass(slots=True)
class Queued(Observer):
    """The runs that a world queued, in order, each with the decision behind it."""

    runs: list[tuple[Run, Decision]] = field(default_factory=list)

    def decided(self, simulator: Simulator, member: Member, decision: Decision, run: Run | None) -> None:  # noqa: ARG002
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

    active: tuple[str, ...] = ()
    runs: tuple[Planned, ...] = ()
    held: tuple[Planned, ...] = ()
    cut: tuple[Planned, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As `freshline plan --json` and `freshline apply --json` show it."""
        lists = {"runs": self.runs, "held": self.held, "cut": self.cut}
        told = {name: [one.as_json() for one in found] for name, found in lists.items()}
        return {"assumes": list(ASSUMES), "active": list(self.active), **told}


def plan(simulator: Simulator, asset_id: str) -> Plan:
    """Let the asset change in the simulator, and everything that follows happen at this moment."""
    below = simulator.catalogue.graph.descendants(simulator.catalogue.asset(asset_id))
    simulator.change(asset_id, f"changed:{iso(simulator.now)}")
    return _play(simulator, below, news={asset_id})


def flood(simulator: Simulator, touched: Collection[str], freed: Iterable[str] = ()) -> Plan:
    """What an apply starts in the world that it leaves: the runs of the workflows that it touched and of all below.

    `freed`: assets that it took from their workflows, whose readers may have waited for those.
    """
    members = simulator.catalogue.members
    own = [number for number, member in members.items() if member.slug in touched]
    made = [asset_id for number in own for asset_id in members[number].outputs]
    reached = {*own, *simulator.catalogue.graph.descendants(*made, *freed)}
    ordered = sorted(reached, key=simulator.catalogue.rank.__getitem__)
    return _play(simulator, ordered, told=set(own))


def _play(
    simulator: Simulator,
    reached: Sequence[int],
    *,
    told: AbstractSet[int] = frozenset(),
    news: AbstractSet[str] = frozenset(),
) -> Plan:
    """Let everything happen that is left to do at this moment, and tell what of it concerns those who are `reached`.

    Who does not run is told if it is to be `told` in any case, if it reads `news`, or if something runs or is stuck
    above it.
    """
    queued = simulator.observer = Queued()
    active = tuple(sorted(run.slug for run in simulator.active.values()))
    _finish(simulator)
    within = set(reached)
    ran = [(run, decision) for run, decision in queued.runs if run.workflow_id in within]
    runs = tuple(
        Planned(simulator.catalogue.members[run.workflow_id], decision, number, run)
        for number, (run, decision) in enumerate(ran, start=1)
    )
    done = {run.workflow_id for run, _ in ran}
    left = _left(simulator, [one for one in reached if one not in done], told, news, done)
    held = tuple(one for one in left if one.decision.outcome is not Outcome.SKIP)
    return Plan(active, runs, held, tuple(one for one in left if one.decision.outcome is Outcome.SKIP))


def _finish(simulator: Simulator) -> None:
    """Runs end in the order of their urgency, until nothing is left to do at this moment."""
    for run in [run for run in simulator.active.values() if run.status is RunStatus.RUNNING]:
        simulator.succeed(run)
    below = _best_below(simulator.catalogue)
    for _ in range(MOST_ROUNDS):
        simulator.settle()
        batch = _most_urgent(simulator, below)
        if not batch:
            return
        for run in batch:
            simulator.begin(run)
            simulator.succeed(run)


def _most_urgent(simulator: Simulator, below: Mapping[int, int]) -> list[Run]:
    """The run that comes next, and those after it which nothing that comes of them could change or overtake.

    One by one would end in the same, but whoever waits for them all would look again after each.
    """
    members, level = simulator.catalogue.members, simulator.catalogue.graph.level
    queued = [run for run in simulator.active.values() if run.status is RunStatus.QUEUED]
    batch: list[Run] = []
    overtaking = LEAST_URGENT
    for run in sorted(queued, key=lambda run: members[run.workflow_id].policy.priority):
        later = members[run.workflow_id].policy.priority > overtaking
        if batch and (later or level(run.workflow_id) != level(batch[0].workflow_id)):
            break
        batch.append(run)
        overtaking = min(overtaking, below.get(run.workflow_id, LEAST_URGENT))
    return batch


def _best_below(catalogue: Catalogue) -> dict[int, int]:
    """The best priority among the descendants of each workflow that has any."""
    best: dict[int, int] = {}
    for number in sorted(catalogue.members, key=catalogue.rank.__getitem__, reverse=True):
        mine = min(catalogue.members[number].policy.priority, best.get(number, LEAST_URGENT))
        for parent in catalogue.graph.parents(number):
            best[parent] = min(mine, best.get(parent, LEAST_URGENT))
    return best


def _left(
    simulator: Simulator, rest: Iterable[int], told: AbstractSet[int], news: AbstractSet[str], done: AbstractSet[int]
) -> list[Planned]:
    """Who does not run, ancestors first, and why: a decision, or those above that keep what is new from it."""
    found, stuck = [], set[int]()
    members, graph = simulator.catalogue.members, simulator.catalogue.graph
    for number in rest:
        parents = set(graph.parents(number))
        stirred = bool(parents & (done | stuck)) or not news.isdisjoint(graph.inputs(number))
        if not (stirred or number in told):
            continue
        decision = simulator.peek(members[number])
        if stirred or decision.outcome is not Outcome.SKIP:
            stuck.add(number)
        above = sorted(members[one].slug for one in parents & stuck)
        behind = tuple(above) if decision.reason is Reason.UP_TO_DATE else ()
        found.append(Planned(members[number], decision, behind=behind))
    return found
