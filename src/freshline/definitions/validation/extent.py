"""Warnings about partitions that lie after the end of the inputs that they follow, so that they read nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from freshline.definitions.partition_edges import Edge, PartitionEdge
from freshline.partitions.axis import TimeLink
from freshline.partitions.calendar import END
from freshline.partitions.mapping import Linked
from freshline.partitions.selection import EVERYTHING, Times


class Beyond(NamedTuple):
    """A workflow whose last partitions read nothing. `asset_id`: the input that ends last."""

    slug: str
    asset_id: str
    message: str


def extent_warnings(edges: Mapping[Edge, PartitionEdge], outputs: Mapping[str, Collection[str]]) -> Iterator[Beyond]:
    """Yield the workflows that have partitions after the end of every input that they follow in time.

    One input that goes on is enough: another may be history that was closed. `outputs`: of each workflow.
    """
    links: dict[str, dict[str, TimeLink]] = defaultdict(dict)
    for (asset_id, slug), found in edges.items():
        for axis in found.mapping.axes:
            if asset_id not in outputs[slug] and isinstance(axis, Linked) and isinstance(axis.link, TimeLink):
                links[slug][asset_id] = axis.link
    for slug, inputs in links.items():
        asset_id, link = max(inputs.items(), key=lambda one: _read_until(one[1]))
        if _read_until(link) <= link.consumer.last:
            yield Beyond(slug, asset_id, _message(asset_id, link))


def _read_until(link: TimeLink) -> int:
    """Return the ordinal of the consumer after the last one that reads a partition of the input."""
    consumer, found = link.consumer, link.down(EVERYTHING)
    if not isinstance(found, Times):
        return consumer.first
    ends = found.ranges[-1].ends
    return consumer.calendar.last + 1 if ends == END else consumer.calendar.ordinal_at(ends)


def _message(asset_id: str, link: TimeLink) -> str:
    ordinal, consumer = _read_until(link), link.consumer
    first, last = consumer.calendar.key(ordinal), link.input.calendar.key(link.input.last)
    some = f"partition {first} reads" if ordinal == consumer.last else f"partitions from {first} on read"
    # A partitioning cannot end before its first partition.
    end = f"; write 'end: {first}'" if ordinal > consumer.first else ""
    return f"{some} no data, because the last partition of input '{asset_id}' is {last}{end}"
