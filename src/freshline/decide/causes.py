"""Causes to run, found by comparing versions, never times (docs/semantics.md#R1.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from freshline.decide.motion import Walk
from freshline.decide.partition_motion import PartitionWalk
from freshline.model.backfill import Demand
from freshline.model.enums import Reason, When
from freshline.model.policy import Policy
from freshline.model.staleness import Staleness
from freshline.model.state import Blocker, Input, Output, State

BY_INPUT = frozenset({Reason.MISSING, Reason.UPSTREAM_UPDATE})
AnyWalk = Walk | PartitionWalk
Need = tuple[Reason, str]  # the reason, and the asset that it is about


@dataclass(frozen=True, slots=True)
class Cause:
    """The first cause that applies.

    `base`: the reason without regard to failures; `reason` is `retry` after a failure.
    `expired`: the output that expired last. It is set for every base, because the run renews that output too.
    `blockers`: ancestors in motion that a run has to wait for (docs/semantics.md#R4.2).
    `awaited`: the inputs that `when: all` still waits for.
    `demand`: of a backfill, which is then the only cause.
    """

    reason: Reason
    base: Reason
    asset_id: str
    expired: Output | None = None
    blockers: tuple[Blocker, ...] = ()
    awaited: tuple[str, ...] = ()
    demand: Demand | None = None


def find_cause(policy: Policy, state: State, walk: AnyWalk | None = None) -> Cause | None:
    """Return the first cause that applies, or None if the workflow is up to date.

    The order is missing, definition-changed, upstream-update, expired.
    `walk` finds the blockers. Without it, `state.blockers` are used.
    """
    expired = _expired_outputs(policy, state)
    late = _awaited(policy, state, walk)
    need = (
        _missing(policy, state)
        or _definition(state)
        or (None if expired and late else _upstream(policy, state))
        or _expired(expired)
    )
    if need is None:
        return None
    base, asset_id = need
    retried = state.failures.count > 0 and base is not Reason.MISSING
    return Cause(
        reason=Reason.RETRY if retried else base,
        base=base,
        asset_id=asset_id,
        expired=expired[-1] if expired else None,
        blockers=state.blockers if walk is None else _blockers(policy, state, base, walk),
        awaited=late,
    )


def demanded(policy: Policy, state: State, demand: Demand, walk: AnyWalk | None = None) -> Cause:
    """Return the cause of a backfill, the last one in order (docs/semantics.md#R14.1)."""
    found = state.blockers if walk is None else _blockers(policy, state, Reason.BACKFILL, walk, demand.requested_at)
    return Cause(Reason.BACKFILL, Reason.BACKFILL, _target(state), blockers=found, demand=demand)


def staleness_of(policy: Policy, state: State) -> Staleness:
    """Return the versions of all that makes a partition stale, not only of the first cause."""
    foreign = [one for one in state.outputs if one.foreign and one.head is not None]
    expired = _expired_outputs(policy, state)
    return Staleness(
        inputs={one.reference: one.head.data_version for one in changed_triggers(policy, state) if one.head},
        job=state.job_fingerprint if state.succeeded_fingerprint != state.job_fingerprint else None,
        outputs={one.asset_id: one.head.sequence for one in foreign if one.head is not None},
        expired_at=expired[-1].expired.at if expired and expired[-1].expired else None,
        missing=_missing(policy, state) is not None,
    )


def _is_declined(state: State, *, missing: bool = False) -> bool:
    """Return whether a user denied to run the current job; `missing`: also to make the outputs that are missing."""
    declined = state.declined
    return declined is not None and declined.job == state.job_fingerprint and (declined.missing or not missing)


def is_accepted(policy: Policy, state: State) -> bool:
    """Return whether a partition without a cause has one that a denial accepted (docs/semantics.md#R14.9)."""
    return state.declined is not None and find_cause(policy, _undeclined(state)) is not None


def _undeclined(state: State) -> State:
    return replace(state, declined=None, inputs=tuple(replace(one, accepted=None) for one in state.inputs))


def changed_triggers(policy: Policy, state: State) -> list[Input]:
    """Return the triggering inputs whose data version differs from the consumed one."""
    return [i for i in triggers(policy, state) if i.changed]


def triggers(policy: Policy, state: State) -> list[Input]:
    """Return the inputs whose change may cause a run."""
    return [i for i in state.inputs if i.asset_id in policy.triggering]


def _awaited(policy: Policy, state: State, walk: AnyWalk | None) -> tuple[str, ...]:
    """Return the inputs that `when: all` still waits for.

    An input whose source moved, and that came out unchanged because a workflow above stopped the change, is complete.
    While there are any, an update is not a cause beside an expiry (docs/semantics.md#R1.4).
    """
    if policy.when is not When.ALL:
        return ()
    late = (i.reference for i in triggers(policy, state) if not i.newer)
    return tuple(one for one in late if walk is None or not walk.came_out_unchanged(one, state.moved_sources))


def first_change(policy: Policy, state: State) -> datetime | None:
    """Return when the first unconsumed change of a triggering input arrived."""
    return min((i.pending.first_at for i in triggers(policy, state) if i.pending is not None), default=None)


def _waiting_since(policy: Policy, state: State) -> datetime | None:
    """Return since when a change waits for this partition to run. None of them waited for one that did not exist."""
    first = first_change(policy, state)
    never = state.succeeded_at is None
    return max(first, state.came_at) if first and state.came_at and never else first


def origin_of(policy: Policy, state: State, cause: Cause) -> datetime | None:
    """Return when the root of a cause happened: a report, an expiry or an apply (docs/semantics.md#R13.5)."""
    if cause.demand is not None:
        return cause.demand.requested_at
    if cause.base is Reason.DEFINITION_CHANGED:
        return state.applied_at
    if cause.base is Reason.EXPIRED and cause.expired and cause.expired.expired:
        return cause.expired.expired.at
    pending = [i.pending for i in triggers(policy, state) if i.pending is not None]
    first = min((one.origin or one.first_at for one in pending), default=None)
    # Data that was there before the workflow has waited for nobody until the workflow was applied.
    never = state.succeeded_at is None
    return max(first, state.applied_at) if first and never else first


def _missing(policy: Policy, state: State) -> Need | None:
    if not policy.on_missing:
        return None
    if _is_declined(state, missing=True) and not changed_triggers(policy, state):
        return None
    for output in state.outputs:
        excused = output.asset_id in policy.optional and state.succeeded_at is not None
        if output.head is None and not excused:
            return Reason.MISSING, output.asset_id
    return None


def _definition(state: State) -> Need | None:
    """Another job made the data: a former version of this workflow, another workflow, or somebody outside."""
    foreign = next((output.asset_id for output in state.outputs if output.foreign), None)
    if foreign is not None:
        return Reason.DEFINITION_CHANGED, foreign
    if state.succeeded_fingerprint in {None, state.job_fingerprint} or _is_declined(state):
        return None
    return Reason.DEFINITION_CHANGED, _target(state)


def _upstream(policy: Policy, state: State) -> Need | None:
    return (Reason.UPSTREAM_UPDATE, _target(state)) if changed_triggers(policy, state) else None


def _expired_outputs(policy: Policy, state: State) -> list[Output]:
    """Return the expired outputs whose expiry causes a run, earliest first."""
    declined = state.declined
    found = [
        (o.expired.at, o)
        for o in state.outputs
        if o.expired is not None
        and o.asset_id in policy.expiring
        and not (declined is not None and declined.ends(o.expired.at))
    ]
    return [output for _, output in sorted(found, key=lambda one: one[0])] if found else []


def _expired(outputs: list[Output]) -> Need | None:
    return (Reason.EXPIRED, outputs[-1].asset_id) if outputs else None


def _blockers(
    policy: Policy, state: State, base: Reason, walk: AnyWalk, requested_at: datetime | None = None
) -> tuple[Blocker, ...]:
    """Return the ancestors in motion to wait for. A backfill waits for what began before it was requested."""
    if not policy.wait_for_upstream:
        return ()
    moved = moved_inputs(state)
    return walk.blockers(
        state.workflow_id,
        moved,
        every=base not in BY_INPUT or not moved,
        partition_key=state.partition_key,
        since=_waiting_since(policy, state),
        not_after=requested_at,
    )


def moved_inputs(state: State) -> list[str]:
    """Return the references of the inputs of which a run now reads another generation than the last success.

    Generations count here, not data: an input can return to an earlier data version. Any input can be of another
    generation if the consumed versions are a mix themselves (docs/adr/0004), or if the last success did not read one
    of the inputs: a new input can be older than the others.
    """
    unknown = state.mixed or any(i.consumed is None for i in state.inputs)
    return [i.reference for i in state.inputs if unknown or i.newer]


def _target(state: State) -> str:
    return state.outputs[0].asset_id if state.outputs else ""
