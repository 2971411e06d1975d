"""Simulators that start from stored states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from freshline.decide.batch import with_defaults
from freshline.decide.report_groups import Members
from freshline.model.enums import Reason
from freshline.model.policy import Policy
from freshline.model.state import ActiveRun, Head, Input, State
from freshline.settings import Settings
from freshline.simulation.catalogue import Catalogue, Member
from freshline.simulation.observer import Observer
from freshline.simulation.records import Asset, Run
from freshline.simulation.simulator import Simulator
from freshline.simulation.timers import Due
from freshline.simulation.workflow_state import WorkflowState

Known = tuple[Policy, State]


@dataclass(frozen=True, slots=True)
class Facts:
    """The stored facts about some workflows and all their ancestors at one moment.

    `due`: when outputs expire. `jobs`: the fingerprint of the job of each active run, by run id.
    `groups`: of reports, those that have not settled.
    """

    now: datetime
    known: Sequence[Known]
    due: Mapping[str, Due] = field(default_factory=dict)
    jobs: Mapping[str, str] = field(default_factory=dict)
    groups: Sequence[Members] = ()


def restore(facts: Facts, settings: Settings, observer: Observer | None = None) -> Simulator:
    """Return a simulator with these states. All workflows are due for evaluation."""
    given, now = facts.known, facts.now
    simulator = Simulator(
        Catalogue(_member(policy, state, settings) for policy, state in given), now, observer=observer
    )
    for _, state in given:
        for one in state.inputs:
            _put_head(simulator.assets[one.asset_id], one.head)
            _put_changes(simulator.assets[one.asset_id], one)
        for output in state.outputs:
            _put_head(simulator.assets[output.asset_id], output.head)
            asset = simulator.assets[output.asset_id]
            asset.expired, asset.foreign, asset.made_by = output.expired, output.foreign, output.made_by
        simulator.workflow_states[state.workflow_id] = _workflow_state(state)
        if state.active is not None:
            simulator.put_run(_run(state, state.active, facts))
        simulator.note(state.workflow_id)
    for _, state in given:
        _put_sources(simulator, state)
    simulator.report_groups.load(facts.groups)
    simulator.load_timers({one: due for one, due in facts.due.items() if one in simulator.assets})
    return simulator


def _member(policy: Policy, state: State, settings: Settings) -> Member:
    return Member(
        id=state.workflow_id,
        slug=state.slug,
        policy=with_defaults(policy, settings),
        job_fingerprint=state.job_fingerprint,
        inputs=tuple(one.asset_id for one in state.inputs),
        outputs=tuple(one.asset_id for one in state.outputs),
        version=state.version,
    )


def _put_head(asset: Asset, head: Head | None) -> None:
    if head is not None and (asset.head is None or asset.head.run_id is None):
        asset.head = head  # the head of an input names its run, the head of an output does not


def _put_changes(asset: Asset, one: Input) -> None:
    """Record the unconsumed changes of one reader. Only the first and the last of them matter."""
    if one.pending is None or one.head is None:
        return
    found = dict(zip(asset.sequences, asset.times, strict=True))
    found.setdefault(one.head.sequence, one.pending.last_at)
    found[one.consumed.sequence + 1 if one.consumed else 1] = one.pending.first_at
    asset.sequences = sorted(found)
    asset.times = [found[sequence] for sequence in asset.sequences]
    asset.origins = list(asset.times)
    asset.versions = [one.head.data_version] * len(asset.times)  # what is between them has no partitions that read it


def _put_sources(simulator: Simulator, state: State) -> None:
    """Let the outputs descend from the current heads of the sources, but from older ones of those that moved since."""
    heads = {one: simulator.assets[one].head for one in simulator.catalogue.sources}
    now = {one: head.sequence for one, head in heads.items() if head}
    sources = now | {one: moved.before for one, moved in state.sources.items() if one in now}
    for output in state.outputs:
        simulator.assets[output.asset_id].sources = sources


def _workflow_state(state: State) -> WorkflowState:
    return WorkflowState(
        applied_at=state.applied_at,
        consumed_versions={i.asset_id: i.consumed for i in state.inputs if i.consumed},
        mixed=state.mixed,
        fingerprint=state.succeeded_fingerprint,
        succeeded_at=state.succeeded_at,
        started_at=state.started_at,
        success_cause=state.success_cause,
        cause_repeats=state.cause_repeats,
        failures=state.failures,
        canceled=state.canceled,
        paused=state.paused,
        paused_until=state.paused_until,
        waited=state.waited,
        declined=state.declined,
    )


def _run(state: State, active: ActiveRun, facts: Facts) -> Run:
    return Run(
        id=active.id,
        workflow_id=state.workflow_id,
        slug=state.slug,
        version=active.version,
        trigger={"type": active.trigger_type, "reason": Reason.IN_FLIGHT},
        pins=active.pins,
        cause="",
        mixed=active.mixed,
        queued_at=facts.now,
        status=active.status,
        attempt=active.attempt,
        job_fingerprint=facts.jobs.get(active.id),
    )
