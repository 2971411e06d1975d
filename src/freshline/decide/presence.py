"""Which partitions of an input a run reads: those that have data, if enough of them have (docs/semantics.md#R13.2)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from freshline.model.state import Input
from freshline.partitions.requirements import Readiness, Requirement, assess


class Present(NamedTuple):
    """The inputs of one asset that count. Those without data are left out unless they are missing.

    `partial`: the grace has passed, and a run reads what there is. `grace_ends`: when that is; None: never.
    """

    inputs: Sequence[Input]
    partial: bool = False
    grace_ends: datetime | None = None


def present(
    asset_id: str,
    found: Sequence[Input],
    requirement: Requirement,
    *,
    window_ends: datetime | None,
    now: datetime,
    outside: bool,
) -> Present:
    """Return what a run may read of the expected partitions of one input.

    `outside`: the input has no such partition by definition, so that none is missing.
    """
    expected = [one.partition_key for one in found]
    with_data = {one.partition_key for one in found if one.head is not None}
    assessed = assess(requirement, expected, with_data, window_ends=window_ends, now=now, outside=outside)
    if assessed.readiness is Readiness.MISSING:
        return Present(found or [Input(asset_id)], grace_ends=assessed.grace_ends)
    partial = assessed.readiness is Readiness.PARTIAL
    return Present([one for one in found if one.head is not None], partial)
