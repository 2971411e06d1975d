"""Descriptions of workflows and partitions for messages of tests: what each one does now, and why."""

from __future__ import annotations

from collections.abc import Iterator

from freshline.decide import Decision
from freshline.model.enums import Outcome, Reason
from freshline.partitions.selection import EVERYTHING
from freshline.simulation.catalogue import Member
from freshline.simulation.simulator import Simulator


def shown_members(simulator: Simulator) -> Iterator[Member]:
    """Yield all workflows, and of those with partitions the ones that are not up to date."""
    catalogue = simulator.catalogue
    for _, workflow in sorted(catalogue.by_slug.items()):
        if not catalogue.graph.partitioning_of(workflow.id).columns:
            yield workflow
            continue
        for number in sorted(simulator.reading.partitions(workflow.id, EVERYTHING, simulator.now)):
            member = catalogue.members[number]
            if number in simulator.active or simulator.peek(member).reason is not Reason.UP_TO_DATE:
                yield member


def described(simulator: Simulator, member: Member) -> str:
    """Describe the run or the decision of a workflow, with the reason."""
    run = simulator.active.get(member.id)
    if run is not None:
        return f"{run.status} ({run.reason}{', mixed' if run.mixed else ''})"
    decision = simulator.peek(member)
    if decision.outcome is Outcome.SKIP:
        return f"skipped ({decision.reason})"
    until = (
        f" until {decision.next_evaluation:%Y-%m-%d %H:%M:%S}"
        if decision.blocks_until and decision.next_evaluation
        else ""
    )
    return f"held ({decision.reason}{_detail(decision)}{until})"


def _detail(decision: Decision) -> str:
    evidence = decision.evidence
    names = evidence.get("missing") or evidence.get("waitingFor")
    names = names or [one["workflowSlug"] for one in evidence.get("blockers", ())]
    return f": {', '.join(names)}" if names else ""
