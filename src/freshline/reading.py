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

    `outside`: the input has no such partition by definition, so that none is missing. `whole`: it reads all of them as
    one; then `keys` is what there should be, where a requirement asks for it.
    """

    asset_id: str
    keys: list[str]
    outside: bool
    whole: bool = False


def expected_inputs(
    graph: Graph, unit: tuple[int, str], now: datetime, known: Known, wholes: Collection[str] = ()
) -> Iterator[Expected]:
    """Yield what a partition of a workflow reads, per input. Earlier partitions of its own output are one too.

    `wholes`: the inputs that it reads as one, because they have very many partitions.
    """
    workflow_id, key = unit
    own = selection_of(graph, workflow_id, key)
    earlier = graph.own_input(workflow_id)
    for asset_id in (*graph.inputs(workflow_id), *((earlier,) if earlier else ())):
        partitioning = graph.partitioning(asset_id)
        if not partitioning.columns:
            yield Expected(asset_id, [""], outside=False)
            continue
        read = graph.read_of(asset_id, workflow_id, own)
        whole = asset_id in wholes
        counted = not whole or graph.requirement(asset_id, workflow_id).percent > 0
        keys = list(partitioning.keys(read, now, known(asset_id), newest_first=False)) if counted else []
        yield Expected(asset_id, keys, read.is_empty, whole)


def read_as_one(graph: Graph, workflow_id: int) -> Iterator[str]:
    """Yield the inputs of which a workflow reads all partitions, whatever its own is."""
    for asset_id in graph.inputs(workflow_id):
        mapping = graph.mapping(asset_id, workflow_id)
        if graph.partitioning(asset_id).columns and mapping is not None and mapping.reads_all:
            yield asset_id


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
