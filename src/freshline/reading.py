"""Which partitions of its inputs a partition reads, and which partitions read a partition, at one moment. Pure.

The mappings of the graph say what belongs together. This module adds what exists: windows that have ended, and dynamic
keys that were seen (docs/semantics.md#R13.2).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from typing import NamedTuple

from freshline.graph import Graph
from freshline.partitions.selection import EVERYTHING, Selection

Known = Callable[[str], Collection[str]]  # the dynamic keys of an asset that were seen, in their order


class Expected(NamedTuple):
    """The partitions of one input that a partition reads if they have data.

    `outside`: the input has no such partition by definition, so that none is missing.
    """

    asset_id: str
    keys: list[str]
    outside: bool


def expected_inputs(graph: Graph, workflow_id: int, key: str, now: datetime, known: Known) -> Iterator[Expected]:
    """Yield what a partition of a workflow reads, per input. Earlier partitions of its own output are one too."""
    own = selection_of(graph, workflow_id, key)
    earlier = graph.own_input(workflow_id)
    for asset_id in (*graph.inputs(workflow_id), *((earlier,) if earlier else ())):
        partitioning = graph.partitioning(asset_id)
        if not partitioning.columns:
            yield Expected(asset_id, [""], outside=False)
            continue
        read = graph.read_of(asset_id, workflow_id, own)
        keys = list(partitioning.keys(read, now, known(asset_id), newest_first=False))
        yield Expected(asset_id, keys, outside=read.is_empty)


def readers(graph: Graph, asset_id: str, key: str, now: datetime, known: Known) -> Iterator[tuple[int, str]]:
    """Yield the existing partitions of workflows that read a partition of an asset, the newest first."""
    for workflow_id in consuming(graph, asset_id):
        fed = fed_by(graph, asset_id, key, workflow_id)
        for one in existing(graph, workflow_id, fed, now, known):
            yield workflow_id, one


def consuming(graph: Graph, asset_id: str) -> tuple[int, ...]:
    """Return the workflows that read an asset, its producer among them if it reads earlier partitions of it."""
    producer = graph.producer(asset_id)
    own = (producer,) if producer is not None and graph.own_input(producer) == asset_id else ()
    return (*graph.consumers(asset_id), *own)


def fed_by(graph: Graph, asset_id: str, key: str, workflow_id: int) -> Selection:
    """Return the partitions of a workflow that read a partition of an asset, whether they exist or not."""
    mapping = graph.mapping(asset_id, workflow_id)
    return EVERYTHING if mapping is None or mapping.latest else mapping.down(key)


def existing(graph: Graph, workflow_id: int, selection: Selection, now: datetime, known: Known) -> Iterator[str]:
    """Yield the keys of a selection that exist, the newest first; the empty key for a workflow without partitions."""
    partitioning = graph.partitioning_of(workflow_id)
    if not partitioning.columns:
        yield ""
    elif not selection.is_empty:
        yield from partitioning.keys(selection, now, known(graph.outputs_of(workflow_id)[0]))


def selection_of(graph: Graph, workflow_id: int, key: str) -> Selection:
    """Return one partition of a workflow as a selection."""
    return graph.partitioning_of(workflow_id).select([key]) if key else EVERYTHING
