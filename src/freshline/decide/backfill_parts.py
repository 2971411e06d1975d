"""The partitions of a backfill: which belong to it, which had no turn yet, and whose turn comes next. Pure.

A part is a selection of partitions of one workflow. Turns are given ancestors first, as far as a partition reads
nothing of the same backfill that has had no turn: so a backfill of many levels goes on at all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from math import ceil

from freshline.graph import Graph
from freshline.partitions.calendar import Window
from freshline.partitions.mapping import NO_VALUES
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.selection import NOTHING, Keys, Selection, Times, keys_of, times_of
from freshline.reading import Known, Newest, existing, fed_by_all, selection_of

MOST_LOOKED_AT = 200
"""How many partitions of a workflow are looked at for one whose turn can come."""

Parts = Mapping[int, Selection]
Unit = tuple[int, str]


def closure(
    graph: Graph,
    workflow_id: int,
    selection: Selection,
    *,
    now: datetime,
    newest: Newest,
    upstream: bool,
    downstream: bool,
) -> Parts:
    """Return the partitions of a backfill: the selected ones, and if asked for what they read, and what reads them."""
    found: dict[int, Selection] = {workflow_id: selection}
    if upstream:
        found = _union(found, _above(graph, workflow_id, selection, newest))
    if downstream:
        found = _union(found, _below(graph, workflow_id, selection, now=now, newest=newest))
    return found


def _above(graph: Graph, workflow_id: int, selection: Selection, newest: Newest | None) -> dict[int, Selection]:
    """Go up, descendants first, so that each workflow is left with all that is read of it."""
    found: dict[int, Selection] = {workflow_id: selection.union(graph.predecessors(workflow_id, selection))}
    left = {workflow_id}
    while left:
        current = max(left, key=lambda one: (graph.level(one), one))
        left.discard(current)
        for asset_id in graph.inputs(current):
            producer = graph.producer(asset_id)
            if producer is None:
                continue
            values = newest.values(asset_id, current) if newest else NO_VALUES
            read = graph.read_of(asset_id, current, found[current], values)
            read = read.union(graph.predecessors(producer, read))
            found[producer] = found.get(producer, NOTHING).union(read)
            left.add(producer)
    return found


def _below(graph: Graph, workflow_id: int, selection: Selection, now: datetime, newest: Newest) -> dict[int, Selection]:
    """Go down, ancestors first."""
    found: dict[int, Selection] = {workflow_id: _with_later(graph, workflow_id, selection)}
    for current in (workflow_id, *graph.descendants(*graph.outputs_of(workflow_id))):
        for asset_id in graph.outputs_of(current) if current in found else ():
            for reader in graph.consumers(asset_id):
                fed = fed_by_all(graph, asset_id, found[current], reader, now=now, newest=newest)
                found[reader] = found.get(reader, NOTHING).union(_with_later(graph, reader, fed))
    return found


def _with_later(graph: Graph, workflow_id: int, selection: Selection) -> Selection:
    own = graph.own_input(workflow_id)
    mapping = graph.mapping(own, workflow_id) if own else None
    return selection if mapping is None or selection.is_empty else mapping.with_later(selection)


def _union(some: Parts, others: Parts) -> dict[int, Selection]:
    return {one: some.get(one, NOTHING).union(others.get(one, NOTHING)) for one in {*some, *others}}


def without(selection: Selection, keys: Collection[str], partitioning: Partitioning, left: Iterable[str]) -> Selection:
    """Return a selection without some of its keys. `left`: its existing keys, where a difference needs them."""
    if not partitioning.columns:
        return NOTHING if keys else selection
    if isinstance(selection, Times):
        return times_of(_difference(selection.ranges, [w for w in map(partitioning.window, keys) if w is not None]))
    if isinstance(selection, Keys):
        return keys_of(selection.keys.difference(keys))
    return partitioning.select(key for key in left if key not in keys)


def _difference(ranges: Iterable[Window], taken: Iterable[Window]) -> Iterator[Window]:
    """Yield what is left of ranges of time."""
    removed = sorted(taken)
    for one in ranges:
        begins = one.begins
        for other in removed:
            if other.ends <= begins or other.begins >= one.ends:
                continue
            yield Window(begins, other.begins)
            begins = max(begins, other.ends)
        yield Window(begins, one.ends)


class Turns:
    """Gives turns to partitions of one backfill. `rests`: those that had none yet, by workflow; it is kept current."""

    def __init__(self, graph: Graph, rests: Parts, now: datetime, known: Known, *, newest_first: bool) -> None:
        self._graph = graph
        self.rests = {one: rest for one, rest in rests.items() if not rest.is_empty}
        self._now = now
        self._known = known
        self._newest_first = newest_first

    def take(self, places: int, sizes: Mapping[int, int] | None = None) -> list[Unit]:
        """Return the partitions whose turn comes, ancestors first, and take them from the rests.

        `places`: how many runs there may be. `sizes`: how many partitions a run computes, of workflows with batches.
        """
        found: list[Unit] = []
        for workflow_id in sorted(self.rests, key=lambda one: (self._graph.level(one), one)):
            if places <= 0:
                break
            size = (sizes or {}).get(workflow_id, 1)
            taken = self._take(workflow_id, places * size)
            places -= ceil(len(taken) / size)
            found += taken
        return found

    def _take(self, workflow_id: int, places: int) -> list[Unit]:
        rest = self.rests[workflow_id]
        if workflow_id not in self._graph.slugs:  # it was retired
            del self.rests[workflow_id]
            return []
        looked_at = islice(self.keys(workflow_id, rest), max(MOST_LOOKED_AT, places))
        ready = (key for key in looked_at if self._is_ready(workflow_id, key))
        keys = list(islice(ready, places))
        partitioning = self._graph.partitioning_of(workflow_id)
        left = without(rest, keys, partitioning, self.keys(workflow_id, rest)) if keys else rest
        if next(iter(self.keys(workflow_id, left)), None) is None:
            del self.rests[workflow_id]
        else:
            self.rests[workflow_id] = left
        return [(workflow_id, key) for key in keys]

    def keys(self, workflow_id: int, selection: Selection) -> Iterator[str]:
        """Yield the existing keys of a selection in the order of the backfill."""
        partitioning = self._graph.partitioning_of(workflow_id)
        if not partitioning.columns:
            return existing(self._graph, workflow_id, selection, self._now, self._known)
        known = self._known(self._graph.outputs_of(workflow_id)[0])
        return partitioning.keys(selection, self._now, known, newest_first=self._newest_first)

    def _is_ready(self, workflow_id: int, key: str) -> bool:
        """Return whether the partition reads nothing of the same backfill that has had no turn."""
        above = [
            one for one in self.rests if one != workflow_id and self._graph.level(one) < self._graph.level(workflow_id)
        ]
        if not above:
            return True
        read = _above(self._graph, workflow_id, selection_of(self._graph, workflow_id, key), None)
        return all(read.get(one, NOTHING).intersection(self.rests[one]).is_empty for one in above)
