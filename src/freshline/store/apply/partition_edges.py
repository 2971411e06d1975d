"""The partitionings and mappings of the stored catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from freshline.definitions.partition_edges import edge_between
from freshline.model.enums import OnRetire
from freshline.model.policy import InputPartitions
from freshline.partitions import Partitioning, PartitionMapping, Requirement, Unpartitioned, document

Edge = tuple[str, int]


class StoredPartitions(NamedTuple):
    """The partitionings of assets, and what each consumer reads of its inputs."""

    partitionings: dict[str, Partitioning]
    mappings: dict[Edge, PartitionMapping]
    requirements: dict[Edge, Requirement]
    on_retire: dict[Edge, OnRetire]


def stored_partitions(
    producers: Mapping[str, int], stored: Mapping[str, Any], declared: Iterable[Sequence[Any]]
) -> StoredPartitions:
    """Return the mappings of all edges of which one side has partitions. `apply` has refused those that cannot be."""
    partitionings = {asset_id: document.from_json(one) for asset_id, one in stored.items()}
    by_workflow = {producers[one]: found for one, found in partitionings.items() if one in producers}
    found = StoredPartitions(partitionings, {}, {}, {})
    for asset_id, workflow_id, partitions in declared:
        edge = edge_between(
            partitionings.get(asset_id, Unpartitioned()),
            by_workflow.get(workflow_id, Unpartitioned()),
            InputPartitions.from_json(partitions) if partitions else None,
            own_output=producers.get(asset_id) == workflow_id,
        )
        found.mappings[asset_id, workflow_id] = edge.mapping
        found.requirements[asset_id, workflow_id] = edge.requirement
        found.on_retire[asset_id, workflow_id] = edge.on_retire
    return found
