"""Which partitions of an input a run reads: those that have data, if enough of them have (docs/semantics.md#R13.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from freshline.graph import Graph
from freshline.model.state import Input, State
from freshline.partitions.requirements import Readiness, Requirement, assess
from freshline.reading import Expected


class Present(NamedTuple):
    """The inputs that count. Those without data are left out unless they are missing.

    `partial`: the grace has passed, and a run reads what there is. `grace_ends`: when that is; None: never.
    `came_at`: when the partition itself came to exist; None: not with the time.
    """

    inputs: Sequence[Input]
    partial: bool = False
    grace_ends: datetime | None = None
    came_at: datetime | None = None


def present_inputs(
    graph: Graph,
    unit: tuple[int, str],
    expected: Iterable[Expected],
    read: Callable[[Expected], Sequence[Input]],
    now: datetime,
) -> Present:
    """Return the inputs of a partition that count. `read` returns those of one asset, with and without data."""
    workflow_id, partition_key = unit
    partitioning = graph.partitioning_of(workflow_id)
    window = partitioning.window(partition_key) if partition_key else None
    ends = window.ends if window else None
    found = [
        _present(one, read(one), graph.requirement(one.asset_id, workflow_id), window_ends=ends, now=now)
        for one in expected
    ]
    return Present(
        [one for part in found for one in part.inputs],
        any(part.partial for part in found),
        min((part.grace_ends for part in found if part.grace_ends), default=None),
        partitioning.comes_at(partition_key) if partition_key else None,
    )


def with_present(state: State, found: Present) -> State:
    """Return the state of a partition with the inputs that count."""
    return replace(
        state,
        inputs=tuple(found.inputs),
        partial=found.partial,
        grace_ends=found.grace_ends,
        came_at=found.came_at,
    )


def _present(
    expected: Expected, found: Sequence[Input], requirement: Requirement, *, window_ends: datetime | None, now: datetime
) -> Present:
    """Return what a run may read of the expected partitions of one input."""
    if expected.whole:
        return _present_whole(expected, found, requirement)
    with_data = {one.partition_key for one in found if one.head is not None}
    assessed = assess(
        requirement,
        [one.partition_key for one in found],
        with_data,
        window_ends=window_ends,
        now=now,
        outside=expected.outside,
    )
    if assessed.readiness is Readiness.MISSING:
        return Present(found or [Input(expected.asset_id)], grace_ends=assessed.grace_ends)
    partial = assessed.readiness is Readiness.PARTIAL
    return Present([one for one in found if one.head is not None], partial)


def _present_whole(expected: Expected, found: Sequence[Input], requirement: Requirement) -> Present:
    """Return all partitions of an input as one, if enough of them have data. No grace ends: they have no one window."""
    [whole] = found
    enough = (whole.partitions or 0) >= requirement.needed(len(expected.keys))
    return Present([whole if enough else replace(whole, head=None)])
