"""Resolves which partitions of each input a workflow reads: a mapping per edge.

A mapping follows from the partitions of the input, those of the consumer, and what the consumer declares. The input may
belong to another project, so the mapping of such an edge is known when a project is applied, not when it is loaded.
Loading, applying and the graph resolve edges here, from compiled policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from freshline.errors import PartitioningError
from freshline.model.enums import OnRetire
from freshline.model.policy import InputPartitions, InputPolicy, Policy
from freshline.partitions import Partitioning, PartitionMapping, Requirement, mapping_between, requirements
from freshline.partitions import declaration as declarations
from freshline.partitions import document as documents
from freshline.partitions.compatibility import default_requirement, described
from freshline.partitions.mapping import axes_of
from freshline.partitions.time_partitioning import TimePartitioning

Edge = tuple[str, str]  # an asset id, and the slug of the workflow that consumes it
_UNDECLARED = InputPartitions()


@dataclass(frozen=True)
class PartitionEdge:
    """How a workflow reads the partitions of an input.

    `time_column`: the column by which rows are cut to the consumer's window. `on_retire`: what happens to a partition
    when retention removes one that it read.
    """

    mapping: PartitionMapping
    requirement: Requirement
    on_retire: OnRetire
    time_column: str | None = None


@dataclass(frozen=True)
class RefusedEdge:
    """An edge that cannot be. `field`: of the `partitions` block, if one field alone is wrong."""

    edge: Edge
    message: str
    hint: str | None = None
    field: str | None = None


@dataclass(frozen=True)
class PartitionEdges:
    """The resolved edges and the refused ones."""

    resolved: Mapping[Edge, PartitionEdge]
    refused: tuple[RefusedEdge, ...]


class _Refusal(PartitioningError):
    """A refusal that concerns one field."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message, hint=f"remove {field}")
        self.field = field


def resolve(policies: Mapping[str, Policy], partitionings: Mapping[str, Partitioning]) -> PartitionEdges:
    """Resolve every edge to or from partitions.

    `policies`: by slug. `partitionings`: of all known assets, also of those without partitions. An edge of an unknown
    asset is left out: nothing follows from it yet.
    """
    resolved: dict[Edge, PartitionEdge] = {}
    refused: list[RefusedEdge] = []
    for slug, policy in policies.items():
        consumer = documents.from_json(policy.partitioning)
        for item, own in _inputs(policy):
            read = partitionings.get(item.asset_id)
            if read is None or not (axes_of(read) or axes_of(consumer) or item.partitions):
                continue
            edge = (item.asset_id, slug)
            try:
                resolved[edge] = edge_between(read, consumer, item.partitions, own_output=own)
            except PartitioningError as error:
                refused.append(RefusedEdge(edge, error.message, error.hint, getattr(error, "field", None)))
    return PartitionEdges(resolved, tuple(refused))


def edge_between(
    read: Partitioning, consumer: Partitioning, declared: InputPartitions | None, *, own_output: bool = False
) -> PartitionEdge:
    """Return how a consumer reads the partitions of an input. Raise `PartitioningError` if it cannot be.

    `own_output`: the consumer produces the input itself.
    """
    block = declared or _UNDECLARED
    stated = declarations.from_json(block.mapping)
    _require_effect(block, stated, read, consumer)
    mapping = mapping_between(read, consumer, stated, own_output=own_output)
    default = default_requirement(mapping)
    return PartitionEdge(
        mapping=mapping,
        requirement=Requirement(*_required(block, default), grace_ms=block.grace_ms),
        on_retire=block.on_retire or (OnRetire.RECOMPUTE if default == requirements.ANY else OnRetire.KEEP),
        time_column=stated.time_column,
    )


def has_time(partitioning: Partitioning) -> bool:
    """Return whether partitions have a window of time."""
    return any(isinstance(axis, TimePartitioning) for axis in axes_of(partitioning))


def _inputs(policy: Policy) -> Iterator[tuple[InputPolicy, bool]]:
    yield from ((item, False) for item in policy.inputs)
    yield from ((item, True) for item in policy.predecessors)


def _required(block: InputPartitions, default: Requirement) -> tuple[int, int]:
    found = requirements.from_json(block.require, default=default)
    return found.percent, found.count


def _require_effect(
    block: InputPartitions, stated: declarations.Declaration, read: Partitioning, consumer: Partitioning
) -> None:
    """Refuse fields that would have no effect: their author expects one."""
    if not axes_of(read):
        for field in _given_fields(block):
            raise _Refusal(field, f"{field} is about partitions, and the input has none")
    if has_time(consumer):
        return
    for field in (["grace"] if block.grace_ms is not None else []) + (["timeColumn"] if stated.time_column else []):
        raise _Refusal(
            field, f"{field} is about the window of the consumer's partitions, and it has {described(consumer)}"
        )


def _given_fields(block: InputPartitions) -> Iterable[str]:
    given = {"require": block.require, "grace": block.grace_ms, "onRetire": block.on_retire}
    return [field for field, value in given.items() if value is not None]
