"""What follows from the age of a partition: it is frozen, sealed or retired (docs/semantics.md#R13.14)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from freshline.decide.times import milliseconds
from freshline.model.enums import OnRetire
from freshline.model.policy import Policy
from freshline.model.state import Input, State


def retired_at(policy: Policy, state: State, now: datetime) -> datetime | None:
    """Return when retention removed the partition; None if it has not."""
    return _passed(state, policy.retain_ms, now)


def frozen_at(policy: Policy, state: State, now: datetime) -> datetime | None:
    """Return since when the partition does not run by itself; None if it does."""
    return _passed(state, policy.frozen_after_ms, now)


def sealed_by(state: State) -> list[str]:
    """Return the inputs that a run would lack, because retention removed them."""
    return [one.reference for one in state.inputs if one.retired is OnRetire.KEEP]


def unsealed(state: State) -> State:
    """Return the state of a run that goes on with what is left. All partitions as one are those that are left."""
    return replace(state, inputs=tuple(_left(state.inputs)), partial=True)


def _left(inputs: Iterable[Input]) -> Iterator[Input]:
    for one in inputs:
        if one.retired is not OnRetire.KEEP:
            yield one
        elif one.partitions:
            yield replace(one, retired=None)


def _passed(state: State, after_ms: int | None, now: datetime) -> datetime | None:
    """Return when a time after the end of the window has passed; None if it has not."""
    if after_ms is None or state.window_ends is None:
        return None
    try:
        at = state.window_ends + milliseconds(after_ms)
    except OverflowError:
        return None
    return at if at <= now else None
