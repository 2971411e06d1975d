"""Notes: considerations of all partitions of a workflow in one row, expanded in chunks (docs/semantics.md#R13.13).

A note has no partition key. Each reconcile that claims it replaces the next partitions, newest first, by considerations
of their own. `expanded_to` is the last of them, so a crash between two chunks loses nothing. The rest is in motion.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from psycopg.types.json import Jsonb

from freshline.graph import Graph
from freshline.model.json import Json
from freshline.partitions import document
from freshline.reading import Known, following
from freshline.store import seen_keys
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.evaluation.partitions import MOST_NOTED, known_keys

SQL = load("evaluation")


class _Chunk(NamedTuple):
    """The next partitions of a note, newest first, and what is left of it after them; None: nothing."""

    workflow_id: int
    keys: Sequence[str]
    left: Json | None


def expand(connection: Connection, graph: Graph, workflows: Sequence[int], now: datetime, most: int) -> None:
    """Note up to `most` partitions of the claimed notes of these workflows."""
    known = known_keys(connection, graph)
    share = max(1, min(most, MOST_NOTED) // len(workflows))
    rows = connection.execute(SQL["read_notes"], {"notes": list(workflows)}).fetchall()
    chunks = [_next(graph, row, now, known, share) for row in rows]
    ended = [chunk.workflow_id for chunk in chunks if chunk.left is None]
    units = [(chunk.workflow_id, key, len(chunk.keys) - n) for chunk in chunks for n, key in enumerate(chunk.keys)]
    arrays = {
        "notes": list(workflows),
        "ended": ended,
        "left": Jsonb([chunk.left for chunk in chunks if chunk.left is not None]),
        "workflows": [workflow_id for workflow_id, _, _ in units],
        "partitions": [key for _, key, _ in units],
        "places": [place for _, _, place in units],  # the newest one is evaluated first
    }
    connection.execute(SQL["expand_notes"], arrays)
    if ended:  # those who waited for the note wait for its partitions now
        connection.execute(SQL["wake_waiting"], {"blockers": ended, "blocker_keys": [""] * len(ended)})


def _next(graph: Graph, note: Row, now: datetime, known: Known, share: int) -> _Chunk:
    workflow_id: int = note["workflow_id"]
    keys = list(islice(following(graph, workflow_id, note["expanded_to"], now, known), share + 1))
    total = graph.partitioning_of(workflow_id).count(now, known(graph.outputs_of(workflow_id)[0]))
    row = {"workflow_id": workflow_id, "keys_left": total}
    if len(keys) > share:
        if note["again_at"] is None:
            before = total if note["keys_left"] is None else note["keys_left"]
            row["keys_left"] = max(1, before - share)
        return _Chunk(workflow_id, keys[:share], {**row, "expanded_to": keys[share - 1], "noted_at": None})
    if note["again_at"] is not None:
        return _Chunk(workflow_id, keys, {**row, "expanded_to": None, "noted_at": note["again_at"].isoformat()})
    return _Chunk(workflow_id, keys, None)


def count(connection: Connection, workflows: Sequence[int]) -> None:
    """Store how many partitions the new notes of these workflows stand for."""
    rows = connection.execute(SQL["uncounted_notes"], {"workflows": list(workflows)}).fetchall()
    found: dict[int, int] = {}
    for row in rows:
        partitioning = document.from_json(row["partitioning"])
        known = seen_keys.read(connection, row["asset_id"], partitioning)
        found[row["workflow_id"]] = partitioning.count(row["now"], known)
    if found:
        connection.execute(SQL["count_notes"], {"workflows": list(found), "counts": list(found.values())})
