"""Which partitions of an input a run reads: those that have data, if enough of them have (docs/semantics.md#R13.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from freshline.graph import Graph
from freshline.model.enums import OnRetire
from freshline.model.state import Input, Pending, State, Version
from freshline.partitions.declaration import Affects
from freshline.partitions.requirements import Readiness, Requirement, assess
from freshline.reading import Expected, is_kept


class Present(NamedTuple):
    """The inputs that count. Those without data are left out unless they are missing.

    `partial`: the grace has passed, and a run reads what there is. `grace_ends`: when that is; None: never.
    `came_at`: when the partition itself came to exist; None: not with the time. `window_ends`: when its window ends.
    """

    inputs: Sequence[Input]
    partial: bool = False
    grace_ends: datetime | None = None
    came_at: datetime | None = None
    window_ends: datetime | None = None


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
        _present(
            one,
            [left for given in read(one) if (left := _after_retention(graph, workflow_id, given, now)) is not None],
            graph.requirement(one.asset_id, workflow_id),
            window_ends=ends,
            now=now,
        )
        for one in expected
    ]
    return Present(
        [one for part in found for one in part.inputs],
        any(part.partial for part in found),
        min((part.grace_ends for part in found if part.grace_ends), default=None),
        partitioning.comes_at(partition_key) if partition_key else None,
        ends,
    )


def with_present(state: State, found: Present) -> State:
    """Return the state of a partition with the inputs that count."""
    return replace(
        state,
        inputs=tuple(found.inputs),
        partial=found.partial,
        grace_ends=found.grace_ends,
        came_at=found.came_at,
        window_ends=found.window_ends,
    )


def _present(
    expected: Expected, found: Sequence[Input], requirement: Requirement, *, window_ends: datetime | None, now: datetime
) -> Present:
    """Return what a run may read of the expected partitions of one input."""
    if expected.whole:
        return _present_whole(expected, found, requirement)
    if expected.affects is Affects.NONE:
        found = [replace(one, concerns=False, pending=None) for one in found]
    left = [one for one in found if one.retired is None]
    if not left and expected.keys and all(one.retired is not OnRetire.KEEP for one in found):
        return Present([*found, Input(expected.asset_id)])  # retention has removed all: views would have no columns
    with_data = {one.partition_key for one in left if one.head is not None}
    assessed = assess(
        requirement,
        [one.partition_key for one in left],
        with_data,
        window_ends=window_ends,
        now=now,
        outside=expected.outside,
    )
    if assessed.readiness is Readiness.MISSING:
        return Present(found or [Input(expected.asset_id)], grace_ends=assessed.grace_ends)
    partial = assessed.readiness is Readiness.PARTIAL
    return Present([one for one in found if not one.missing], partial)


def _after_retention(graph: Graph, workflow_id: int, one: Input, now: datetime) -> Input | None:
    """Return an input as retention leaves it; None if it does not count any more (docs/semantics.md#R13.15)."""
    in_time = one.partitions is not None or is_kept(graph, one.asset_id, one.partition_key, now)
    if one.retired_at is None and (one.head is not None or in_time):
        return one
    if one.partitions is not None:  # its digest has what was removed
        return replace(one, retired=OnRetire.KEEP)
    if graph.on_retire(one.asset_id, workflow_id) is OnRetire.KEEP:
        last = Version(one.head.sequence, one.head.data_version) if one.head else one.consumed
        return replace(one, consumed=last, pending=None, retired=OnRetire.KEEP)
    if one.consumed is None or one.retired_at is None:
        return None
    pending = Pending(one.retired_at, one.retired_at, 1, origin=one.retired_at)
    return replace(one, head=None, pending=pending, retired=OnRetire.RECOMPUTE)


def _present_whole(expected: Expected, found: Sequence[Input], requirement: Requirement) -> Present:
    """Return all partitions of an input as one, if enough of them have data. No grace ends: they have no one window."""
    [whole] = found
    if whole.retired is not None:
        return Present(found)
    enough = (whole.partitions or 0) >= requirement.needed(len(expected.keys))
    return Present([whole if enough else replace(whole, head=None)])
