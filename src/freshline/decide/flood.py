"""The flood guard: how many old partitions may be computed again without an approval (docs/semantics.md#R14.7). Pure.

The newest partition is never held. Partitions count before any of them starts: those that are stale, those that may be,
and those that started by themselves in the last 24 hours.
"""

from __future__ import annotations

from datetime import datetime

from freshline.decide.causes import Cause, changed_triggers, staleness_of
from freshline.model.enums import Reason
from freshline.model.policy import Policy
from freshline.model.staleness import NOTHING_STALE, Counted, Staleness
from freshline.model.state import Input, State

READS_ALL = frozenset({"all", "latest"})


def counted_as(policy: Policy, state: State, cause: Cause) -> Counted | None:
    """Return how a stale partition counts; None: not at all."""
    if state.newest and state.partition_key:
        return None
    found = staleness_of(policy, state)
    if state.listed is not None and state.listed.staleness.covers(found):
        return Counted.LISTED
    if cause.base is Reason.UPSTREAM_UPDATE and cause.awaited:
        return None  # it waits for all of its inputs, and would not run
    if _joins(policy, state, cause):
        return Counted.JOINED
    if state.flood is None or _stems_from_backfill(policy, state, cause):
        return None
    return Counted.OWN if _has_own(policy, state, found) else Counted.SHARED


def is_beyond(policy: Policy, state: State, cause: Cause) -> bool:
    """Return whether a partition needs an approval to run."""
    match counted_as(policy, state, cause):
        case Counted.LISTED | Counted.JOINED:
            return True
        case Counted.OWN:
            return exceeds(policy, state.flood.own if state.flood else 0, state.later)
        case Counted.SHARED:
            return exceeds(policy, state.flood.stale if state.flood else 0, state.later)
        case _:
            return False


def exceeds(policy: Policy, count: int, later: int = 0) -> bool:
    """Return whether so many partitions are more than the limit. A chain counts with all partitions that follow."""
    return max(count, 1 + later) > policy.flood.limit


def _has_own(policy: Policy, state: State, found: Staleness) -> bool:
    """Return whether a partition has a reason that others do not share, and that no proposal lists for it."""
    known = state.listed.staleness if state.listed is not None else NOTHING_STALE
    if found.missing and state.listed is None:
        return False  # to a partition that was never computed, all of its inputs are new
    changed = [one for one in changed_triggers(policy, state) if _is_particular(policy, one)]
    return (
        any(known.inputs.get(one.reference) != found.inputs[one.reference] for one in changed)
        or any(known.outputs.get(asset_id) != sequence for asset_id, sequence in found.outputs.items())
        or not known.ends(found.expired_at)
    )


def _is_particular(policy: Policy, one: Input) -> bool:
    """Return whether only some partitions read an input."""
    if not one.partition_key or one.partitions is not None:
        return False
    declared = next((i.partitions for i in policy.inputs if i.asset_id == one.asset_id), None)
    return declared is None or READS_ALL.isdisjoint(declared.mapping)


def _stems_from_backfill(policy: Policy, state: State, cause: Cause) -> bool:
    """Return whether a user asked for the change: it follows from a backfill."""
    if not state.asked or cause.base not in {Reason.UPSTREAM_UPDATE, Reason.MISSING}:
        return False
    origins = [one.pending.origin if one.pending else None for one in changed_triggers(policy, state)]
    asked = [origin in state.asked for origin in origins]
    return bool(asked) and (any(asked) if cause.base is Reason.MISSING else all(asked))


def _joins(policy: Policy, state: State, cause: Cause) -> bool:
    """Return whether a partition is stale only by an apply that is proposed above it.

    What only reads something that changed because of it runs: a proposal blocks nobody (docs/semantics.md#R4.4).
    """
    if cause.base is not Reason.DEFINITION_CHANGED:
        return False
    proposed = {one.origin for one in cause.blockers if one.motion == Reason.BACKFILL_PROPOSED and one.origin}
    return bool(proposed) and _origins(policy, state, cause) in [{origin} for origin in proposed]


def _origins(policy: Policy, state: State, cause: Cause) -> set[datetime]:
    """Return when the roots of all that makes a partition stale happened, the apply among them."""
    found: set[datetime] = set()
    for one in changed_triggers(policy, state):
        if one.head is not None:
            found.add(one.head.origin or one.head.produced_at)
        if one.pending is not None:
            found.add(one.pending.origin or one.pending.first_at)
    found.add(state.applied_at)
    if cause.expired is not None and cause.expired.expired is not None:
        found.add(cause.expired.expired.at)
    return found
