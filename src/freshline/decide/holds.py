"""Holds: reasons why a stale workflow does not run now, in order (docs/semantics.md#R5.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from freshline.decide.ages import frozen_at, sealed_by
from freshline.decide.causes import Cause, origin_of, triggers
from freshline.decide.demands import progresses
from freshline.decide.flood import is_beyond
from freshline.decide.times import milliseconds, next_quiet, quiet_until
from freshline.model.documents.decision import BlockerEvidence, Evidence
from freshline.model.enums import Reason, RunStatus
from freshline.model.moment import iso
from freshline.model.policy import Policy
from freshline.model.state import Blocker, State

# A hold is evaluated again after these times, even if no event arrives (docs/semantics.md#R11.4).
FIRST_RECHECK = timedelta(seconds=30)
LONGEST_RECHECK = timedelta(minutes=10)
FIRST_WAIT_RECHECK = timedelta(seconds=1)
LONGEST_WAIT_RECHECK = timedelta(seconds=30)
# Only an event or a definition ends these holds, and there may be thousands of them.
REST_RECHECK = timedelta(days=1)
MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Hold:
    """One reason not to run now. `until`: its known end. `recheck_at`: when to evaluate again, at the latest."""

    reason: Reason
    recheck_at: datetime
    until: datetime | None = None
    evidence: Evidence = field(default_factory=Evidence)
    blocker: Blocker | None = None


def find_holds(policy: Policy, state: State, cause: Cause, now: datetime) -> Iterator[Hold]:
    """Yield all holds that apply, in order. The first one is the reason of the decision."""
    for check in (
        _input_retired,
        _frozen,
        _in_flight,
        _paused,
        _breaker,
        _cooldown,
        _canceled,
        _proposed,
        _quiet,
        _too_old,
        _waiting_for_all,
        _waiting_for_upstream,
        _debouncing,
        _min_interval,
    ):
        hold = check(policy, state, cause, now)
        if hold is not None:
            yield hold


def doubling(first: timedelta, most: timedelta, evaluations: int) -> timedelta:
    """Return 1, 2, 4 … times `first`, at most `most`."""
    return min(most, first * (1 << min(evaluations, 20)))


def next_recheck(state: State, now: datetime) -> datetime:
    """Return when to evaluate a hold again whose end is not known."""
    return now + doubling(FIRST_RECHECK, LONGEST_RECHECK, state.evaluations)


def deadline(policy: Policy, state: State, cause: Cause, now: datetime) -> datetime:
    """Return the time at which a wait for ancestors ends, unless something interrupts it (docs/semantics.md#R4.5).

    Only time in which it waited counts: not a downtime, a pause or quiet hours. What stems from an active backfill
    waits as long as the backfill goes on (docs/semantics.md#R14.6).
    """
    longest = milliseconds(policy.max_wait_ms)
    if state.backfills and _stems_from_backfill(policy, state, cause, now):
        return now + longest
    return now + longest - state.waited


def _stems_from_backfill(policy: Policy, state: State, cause: Cause, now: datetime) -> bool:
    longest = milliseconds(policy.max_wait_ms)
    if cause.base is Reason.DEFINITION_CHANGED:  # it waits for whatever is in motion above
        return any(progresses(state, origin, now, longest) for origin in state.backfills)
    if cause.base is not Reason.UPSTREAM_UPDATE:
        return progresses(state, origin_of(policy, state, cause), now, longest)
    pending = [one.pending for one in triggers(policy, state) if one.pending is not None]
    return bool(pending) and all(progresses(state, one.origin, now, longest) for one in pending)


def split_blockers(policy: Policy, state: State, cause: Cause, now: datetime) -> tuple[list[Blocker], list[Blocker]]:
    """Return the ancestors to wait for, and those that a run does not wait for, or no longer.

    A run despite the latter may read a mix of generations (docs/semantics.md#R4.4).
    """
    if not policy.wait_for_upstream or not cause.blockers:
        return [], []
    end = deadline(policy, state, cause, now)
    waits: list[Blocker] = []
    passed: list[Blocker] = []
    for b in cause.blockers:
        awaited = now < end and not b.cannot_run and (b.until is None or b.until < end)
        (waits if awaited else passed).append(b)
    return waits, passed


def _input_retired(_policy: Policy, state: State, _cause: Cause, now: datetime) -> Hold | None:
    """Hold a partition of which retention removed an input: a run would lack its rows (docs/semantics.md#R13.15)."""
    gone = sealed_by(state)
    if not gone:
        return None
    evidence: Evidence = {"retired": gone[:MOST_NAMED], "retiredCount": len(gone)}
    return Hold(Reason.INPUT_RETIRED, now + REST_RECHECK, evidence=evidence)


def _frozen(policy: Policy, state: State, _cause: Cause, now: datetime) -> Hold | None:
    at = frozen_at(policy, state, now)
    return None if at is None else Hold(Reason.FROZEN, now + REST_RECHECK, evidence={"frozenAt": iso(at)})


def _in_flight(policy: Policy, state: State, _cause: Cause, now: datetime) -> Hold | None:
    if state.active is None:
        return None
    recheck_at = next_recheck(state, now)
    window = next_quiet(policy.quiet_hours, now) if state.active.status is RunStatus.QUEUED else None
    if window is not None and window.begins > now:
        recheck_at = min(recheck_at, window.begins)
    evidence: Evidence = {
        "runId": state.active.id,
        "runStatus": state.active.status,
        "trigger": state.active.trigger_type,
    }
    return Hold(Reason.IN_FLIGHT, recheck_at, evidence=evidence)


def _paused(_policy: Policy, state: State, _cause: Cause, now: datetime) -> Hold | None:
    if not state.paused or (state.paused_until is not None and state.paused_until <= now):
        return None
    return Hold(Reason.PAUSED, state.paused_until or next_recheck(state, now), state.paused_until)


def _breaker(policy: Policy, state: State, _cause: Cause, now: datetime) -> Hold | None:
    """Hold while the breaker is open, except for single probes (docs/semantics.md#R7.3).

    A probe runs on new data, or after `probe_ms`, but never earlier than `max_ms` after the last failure.
    """
    failures = state.failures
    if failures.breaker_at is None or failures.last_at is None:
        return None
    earliest = failures.last_at + milliseconds(policy.backoff.max_ms or 0)
    probe_at = max(earliest, failures.last_at + milliseconds(policy.backoff.probe_ms))
    heads = _readable(state)
    next_probe = probe_at if heads == failures.probed_versions else earliest
    if now >= next_probe:
        return None
    evidence: Evidence = {
        "failures": failures.count,
        "openedAt": iso(failures.breaker_at),
        "nextProbeAt": iso(next_probe),
    }
    return Hold(Reason.BREAKER_OPEN, next_probe, evidence=evidence)


def _readable(state: State) -> dict[str, str]:
    """Return the data versions that a run would read."""
    return {i.reference: i.head.data_version for i in state.inputs if i.head is not None and i.retired is None}


def _cooldown(_policy: Policy, state: State, _cause: Cause, now: datetime) -> Hold | None:
    until = state.failures.eligible_at
    if until is None or until <= now:
        return None
    return Hold(Reason.COOLING_DOWN, until, until, {"failures": state.failures.count})


def _canceled(_policy: Policy, state: State, cause: Cause, now: datetime) -> Hold | None:
    """Hold after a cancellation until a version, an expiry or the definition changes (docs/semantics.md#R5.3)."""
    canceled = state.canceled
    if canceled is None or canceled.version != state.version:
        return None
    heads = _readable(state)
    expired = cause.expired.expired if cause.expired else None
    if expired is not None and (canceled.expired_at is None or expired.at > canceled.expired_at):
        return None
    if dict(canceled.pins) != heads:
        return None
    return Hold(Reason.CANCELED, next_recheck(state, now))


def _proposed(policy: Policy, state: State, cause: Cause, now: datetime) -> Hold | None:
    """Hold an old partition beyond the limit until a user approves or denies it (docs/semantics.md#R14.7)."""
    if not is_beyond(policy, state, cause):
        return None
    evidence: Evidence = {"limit": policy.flood.limit}
    if state.listed is not None:
        evidence["backfillId"] = state.listed.backfill_id
    return Hold(Reason.BACKFILL_PROPOSED, now + REST_RECHECK, evidence=evidence)


def _quiet(policy: Policy, _state: State, _cause: Cause, now: datetime) -> Hold | None:
    until = quiet_until(policy.quiet_hours, now)
    return None if until is None else Hold(Reason.QUIET_HOURS, until, until)


def _too_old(policy: Policy, state: State, _cause: Cause, now: datetime) -> Hold | None:
    for one in state.inputs if policy.age_limits else ():
        limit = policy.age_limits.get(one.asset_id)
        if limit is None or one.head is None or now - one.head.produced_at <= milliseconds(limit):
            continue
        evidence: Evidence = {"assetId": one.asset_id, "producedAt": iso(one.head.produced_at), "maxAgeMs": limit}
        return Hold(Reason.INPUT_TOO_OLD, next_recheck(state, now), evidence=evidence)
    return None


def _waiting_for_all(_policy: Policy, state: State, cause: Cause, now: datetime) -> Hold | None:
    if cause.base is not Reason.UPSTREAM_UPDATE or not cause.awaited:
        return None
    # No event says that an input came out unchanged because of a workflow far above: look often.
    recheck_at = now + doubling(FIRST_WAIT_RECHECK, LONGEST_WAIT_RECHECK, state.evaluations)
    return Hold(Reason.WAITING_FOR_ALL, recheck_at, evidence={"waitingFor": list(cause.awaited)})


def _waiting_for_upstream(policy: Policy, state: State, cause: Cause, now: datetime) -> Hold | None:
    waits, _ = split_blockers(policy, state, cause, now)
    if not waits:
        return None
    end = deadline(policy, state, cause, now)
    recheck_at = min(end, now + doubling(FIRST_WAIT_RECHECK, LONGEST_WAIT_RECHECK, state.evaluations))
    evidence: Evidence = {"blockers": [describe(b) for b in waits], "deadline": iso(end)}
    return Hold(Reason.WAITING_FOR_UPSTREAM, recheck_at, evidence=evidence, blocker=waits[0])


def _debouncing(policy: Policy, state: State, cause: Cause, now: datetime) -> Hold | None:
    """Hold until inputs are quiet for `debounce_ms`, at most `max_delay_ms` after the first change.

    An expiry is not debounced (docs/semantics.md#R5.4).
    """
    only_update = cause.base is Reason.UPSTREAM_UPDATE and cause.expired is None
    if policy.debounce_ms == 0 or not only_update:
        return None
    pending = [i.pending for i in triggers(policy, state) if i.pending is not None]
    if not pending:
        return None
    until = max(p.last_at for p in pending) + milliseconds(policy.debounce_ms)
    if policy.max_delay_ms is not None:
        until = min(until, min(p.first_at for p in pending) + milliseconds(policy.max_delay_ms))
    return Hold(Reason.DEBOUNCING, until, until) if now < until else None


def _min_interval(policy: Policy, state: State, _cause: Cause, now: datetime) -> Hold | None:
    if policy.min_interval_ms == 0 or state.started_at is None:
        return None
    until = state.started_at + milliseconds(policy.min_interval_ms)
    return Hold(Reason.MIN_INTERVAL, until, until) if now < until else None


def describe(blocker: Blocker) -> BlockerEvidence:
    """Return a blocker as evidence."""
    found: BlockerEvidence = {"workflowSlug": blocker.slug, "motion": blocker.motion, "until": iso(blocker.until)}
    if blocker.partition_key:
        found["partitionKey"] = blocker.partition_key
    if blocker.together:
        found["together"] = list(blocker.together)
    return found
