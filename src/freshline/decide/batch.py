"""What a batch of decisions shares: the ancestors to wait for, and how a workflow moves once it is decided.

The reconciler and the in-memory world decide batches through these, ancestors first.
"""

from __future__ import annotations

import dataclasses

from freshline.decide.causes import find_cause
from freshline.decide.decision import Decision
from freshline.decide.motion import Moving, Walk
from freshline.model.policy import Policy
from freshline.model.state import State
from freshline.model.words import Outcome
from freshline.settings import Settings


def with_defaults(policy: Policy, settings: Settings) -> Policy:
    """The materializer's own backoff where the workflow states none."""
    backoff = policy.backoff
    filled = dataclasses.replace(
        backoff,
        base_ms=backoff.base_ms or settings.base_backoff_ms,
        max_ms=backoff.max_ms or settings.max_backoff_ms,
    )
    return dataclasses.replace(policy, backoff=filled)


def with_blockers(policy: Policy, state: State, walk: Walk) -> State:
    """The state with the ancestors in motion that a run would have to wait for."""
    cause = find_cause(policy, state)
    if cause is None or not policy.wait_for_upstream:
        return state
    # What counts is the generation, not the content: an input can come back to a version that it had before, and
    # against a vector that is itself a mix every input can be of another generation (ADR 0004).
    moved = [i.asset_id for i in state.inputs if i.newer or state.mixed]
    blockers = walk.blockers(state.workflow_id, moved if cause.by_input and moved else None)
    return dataclasses.replace(state, blockers=blockers) if blockers else state


def moving_after(state: State, decision: Decision) -> Moving | None:
    """How the workflow moves after the decision, for those below it."""
    if decision.run is not None:
        return Moving("queued")
    if decision.superseded is None and state.active is not None:
        return Moving(state.active.status)
    if decision.outcome in {Outcome.HOLD, Outcome.ERROR}:
        waits = decision.blocker_id is not None
        return Moving(decision.reason, decision.blocks_until, cannot_run=decision.blocks_until is None and not waits)
    return None
