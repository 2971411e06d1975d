"""Demands of backfills: whether one is done, and which holds bind it (docs/semantics.md#R14)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from freshline.decide.ages import sealed_by
from freshline.model.backfill import Demand, Only, PartitionState
from freshline.model.enums import Reason
from freshline.model.policy import Policy
from freshline.model.state import State

# A user asked for these partitions, whatever the policy says about changes.
OVERRIDDEN = frozenset(
    {
        Reason.CANCELED,
        Reason.BACKFILL_PROPOSED,
        Reason.WAITING_FOR_ALL,
        Reason.INPUT_TOO_OLD,
        Reason.DEBOUNCING,
        Reason.MIN_INTERVAL,
        Reason.FROZEN,
    }
)


def overrides(demand: Demand, reason: Reason) -> bool:
    """Return whether a hold does not keep the demand from running (docs/semantics.md#R14.3)."""
    return reason in OVERRIDDEN or (reason is Reason.QUIET_HOURS and demand.during_quiet_hours)


def state_of(policy: Policy, state: State, demand: Demand) -> PartitionState:
    """Return what became of the partition: a demand ends when it is done, refused, or failed too often."""
    if is_done(state, demand):
        return PartitionState.DONE
    if state.canceled is not None and state.canceled.backfill_id == demand.backfill_id:
        return PartitionState.REFUSED
    if sealed_by(state) and not demand.partial:
        return PartitionState.REFUSED
    if state.failures.count >= policy.backoff.budget:
        return PartitionState.FAILED
    return PartitionState.OPEN


def is_done(state: State, demand: Demand) -> bool:
    """Return whether the partition has what was asked for, whoever made it (docs/semantics.md#R14.2)."""
    match demand.only:
        case Only.MISSING:
            return state.succeeded_at is not None and not _lacks_output(state)
        case Only.STALE:
            return not is_stale(state)
        case _:
            return demand.satisfied


def open_demand(policy: Policy, state: State, now: datetime) -> Demand | None:
    """Return the first demand that may cause a run now."""
    return next((one for one in state.demands if _may_run(policy, state, one, now)), None)


def next_demand_at(state: State, now: datetime) -> datetime | None:
    """Return when the next demand may cause a run, if only its time has to come."""
    return min((one.not_before for one in state.demands if one.not_before and one.not_before > now), default=None)


def ended(policy: Policy, state: State) -> Iterator[tuple[str, PartitionState]]:
    """Yield the backfills whose demands for the partition have ended, and how."""
    for one in state.demands:
        found = state_of(policy, state, one)
        if found is not PartitionState.OPEN:
            yield one.backfill_id, found


def progresses(state: State, origin: datetime | None, now: datetime, wait: timedelta) -> bool:
    """Return whether a backfill was requested at `origin`, and one of its partitions ended lately.

    What it changed last is still computed when it has ended.
    """
    recent = state.backfills.get(origin) if origin is not None else None
    return recent is not None and now < recent.extends_until(wait)


def _may_run(policy: Policy, state: State, demand: Demand, now: datetime) -> bool:
    due = demand.not_before is None or demand.not_before <= now
    return due and not demand.paused and state_of(policy, state, demand) is PartitionState.OPEN


def is_stale(state: State) -> bool:
    """Return whether anything differs from the last success. Inputs that cause no run count: a user asked."""
    return (
        _lacks_output(state)
        or state.succeeded_fingerprint != state.job_fingerprint
        or any(one.differs for one in state.inputs)
        or any(one.foreign or one.expired for one in state.outputs)
    )


def _lacks_output(state: State) -> bool:
    return state.succeeded_at is None and any(one.head is None for one in state.outputs)
