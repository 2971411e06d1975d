"""Helpers for deciding a batch: its order, default backoff, and the motion of a workflow after its decision.

The reconciler and the simulation use them. Both decide ancestors first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from freshline.decide.decision import Decision
from freshline.decide.motion import Moving
from freshline.model.backfill import Demand
from freshline.model.enums import Outcome, Reason
from freshline.model.policy import Policy
from freshline.model.state import State
from freshline.settings import Settings

T = TypeVar("T")
STALE = Moving("stale", cannot_run=True)
SWITCHED_OFF = frozenset({Reason.NOT_AUTO, Reason.POLICY_OFF})


def in_order(
    units: Iterable[T],
    *,
    place: Callable[[T], tuple[int, ...]],
    key: Callable[[T], str],
    from_oldest: Callable[[T], bool],
) -> list[T]:
    """Return the units of a batch in the order of their decisions, which is that of equally urgent runs.

    Ancestors come first (`place`: of their workflow), and of one workflow the newest partition, except those
    `from_oldest`, which come after the others.
    """
    newest_first = sorted(units, key=key, reverse=True)
    return sorted(newest_first, key=lambda unit: (place(unit), key(unit) if from_oldest(unit) else ""))


def wants_oldest(demands: Sequence[Demand]) -> bool:
    """Return whether a partition has its turn because of backfills that begin with the oldest."""
    return bool(demands) and not any(one.newest_first for one in demands)


def with_defaults(policy: Policy, settings: Settings) -> Policy:
    """Fill in the backoff of the settings where the workflow defines none."""
    backoff = policy.backoff
    filled = dataclasses.replace(
        backoff,
        base_ms=backoff.base_ms or settings.base_backoff_ms,
        max_ms=backoff.max_ms or settings.max_backoff_ms,
    )
    return dataclasses.replace(policy, backoff=filled)


def moving_after(state: State, decision: Decision) -> Moving | None:
    """Return the motion of the workflow after the decision, as its descendants see it."""
    if decision.run is not None:
        return Moving("queued", origin=decision.run.origin)
    if decision.superseded is None and state.active is not None:
        return Moving(state.active.status, origin=state.active.origin)
    if decision.reason in SWITCHED_OFF:
        # Nobody knows when a user runs it. Until then its data is of another generation than its inputs.
        return (
            dataclasses.replace(STALE, has_head=_has_head(state)) if any(one.changed for one in state.inputs) else None
        )
    if decision.outcome in {Outcome.HOLD, Outcome.ERROR}:
        waits = decision.reason is Reason.WAITING_FOR_UPSTREAM
        cannot_run = decision.blocks_until is None and not waits
        return Moving(decision.reason, decision.blocks_until, cannot_run, decision.origin, has_head=_has_head(state))
    return None


def _has_head(state: State) -> bool:
    """Return whether there is, or was, data of a partition. Without partitions docs/semantics.md#R4.4 holds."""
    return not state.partition_key or any(one.head is not None or one.lost for one in state.outputs)
