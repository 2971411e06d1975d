"""What the flood guard needs in the state of a batch: counts, what proposals list, and which partitions are newest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from freshline.graph import Graph
from freshline.model.policy import Policy
from freshline.model.staleness import FloodCounts, Listed, Staleness
from freshline.model.state import State
from freshline.reading import Known, is_newest, later_in_chain
from freshline.store.db.database import Row

Key = tuple[int, str]


class Guard(NamedTuple):
    """What was read about the flood guard."""

    graph: Graph
    known: Known
    counts: Mapping[int, FloodCounts]
    listed: Mapping[Key, Listed]
    asked: frozenset[datetime]
    now: datetime

    def apply(self, policy: Policy, state: State) -> State:
        """Return the state of a workflow partition with what the flood guard needs."""
        key = (state.workflow_id, state.partition_key)
        counts = self.counts.get(state.workflow_id) if state.partition_key else None
        newest = is_newest(self.graph, key, self.now, self.known)
        guarded = counts is not None and not newest
        later = later_in_chain(self.graph, key, self.now, self.known, policy.flood.limit) if guarded else 0
        return replace(state, flood=counts, newest=newest, later=later, listed=self.listed.get(key), asked=self.asked)


def guarded(graph: Graph, keys: Iterable[Key]) -> list[int]:
    """Return the workflows of a batch whose partitions count: those of which some are newer than others."""
    workflows = sorted({workflow_id for workflow_id, key in keys if key})
    return [one for one in workflows if graph.partitioning_of(one).columns]


def guard(graph: Graph, known: Known, row: Row, now: datetime) -> Guard:
    """Return what a row of `load_states` says."""
    counts = {workflow_id: FloodCounts(stale, own) for workflow_id, stale, own in row["floods"] or ()}
    listed = {
        (workflow_id, key): Listed(str(backfill_id), Staleness.from_json(staleness), approved)
        for workflow_id, key, backfill_id, staleness, approved in row["listed"] or ()
    }
    asked = frozenset(datetime.fromisoformat(at) for at in row["asked"] or ())
    return Guard(graph, known, counts, listed, asked, now)
