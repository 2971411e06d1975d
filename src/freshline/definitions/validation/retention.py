"""Warnings about partitions that are removed before a consumer needs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from freshline import duration
from freshline.definitions.partition_edges import Edge, PartitionEdge
from freshline.model.policy import Policy
from freshline.partitions import Grain
from freshline.partitions.axis import TimeLink
from freshline.partitions.mapping import Linked

_DAY = duration.UNITS["d"]
# The longest windows of a grain: a day of 25 hours, a leap year.
_LONGEST_MS = {
    Grain.MINUTE: duration.UNITS["m"],
    Grain.HOUR: duration.UNITS["h"],
    Grain.DAY: 25 * duration.UNITS["h"],
    Grain.WEEK: 7 * _DAY + duration.UNITS["h"],
    Grain.MONTH: 31 * _DAY + duration.UNITS["h"],
    Grain.YEAR: 366 * _DAY,
}


def retention_warnings(
    edges: Mapping[Edge, PartitionEdge], policies: Mapping[str, Policy]
) -> Iterator[tuple[Edge, str]]:
    """Yield the edges whose input is kept for a shorter time than one partition of the consumer reaches back."""
    kept = {
        output.asset_id: policy.retain_ms
        for policy in policies.values()
        for output in policy.outputs
        if policy.retain_ms is not None
    }
    for edge, found in edges.items():
        retain = kept.get(edge[0])
        needed = max((_reach(axis.link) for axis in found.mapping.axes if isinstance(axis, Linked)), default=0)
        if retain is not None and retain < needed:
            reach = duration.as_text(_whole_days(needed))
            message = (
                f"'retain' of the input is {duration.as_text(retain)}, and a partition of this workflow reads what"
            )
            yield edge, f"{message} is up to {reach} old; write a longer 'retain'"


def _reach(link: object) -> int:
    """Return how old the oldest partition of the input is when the consumer's window ends, in milliseconds."""
    if not isinstance(link, TimeLink):
        return 0
    return _LONGEST_MS[link.consumer.grain] + max(0, -link.first) * _LONGEST_MS[link.input.grain]


def _whole_days(ms: int) -> int:
    return -(-ms // _DAY) * _DAY if ms > _DAY else ms
