"""Which partitions of a backfill are stale now: a backfill of stale ones computes these, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from freshline.decide.backfill_parts import closure
from freshline.decide.demands import is_stale
from freshline.partitions.selection import EVERYTHING, NOTHING, Selection
from freshline.reading import existing
from freshline.store.backfills.selecting import Catalogue, Part
from freshline.store.evaluation import load_state
from freshline.store.evaluation.newest import StoredNewest

MOST_LOOKED_AT = 10_000
"""Of a backfill with more partitions all count: the evaluation of each costs."""
MOST_AT_ONCE = 500


def stale_parts(there: Catalogue, parts: Sequence[Part], *, newest_first: bool) -> list[Part]:
    """Return the parts, ancestors first, with those of their partitions that are stale now, or that read such a one.

    A demand for a partition that is not stale ends without a run (docs/semantics.md#R14.2).
    """
    if sum(part.total for part in parts) > MOST_LOOKED_AT:
        return list(parts)
    graph, below = there.graph, dict[int, Selection]()
    newest = StoredNewest(there.connection, graph, there.now)
    found: list[Part] = []
    for part in parts:
        partitioning = graph.partitioning_of(part.workflow_id)
        keys = list(existing(graph, part.workflow_id, part.selection, there.now, there.known))
        stale = set(_stale(there, part.workflow_id, keys))
        follows = below.get(part.workflow_id, NOTHING)
        wanted = [key for key in keys if key in stale or follows.contains(key, partitioning)]
        if not wanted:
            continue
        selection = partitioning.select(wanted) if partitioning.columns else EVERYTHING
        first, last = (wanted[0], wanted[-1]) if newest_first else (wanted[-1], wanted[0])
        found.append(replace(part, selection=selection, total=len(wanted), first=first, last=last))
        changed = closure(
            graph, part.workflow_id, selection, now=there.now, newest=newest, upstream=False, downstream=True
        )
        for one, fed in changed.items():
            below[one] = below.get(one, NOTHING).union(fed)
    return found


def _stale(there: Catalogue, workflow_id: int, keys: Sequence[str]) -> Iterator[str]:
    left = iter(keys)
    while some := list(islice(left, MOST_AT_ONCE)):
        units = {(workflow_id, key): 0 for key in some}
        for one in load_state.read(there.connection, there.graph, units, above=[]).loaded:
            if is_stale(one.state):
                yield one.state.partition_key
