"""What a backfill costs and in which state its partitions are: measured, and key by key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby, islice
from math import ceil

from freshline.decide.backfill_parts import closure
from freshline.graph import Graph
from freshline.model.documents.backfill import Downstream
from freshline.model.documents.partition import PartitionRange
from freshline.partitions.selection import Selection, from_json
from freshline.reading import Known, existing
from freshline.store.backfills.selecting import Catalogue, Part
from freshline.store.db.database import Row
from freshline.store.db.queries import load
from freshline.store.evaluation.newest import StoredNewest

SQL = load("backfills")
MOST_COUNTED = 100_000
"""How many partitions below a backfill are counted."""
MOST_RANGES = 1_000
"""How many ranges of equal states a backfill shows per workflow."""


def runs_of(partitions: int, batch: int) -> int:
    """Return how many runs compute so many partitions."""
    return ceil(partitions / batch)


def sizes(there: Catalogue, parts: Sequence[Part]) -> dict[int, Row]:
    """Return the rows and bytes of the current versions of partitions, per workflow."""
    graph, now, known = there.graph, there.now, there.known
    units = [
        (part.workflow_id, key)
        for part in parts
        for key in existing(graph, part.workflow_id, part.selection, now, known)
    ]
    arrays = {"workflows": [unit[0] for unit in units], "keys": [unit[1] for unit in units]}
    return {row["workflow_id"]: row for row in there.connection.execute(SQL["sizes"], arrays)}


def below(there: Catalogue, parts: Sequence[Part]) -> list[Downstream]:
    """Return what reads the partitions of a backfill and is not part of it: it runs if its inputs change."""
    graph, now, known = there.graph, there.now, there.known
    own = {part.workflow_id for part in parts}
    newest = StoredNewest(there.connection, graph, now)
    found: dict[int, Selection] = {}
    for part in parts:
        for workflow_id, selection in closure(
            graph, part.workflow_id, part.selection, now=now, newest=newest, upstream=False, downstream=True
        ).items():
            if workflow_id not in own:
                found[workflow_id] = found[workflow_id].union(selection) if workflow_id in found else selection
    return [
        {"workflowSlug": graph.slugs[one], "partitions": count}
        for one in sorted(found, key=lambda w: (graph.level(w), w))
        if (count := sum(1 for _ in islice(existing(graph, one, found[one], now, known), MOST_COUNTED)))
    ]


def states(there: Catalogue, backfill_id: str, parts: Sequence[Row]) -> dict[int, list[PartitionRange]]:
    """Return the states of the partitions of each workflow of a backfill, newest first. Equal ones are one range."""
    graph, now, known = there.graph, there.now, there.known
    moving: dict[int, dict[str, str]] = {}
    for row in there.connection.execute(SQL["partition_states"], {"id": backfill_id}):
        moving.setdefault(row["workflow_id"], {})[row["partition_key"]] = row["state"]
    return {
        one: list(islice(_ranges(graph, part, moving.get(one, {}), now, known), MOST_RANGES))
        for part in parts
        for one in (part["workflow_id"],)
        if one in graph.slugs
    }


def _ranges(
    graph: Graph, part: Row, moving: Mapping[str, str], now: datetime, known: Known
) -> Iterator[PartitionRange]:
    workflow_id = part["workflow_id"]
    keys = existing(graph, workflow_id, from_json(part["selection"]), now, known)
    rest = None if part["rest"] is None else set(existing(graph, workflow_id, from_json(part["rest"]), now, known))
    yield from _joined(
        (key, moving.get(key) or ("rest" if rest is not None and key in rest else "done")) for key in keys
    )


def _joined(pairs: Iterable[tuple[str, str]]) -> Iterator[PartitionRange]:
    for state, found in groupby(pairs, lambda pair: pair[1]):
        keys = [key for key, _ in found]
        yield {"state": state, "from": keys[-1], "to": keys[0], "count": len(keys)}
