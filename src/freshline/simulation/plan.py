"""Plans: the runs that a change of an asset or an apply would cause, in order, and the workflows that do not run.

Runs take no time, and all of them succeed with changed output. The plan goes on behind a debounce, as far as the
workflows that have not run yet. Any other hold that ends later stays a hold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime

from freshline.decide import Decision
from freshline.model.documents.decision import PlannedHold, PlannedRun, Wave
from freshline.model.documents.status import OlderCode
from freshline.model.enums import Outcome, Reason, RunStatus
from freshline.model.moment import iso
from freshline.model.state import reference
from freshline.simulation.catalogue import Catalogue, Member
from freshline.simulation.observer import Observer
from freshline.simulation.records import Run
from freshline.simulation.simulator import Simulator

ASSUMES = (
    "every run succeeds at once, those that are queued or running now included",
    "every run changes its output; equal output would stop the wave there",
    "one run after the other, the most urgent first; those behind a debounce when it ends",
)
MOST_ROUNDS = 100_000
MOST_MOMENTS = 1_000  # within one debounce, such as the expiries of a short ttl
LEAST_URGENT = 2**31


@dataclass(slots=True)
class QueuedRuns(Observer):
    """Records queued runs in order, each with its decision."""

    runs: list[tuple[Run, Decision]] = field(default_factory=list)

    def decided(self, simulator: Simulator, member: Member, decision: Decision, run: Run | None) -> None:  # noqa: ARG002
        """Record a queued run."""
        if decision.run is not None and run is not None:
            self.runs.append((run, decision))


@dataclass(frozen=True, slots=True)
class Planned:
    """One workflow of a plan: a run with its place in the order, or the decision not to run.

    `behind`: workflows above that keep the change from an up-to-date workflow. `not_before`: the end of the debounce
    that the run waits for; None if it starts at once.
    """

    member: Member
    decision: Decision
    order: int | None = None
    run: Run | None = None
    behind: tuple[str, ...] = ()
    not_before: datetime | None = None

    def run_json(self, run: Run) -> PlannedRun:
        """Return the form of a run in `freshline plan --json`."""
        return {
            "order": self.order,
            "notBefore": iso(self.not_before),
            "workflowSlug": self.member.slug,
            "partitionKey": run.partition_key,
            "assets": list(self.member.outputs),
            "outcome": self.decision.outcome,
            "reason": self.decision.reason,
            "upstream": [reference(one["assetId"], one["partitionKey"]) for one in run.trigger.get("upstream", ())],
            "mixed": run.mixed,
        }

    def hold_json(self) -> PlannedHold:
        """Return the form of a workflow that does not run in `freshline plan --json`."""
        until = self.decision.blocks_until if self.decision.outcome is Outcome.HOLD else None
        return {
            "workflowSlug": self.member.slug,
            "partitionKey": self.member.partition_key,
            "assets": list(self.member.outputs),
            "outcome": self.decision.outcome,
            "reason": self.decision.reason,
            "until": iso(until),
            "behind": list(self.behind),
            "evidence": self.decision.evidence,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """The result of a plan.

    `active`: runs that are queued or running already. `runs`: new runs, in order. `held`: workflows that would run
    later. `cut`: workflows that would not run. `reached`: the moment of these holds, which is the end of the last
    debounce. `expiries`: of an apply, when the data of assets whose freshness changes would expire, as text; None:
    never. `partitions`: of an apply, how many partitions of each workflow would run, a sentence each. `undecided`: the
    tables with rows of older code about which somebody has to decide; `questions`: that, and what is computed again.
    """

    active: tuple[str, ...] = ()
    runs: tuple[Planned, ...] = ()
    held: tuple[Planned, ...] = ()
    cut: tuple[Planned, ...] = ()
    reached: datetime | None = None
    expiries: Mapping[str, str | None] = field(default_factory=dict)
    partitions: Sequence[str] = ()
    questions: Sequence[str] = ()
    undecided: Mapping[str, OlderCode] = field(default_factory=dict)

    def as_json(self) -> Wave:
        """Return the form of `freshline plan --json` and `freshline apply --json`."""
        return {
            "assumes": list(ASSUMES),
            "active": list(self.active),
            "runs": [one.run_json(one.run) for one in self.runs if one.run is not None],
            "held": [one.hold_json() for one in self.held],
            "cut": [one.hold_json() for one in self.cut],
        }


def plan(simulator: Simulator, asset_id: str, partition_key: str = "") -> Plan:
    """Plan a change of the asset. It is applied to the simulator, with everything that follows at this moment."""
    below = simulator.catalogue.graph.descendants(simulator.catalogue.asset(asset_id))
    simulator.change(asset_id, f"changed:{iso(simulator.now)}", partition_key)
    return _run_wave(simulator, below, news={asset_id})


def plan_apply(simulator: Simulator, touched: Collection[str], freed: Iterable[str] = ()) -> Plan:
    """Plan the runs of the workflows that an apply touched, and of everything below them.

    `freed`: assets that the apply removed from their workflows. Their readers may have waited for those workflows.
    """
    members = simulator.catalogue.members
    own = [number for number, member in members.items() if member.slug in touched]
    made = [asset_id for number in own for asset_id in members[number].outputs]
    reached = {*own, *simulator.catalogue.graph.descendants(*made, *freed)}
    ordered = sorted(reached, key=simulator.catalogue.rank.__getitem__)
    return _run_wave(simulator, ordered, always=set(own))


def _run_wave(
    simulator: Simulator,
    reached: Sequence[int],
    *,
    always: AbstractSet[int] = frozenset(),
    news: AbstractSet[str] = frozenset(),
) -> Plan:
    """Run everything that is due at this moment, and plan the workflows that are `reached`.

    A workflow that does not run is listed if it is in `always`, if it reads one of `news`, or if a workflow above it
    runs or is listed as stuck.
    """
    queued = simulator.observer = QueuedRuns()
    active = tuple(sorted(run.slug for run in simulator.active.values()))
    within, began = set(reached), simulator.now
    _finish(simulator)
    while (end := _next_debounce(simulator, within - {run.workflow_id for run, _ in queued.runs})) is not None:
        _pass_time(simulator, end)
    ran = [
        (run, decision)
        for run, decision in queued.runs
        # What expires while a debounce lasts has nothing to do with the change.
        if run.workflow_id in within and (run.queued_at <= began or decision.reason is not Reason.EXPIRED)
    ]
    runs = tuple(
        Planned(
            simulator.catalogue.members[run.workflow_id],
            decision,
            number,
            run,
            not_before=run.queued_at if run.queued_at > began else None,
        )
        for number, (run, decision) in enumerate(ran, start=1)
    )
    done = {run.workflow_id for run, _ in ran}
    left = _left(simulator, [one for one in reached if one not in done], always, news, done)
    held = tuple(one for one in left if one.decision.outcome is not Outcome.SKIP)
    cut = tuple(one for one in left if one.decision.outcome is Outcome.SKIP)
    return Plan(active, runs, held, cut, simulator.now)


def _next_debounce(simulator: Simulator, waiting: AbstractSet[int]) -> datetime | None:
    """Return when the first debounce of these workflows ends; None if none of them debounces."""
    members = simulator.catalogue.members
    held = [one for one in waiting if simulator.considerations.hold_of(one) is Reason.DEBOUNCING]
    decisions = [simulator.peek(members[one]) for one in held]
    ends = [one.blocks_until for one in decisions if one.reason is Reason.DEBOUNCING and one.blocks_until is not None]
    return min(ends, default=None)


def _pass_time(simulator: Simulator, end: datetime) -> None:
    """Let time pass until a debounce ends. What starts on the way, as after a shorter hold, finishes at once too."""
    for _ in range(MOST_MOMENTS):
        moment = simulator.next_moment()
        if moment is None or moment >= end:
            break
        simulator.advance(moment)
        _finish(simulator)
    simulator.advance(end)
    _finish(simulator)


def _finish(simulator: Simulator) -> None:
    """Finish runs, most urgent first, until nothing is left to do at this moment."""
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
    """Return the next run, and the runs after it that no result of these runs can change or overtake.

    Finishing them one by one gives the same plan, but each waiting workflow would be evaluated after every run.
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
    """Return the best priority among the descendants of each workflow that has descendants."""
    best: dict[int, int] = {}
    for number in sorted(catalogue.members, key=catalogue.rank.__getitem__, reverse=True):
        mine = min(catalogue.members[number].policy.priority, best.get(number, LEAST_URGENT))
        for parent in catalogue.graph.parents(number):
            best[parent] = min(mine, best.get(parent, LEAST_URGENT))
    return best


def _left(
    simulator: Simulator, rest: Iterable[int], always: AbstractSet[int], news: AbstractSet[str], done: AbstractSet[int]
) -> list[Planned]:
    """Return the workflows that do not run, ancestors first, each with its decision."""
    found, stuck = [], set[int]()
    members, graph = simulator.catalogue.members, simulator.catalogue.graph
    for number in rest:
        parents = set(graph.parents(number))
        reached = bool(parents & (done | stuck)) or not news.isdisjoint(graph.inputs(number))
        if not (reached or number in always):
            continue
        decision = simulator.peek(members[number])
        if reached or decision.outcome is not Outcome.SKIP:
            stuck.add(number)
        above = sorted(members[one].slug for one in parents & stuck)
        behind = tuple(above) if decision.reason is Reason.UP_TO_DATE else ()
        found.append(Planned(members[number], decision, behind=behind))
    return found
