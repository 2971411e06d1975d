"""Finds partitions that nothing would evaluate, a slice of them per sweep (docs/semantics.md#R11.5).

A slice is as many partitions as read about 20,000 partitions of inputs. One statement compares them with what was
consumed. The few that differ, and that miss no input, are decided as an evaluation would: so holds that need no
evaluation are no findings. The position of the slice is in the database, and all processes share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from freshline.decide.causes import AnyWalk
from freshline.decide.decide import decide
from freshline.graph import Graph
from freshline.model.enums import Outcome
from freshline.partitions.requirements import Readiness, assess
from freshline.reading import Expected, following
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.evaluation import load_state, partitions
from freshline.store.evaluation.load_state import LoadedWorkflow
from freshline.store.evaluation.partitions import known_keys

SQL = load("evaluation")
MOST_COMPARED = 20_000
"""How many partitions of inputs one sweep compares, about: it ends with the partition that passes this."""
FEW = 10
MOST_AT_ONCE = 2_000
MOST_DECIDED = 200

Key = tuple[int, str]


class _Slice(NamedTuple):
    """Partitions with what they read, and the last of them; None: there is none after it."""

    expected: Mapping[Key, Sequence[Expected]]
    last: Key | None


def forgotten(connection: Connection, graph: Graph, now: datetime) -> list[Key]:
    """Return the partitions of the next slice that nothing would evaluate, and move the position behind the slice."""
    row = connection.execute(SQL["lock_sweep"]).fetchone()
    if row is None:  # another process is sweeping
        return []
    found = _take(connection, graph, now, row)
    workflow_id, key = found.last or (None, None)
    connection.execute(SQL["move_sweep"], {"workflow": workflow_id, "partition": key})
    units = {
        "workflows": [workflow_id for workflow_id, _ in found.expected],
        "partitions": [key for _, key in found.expected],
    }
    rows = connection.execute(SQL["suspects"], {**units, **partitions.arrays(found.expected)}).fetchall()
    suspects = [key for key, counts in map(_counted, rows) if _may_run(graph, key, found.expected[key], counts, now)]
    evaluated = _evaluated(connection, graph, suspects)
    return [key for key in suspects if key in evaluated]


def _take(connection: Connection, graph: Graph, now: datetime, position: Row) -> _Slice:
    """Return the next partitions by workflow, the newest first."""
    known = known_keys(connection, graph)
    found: dict[Key, Sequence[Expected]] = {}
    start, left = position["workflow_id"] or 0, MOST_COMPARED
    for workflow_id in sorted(one for one in graph.slugs if one >= start and _is_swept(graph, one)):
        last = position["partition_key"] if workflow_id == start else None
        keys, size = following(graph, workflow_id, last, now, known), FEW
        while units := [(workflow_id, key) for key in islice(keys, size)]:
            expected = partitions.expected(connection, graph, units, now)
            found |= expected
            cost = sum(1 + sum(len(one.keys) for one in inputs) for inputs in expected.values())
            left -= cost
            if left <= 0:
                return _Slice(found, units[-1])
            size = max(1, min(MOST_AT_ONCE, left * len(units) // cost))
    return _Slice(found, None)


def _is_swept(graph: Graph, workflow_id: int) -> bool:
    """Return whether the workflow starts by itself, and it or an input has partitions."""
    return graph.is_mapped(workflow_id) and workflow_id not in graph.not_automatic


def _counted(row: Row) -> tuple[Key, Mapping[str, int]]:
    return (row["workflow_id"], row["partition_key"]), row["found"] or {}


def _may_run(graph: Graph, unit: Key, expected: Sequence[Expected], found: Mapping[str, int], now: datetime) -> bool:
    """Return whether enough partitions of each input have data: otherwise an event evaluates the partition."""
    workflow_id, key = unit
    window = graph.partitioning_of(workflow_id).window(key) if key else None
    return all(
        assess(
            graph.requirement(one.asset_id, workflow_id),
            one.keys,
            one.keys[: found.get(one.asset_id, 0)],  # only their number counts
            window_ends=window.ends if window else None,
            now=now,
            outside=one.outside,
        ).readiness
        is not Readiness.MISSING
        for one in expected
        if not one.whole
    )


def _evaluated(connection: Connection, graph: Graph, units: Sequence[Key]) -> set[Key]:
    """Return the partitions that an evaluation would run, or evaluate again."""
    found: set[Key] = set()
    for start in range(0, len(units), MOST_DECIDED):
        keys = dict.fromkeys(units[start : start + MOST_DECIDED], 0)
        not_automatic = graph.not_automatic_above(workflow_id for workflow_id, _ in keys)
        state = load_state.read(connection, graph, keys, None, not_automatic)
        walk = state.walk(graph)
        found.update(one.key for one in state.loaded if _needs_evaluation(one, state.now, walk))
    return found


def _needs_evaluation(loaded: LoadedWorkflow, now: datetime, walk: AnyWalk) -> bool:
    try:
        decision = decide(loaded.policy, loaded.state, now, walk)
    except Exception:  # noqa: BLE001 - an evaluation makes the error visible
        return True
    return decision.run is not None or decision.next_evaluation is not None or decision.outcome is Outcome.ERROR
