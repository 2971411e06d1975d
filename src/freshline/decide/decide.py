"""The decision function: policy, state and time in, decision out. No IO, no clock, no randomness.

The reconciler, the simulation and every preview use it. The first matching reason wins, in the order of
docs/semantics.md#R5.1. The evidence names all holds that match.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from freshline.decide.ages import retired_at, sealed_by, unsealed
from freshline.decide.causes import (
    AnyWalk,
    Cause,
    changed_triggers,
    demanded,
    find_cause,
    is_accepted,
    origin_of,
    staleness_of,
    triggers,
)
from freshline.decide.decision import Decision, NewRun, QuietRun, Renewal, short_hash
from freshline.decide.demands import ended, next_demand_at, open_demand, overrides
from freshline.decide.flood import counted_as
from freshline.decide.holds import Hold, describe, find_holds, next_recheck, split_blockers
from freshline.decide.times import next_quiet
from freshline.model.backfill import PartitionState
from freshline.model.documents.decision import (
    Evidence,
    ExpiryEvidence,
    ForeignHead,
    InputColumns,
    InputEvidence,
    InputPartition,
    InputRetention,
    Trigger,
    UpstreamChange,
)
from freshline.model.enums import BLOCKING_HOLDS, Outcome, Reason, RunStatus, TriggerType
from freshline.model.moment import iso
from freshline.model.policy import Policy
from freshline.model.staleness import Counted
from freshline.model.state import Expiry, Input, State, Version, Window

# A queued run ends when one of these holds begins (docs/semantics.md#R8.3).
ENDING = frozenset({Reason.QUIET_HOURS, Reason.INPUT_RETIRED, Reason.FROZEN})
MOST_EVENTS = 40
REPEATS_ALLOWED = 2


def decide(policy: Policy, state: State, now: datetime, walk: AnyWalk | None = None) -> Decision:
    """Decide what to do about one workflow partition now.

    `walk` finds the ancestors to wait for. Without it, `state.blockers` are used. The demand of a backfill is the last
    cause: what is held for another cause may run for it.
    """
    removed_at = retired_at(policy, state, now)
    if removed_at is not None:
        return _retired(state, removed_at)
    demand = open_demand(policy, state, now) if state.demands else None
    if demand is None:
        decision = _decide_automatic(policy, state, now, walk)
    else:
        decision = _decide_demanded(policy, state, now, demanded(policy, state, demand, walk), walk)
    if not state.demands:
        return decision
    times = [at for at in (decision.next_evaluation, next_demand_at(state, now)) if at is not None]
    return replace(decision, demands=tuple(ended(policy, state)), next_evaluation=min(times, default=None))


def _retired(state: State, at: datetime) -> Decision:
    """Leave a partition alone whose data retention removes (docs/semantics.md#R13.14)."""
    demands = tuple((one.backfill_id, PartitionState.REFUSED) for one in state.demands)
    evidence: Evidence = {"retiredAt": iso(at)}
    return Decision(Outcome.SKIP, Reason.UP_TO_DATE, evidence, superseded=_replaceable(state), demands=demands)


def _decide_automatic(policy: Policy, state: State, now: datetime, walk: AnyWalk | None) -> Decision:
    off = _switched_off(policy)
    if off is not None:
        return Decision(Outcome.SKIP, off, superseded=_replaceable(state))
    cause = find_cause(policy, state, walk)
    if any(i.missing for i in state.inputs):
        return _input_missing(policy, state, cause, now)
    if cause is None:
        return _up_to_date(policy, state)
    if _repeats(state, cause):
        return _repeated(state, cause, now)
    holds = list(find_holds(policy, state, cause, now))
    if holds:
        return _held(policy, state, cause, holds, now)
    return _run(policy, state, cause, now)


def _decide_demanded(policy: Policy, state: State, now: datetime, asked: Cause, walk: AnyWalk | None) -> Decision:
    """Decide about a partition that a backfill demands: for a cause of its own if that runs, else for the demand."""
    demand = asked.demand
    assert demand is not None  # noqa: S101 - the caller made the cause from it
    sealed = bool(demand.partial and sealed_by(state))
    if sealed:
        state = unsealed(state)
    if any(i.missing for i in state.inputs) or (sealed and not state.inputs):
        there = tuple(i for i in state.inputs if not i.missing)
        if not there or not demand.partial:
            return _input_missing(policy, state, asked, now)
        state = replace(state, inputs=there, partial=True)
    own = _decide_automatic(policy, state, now, walk)
    if own.run is not None or own.outcome is Outcome.ERROR:
        return own
    if _repeats(state, asked):
        return _repeated(state, asked, now)
    holds = [one for one in find_holds(policy, state, asked, now) if not overrides(demand, one.reason)]
    if not holds:
        return _run(policy, state, asked, now)
    waits = own.reason is not Reason.FROZEN and not _needs_approval(own)
    if own.outcome is Outcome.HOLD and own.superseded is None and waits:
        times = [at for at in (own.next_evaluation, holds[0].recheck_at) if at is not None]
        return replace(own, next_evaluation=min(times))
    return _held(policy, state, asked, holds, now)


def _needs_approval(decision: Decision) -> bool:
    """Return whether a partition may run for the demand of a backfill alone."""
    reasons = {decision.reason, *decision.evidence.get("alsoHeldBy", ())}
    return Reason.BACKFILL_PROPOSED in reasons


def _switched_off(policy: Policy) -> Reason | None:
    if not policy.declared:
        return Reason.NOT_AUTO
    return None if policy.automatic else Reason.POLICY_OFF


def _input_missing(policy: Policy, state: State, cause: Cause | None, now: datetime) -> Decision:
    evidence: Evidence = {"missing": [i.reference for i in state.inputs if i.missing]}
    also = [hold.reason for hold in find_holds(policy, state, cause, now)] if cause else []
    if also:
        evidence["alsoHeldBy"] = also
    # A partition is woken by the partition that it misses, or by its grace: there may be thousands of them.
    again = state.grace_ends if state.partition_key else next_recheck(state, now)
    return Decision(Outcome.HOLD, Reason.INPUT_MISSING, evidence, next_evaluation=again)


def _up_to_date(policy: Policy, state: State) -> Decision:
    evidence = _evidence(policy, state, None)
    if is_accepted(policy, state):
        evidence["accepted"] = True
    superseded = _replaceable(state)
    if superseded is not None:
        evidence["superseded"] = superseded
    return Decision(Outcome.SKIP, Reason.UP_TO_DATE, evidence, superseded=superseded)


def _replaceable(state: State) -> str | None:
    """Return the id of a queued automatic run that was never claimed."""
    return state.active.id if state.active and state.active.replaceable else None


def _held(policy: Policy, state: State, cause: Cause, holds: list[Hold], now: datetime) -> Decision:
    taken_back = _taken_back(state, holds)
    if taken_back is not None:
        holds = [hold for hold in holds if hold.reason is not Reason.IN_FLIGHT]
    first = holds[0]
    evidence = _evidence(policy, state, cause) | first.evidence
    if first.until is not None:
        evidence["until"] = iso(first.until)
    if len(holds) > 1:
        evidence["alsoHeldBy"] = [hold.reason for hold in holds[1:]]
    proposed = any(hold.reason is Reason.BACKFILL_PROPOSED for hold in holds)
    counts = cause.demand is None and not state.demands and first.reason is not Reason.CANCELED
    renewal = _renewal(policy, state, cause, now) if first.reason is Reason.IN_FLIGHT else None
    if renewal is not None:
        evidence["renewed"] = True
    return Decision(
        Outcome.HOLD,
        first.reason,
        evidence,
        next_evaluation=first.recheck_at,
        blocker_id=first.blocker.workflow_id if first.blocker else None,
        blocker_key=first.blocker.partition_key if first.blocker else "",
        origin=origin_of(policy, state, cause),
        urgency=urgency_of(policy, state, cause),
        blocks_until=first.until if first.reason in BLOCKING_HOLDS else None,
        renewal=renewal,
        superseded=taken_back,
        quiet_run=None if taken_back else _quiet_run(policy, state, cause, now),
        counted=_counted(policy, state, cause) if counts else None,
        staleness=staleness_of(policy, state) if proposed else None,
    )


def _counted(policy: Policy, state: State, cause: Cause) -> Counted | None:
    """Return how a held partition counts. One whose proposal was approved is demanded, and does not."""
    found = counted_as(policy, state, cause)
    approved = state.listed is not None and state.listed.approved
    return None if found is Counted.LISTED and approved else found


def _taken_back(state: State, holds: list[Hold]) -> str | None:
    """Return the id of a queued run that ends because quiet hours began, or because the partition came to rest."""
    return _replaceable(state) if any(hold.reason in ENDING for hold in holds) else None


def _quiet_run(policy: Policy, state: State, cause: Cause, now: datetime) -> QuietRun | None:
    """Return the next quiet hours of a queued automatic run, for workers that would start it."""
    run = state.active
    if run is None or not run.trigger_type.decided or run.status is not RunStatus.QUEUED:
        return None
    quiet = _next_quiet(policy, cause, now)
    known = run.quiet.ends if run.quiet else None
    return QuietRun(run.id, quiet) if (quiet.ends if quiet else None) != known else None


def _renewal(policy: Policy, state: State, cause: Cause, now: datetime) -> Renewal | None:
    """Return new pins for a queued run if there are newer heads and nothing blocks."""
    run_id, run = _replaceable(state), state.active
    pins = pins_of(state)
    if run_id is None or run is None or run.version != state.version:
        return None
    # A run of a backfill that gets a cause of its own moves to its priority (docs/semantics.md#R14.4).
    promoted = run.trigger_type is TriggerType.BACKFILL and cause.demand is None
    if dict(run.pins) == pins and not promoted:
        return None
    waits, passed = split_blockers(policy, state, cause, now)
    if waits:
        return None
    trigger = _trigger(policy, state, cause)
    return Renewal(
        run_id=run_id,
        trigger=trigger,
        pins=pins,
        cause=signature(state, cause),
        mixed=any(b.mixes for b in passed),
        mixed_upstream=reads_mix(state),
        round=state.round,
        origin=origin_of(policy, state, cause),
        urgency=urgency_of(policy, state, cause),
    )


def _run(policy: Policy, state: State, cause: Cause, now: datetime) -> Decision:
    mixing = [b for b in split_blockers(policy, state, cause, now)[1] if b.mixes]
    evidence = _evidence(policy, state, cause)
    if mixing:
        evidence["waitedOut"] = [describe(b) for b in mixing]
    run = NewRun(
        trigger=_trigger(policy, state, cause),
        pins=pins_of(state),
        priority=cause.demand.priority if cause.demand else policy.priority,
        parameters=policy.parameter_defaults,
        cause=signature(state, cause),
        mixed=bool(mixing),
        mixed_upstream=reads_mix(state),
        round=state.round,
        quiet=_next_quiet(policy, cause, now),
        origin=origin_of(policy, state, cause),
        urgency=urgency_of(policy, state, cause),
        counted=counted_as(policy, state, cause) if cause.demand is None and state.flood is not None else None,
    )
    next_evaluation = run.quiet.begins if run.quiet else None
    return Decision(Outcome.RUN, cause.reason, evidence, run=run, next_evaluation=next_evaluation, origin=run.origin)


def _next_quiet(policy: Policy, cause: Cause, now: datetime) -> Window | None:
    return None if cause.demand and cause.demand.during_quiet_hours else next_quiet(policy.quiet_hours, now)


def urgency_of(policy: Policy, state: State, cause: Cause) -> int:
    """Return the priority of a cause among all causes. What stems only from active backfills is in their class."""
    if cause.demand is not None:
        return cause.demand.urgency
    pending = [one.pending for one in triggers(policy, state) if one.pending is not None]
    active = {at: one.priority for at, one in state.backfills.items() if not one.ended}
    stems = [active.get(one.origin, policy.priority) if one.origin else policy.priority for one in pending]
    if cause.base is not Reason.UPSTREAM_UPDATE or not active:
        return policy.priority
    return max(policy.priority, min(stems, default=policy.priority))


def reads_mix(state: State) -> bool:
    """Return whether a run on the heads reads data that was made from a mix."""
    return any(i.head.mixed for i in state.inputs if i.head)


def _repeats(state: State, cause: Cause) -> bool:
    return state.cause_repeats >= REPEATS_ALLOWED and state.success_cause == signature(state, cause)


def _repeated(state: State, cause: Cause, now: datetime) -> Decision:
    """Report an error instead of running forever: successes do not remove the cause (docs/semantics.md#R1.5)."""
    text = f"{state.cause_repeats} successes in a row left the cause '{cause.base}' with the same versions"
    evidence: Evidence = {"error": text, "cause": cause.base}
    return Decision(Outcome.ERROR, Reason.EVALUATION_FAILED, evidence, next_evaluation=next_recheck(state, now))


def signature(state: State, cause: Cause) -> str:
    """Return a hash of the cause and of the versions that a run would read."""
    expired = cause.expired.expired if cause.expired and cause.base is Reason.EXPIRED else None
    words = [cause.base, cause.asset_id, state.job_fingerprint, iso(expired.at) if expired else ""]
    words.extend([cause.demand.backfill_id] if cause.demand else [])
    words.extend(f"{i.reference}={i.head.data_version}" for i in state.inputs if i.head)
    return short_hash("\0".join(words))


def pins_of(state: State) -> dict[str, Version]:
    """Return the heads of the inputs as pins."""
    return {i.reference: Version(i.head.sequence, i.head.data_version) for i in state.inputs if i.head}


def _evidence(policy: Policy, state: State, cause: Cause | None) -> Evidence:
    """Return the consumed and the current versions side by side, and the cause."""
    inputs: list[InputEvidence] = [
        {
            "assetId": i.asset_id,
            **_partition(i),
            "from": i.consumed.data_version if i.consumed else None,
            "to": i.head.data_version if i.head else None,
            "changed": i.changed,
            "changes": i.pending.count if i.pending else 0,
            "triggers": i.asset_id in policy.triggering,
            **_retention(i),
            **_unread(i),
        }
        for i in state.inputs
    ]
    evidence: Evidence = {"inputs": inputs}
    if cause is not None:
        evidence |= {"cause": cause.base, "assetId": cause.asset_id}
        if cause.demand:
            evidence["backfillId"] = cause.demand.backfill_id
        if cause.expired and cause.expired.expired:
            evidence["expiry"] = _expiry(cause.expired.expired)
        foreign: list[ForeignHead] = [
            {"assetId": o.asset_id, "madeBy": o.made_by, "dataVersion": o.head.data_version}
            for o in state.outputs
            if o.foreign and o.head is not None
        ]
        if foreign:
            evidence["foreign"] = foreign
    return evidence


def _partition(one: Input) -> InputPartition:
    """Return the key of an input partition. An input without partitions has none."""
    return {"partitionKey": one.partition_key} if one.partition_key else {}


def _retention(one: Input) -> InputRetention:
    """Return whether retention removed an input."""
    return {"retired": True} if one.retired else {}


def _unread(one: Input) -> InputColumns:
    """Return whether only columns changed that the consumer does not read."""
    return {"unread": True} if one.passed_over else {}


def _trigger(policy: Policy, state: State, cause: Cause) -> Trigger:
    upstream: list[UpstreamChange] = [
        {
            "assetId": i.asset_id,
            "partitionKey": i.partition_key,
            "from": i.consumed.data_version if i.consumed else None,
            "to": i.head.data_version,
            "runId": i.head.run_id,
        }
        for i in changed_triggers(policy, state)
        if i.head is not None
    ]
    expired = cause.expired.expired if cause.expired else None
    found: Trigger = {
        "type": TriggerType.BACKFILL if cause.demand else TriggerType.AUTO,
        "reason": cause.reason,
        "assetId": cause.asset_id,
        "partitionKey": state.partition_key,
        "upstream": upstream,
        "expiry": _expiry(expired) if expired else None,
        "eventIds": _event_ids(state, cause),
    }
    if cause.demand:
        found["backfillId"] = cause.demand.backfill_id
    return found


def _expiry(expired: Expiry) -> ExpiryEvidence:
    return {"reason": expired.reason, "expiresAt": iso(expired.at)}


def _event_ids(state: State, cause: Cause) -> list[str]:
    ids = [event for i in state.inputs if i.pending and i.changed for event in i.pending.event_ids]
    if cause.expired and cause.expired.expired and cause.expired.expired.event_id:
        ids.append(cause.expired.expired.event_id)
    half = MOST_EVENTS // 2
    return ids if len(ids) <= MOST_EVENTS else ids[:half] + ids[-half:]
