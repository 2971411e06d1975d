"""Partitions in the evaluation of a batch: what its members read, and what is in motion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypedDict

from freshline.decide.motion import Moving
from freshline.decide.partition_motion import MovingPart
from freshline.graph import Graph
from freshline.model.moment import parsed
from freshline.partitions.selection import EVERYTHING, Selection, from_json
from freshline.reading import (
    Expected,
    Known,
    consuming,
    existing,
    expected_inputs,
    fed_by,
    read_as_one,
    readers,
    selection_of,
)
from freshline.store import seen_keys
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.seen_keys import appearing

SQL = load("evaluation")
KEYS = load("partitions")
Key = tuple[int, str]


# A consumer of more partitions than this reads them as one: it compares a digest (docs/semantics.md#R13.4).
MOST_LISTED = 1_000


class Arrays(TypedDict):
    """What partitions read, as arrays: who reads, and what; and who reads all partitions of an asset as one."""

    reading: list[int]
    reading_keys: list[str]
    read_assets: list[str]
    read_keys: list[str]
    whole: list[int]
    whole_keys: list[str]
    whole_assets: list[str]


def known_keys(connection: Connection, graph: Graph) -> Callable[[str], Sequence[str]]:
    """Return a function that reads the dynamic keys of an asset, in the order in which they were first seen."""
    found: dict[str, Sequence[str]] = {}

    def known(asset_id: str) -> Sequence[str]:
        if not graph.partitioning(asset_id).is_dynamic:
            return ()
        if asset_id not in found:
            found[asset_id] = seen_keys.read(connection, asset_id, graph.partitioning(asset_id))
        return found[asset_id]

    return known


class Concerned(NamedTuple):
    """The partitions that events concern, in their order.

    `changed`: they read something that changed, or their workflow was touched. `unchanged`: they read something that
    was produced again with equal data, which matters to some holds only (docs/semantics.md#R9.3).
    """

    changed: list[Key]
    unchanged: list[Key]
    came: Mapping[Key, datetime]  # when those came to exist that did


NOBODY = Concerned([], [], {})


def see(connection: Connection, graph: Graph, events: Iterable[Row]) -> None:
    """Record the keys of dynamic consumers that appear because of changed inputs."""
    changed = [event for event in events if event["kind"] == "changed"]
    found = [appearing(graph, event["asset_id"], event["partition_key"]) for event in changed]
    seen_keys.add(connection, [one for seen in found for one in seen])


def concerned(connection: Connection, graph: Graph, events: Iterable[Row], now: datetime, known: Known) -> Concerned:
    """Return the partitions that events concern."""
    changed: set[Key] = set()
    unchanged: set[Key] = set()
    came: dict[Key, datetime] = {}
    for event in events:
        if event["kind"] == "arrived":
            arrived = dict(_arrived(connection, graph, event, known))
            changed.update(arrived)
            came |= arrived
        elif event["asset_id"] is not None:
            found = changed if event["kind"] == "changed" else unchanged
            found.update(readers(graph, event["asset_id"], event["partition_key"], now, known))
        elif event["workflow_id"] in graph.slugs:
            keys = existing(graph, event["workflow_id"], EVERYTHING, now, known)
            changed.update((event["workflow_id"], key) for key in keys)
    return Concerned(sorted(changed), sorted(unchanged - changed), came)


def _arrived(connection: Connection, graph: Graph, event: Row, known: Known) -> Iterator[tuple[Key, datetime]]:
    """Yield the partitions that came to exist, or, of a source, those that read one that has data already."""
    asset_id, until = event["asset_id"], datetime.fromisoformat(event["at"])
    partitioning, producer = graph.partitioning(asset_id), graph.producer(asset_id)
    selection = partitioning.arrived(datetime.fromisoformat(event["since"]), until)
    if producer is not None:
        for key in existing(graph, producer, selection, until, known):
            yield (producer, key), partitioning.comes_at(key) or until
        return
    keys = list(partitioning.keys(selection, until, known(asset_id)))
    rows = connection.execute(KEYS["with_data"], {"asset": asset_id, "keys": keys}).fetchall()
    for row in rows:
        came_at = partitioning.comes_at(row["partition_key"]) or until
        for unit in readers(graph, asset_id, row["partition_key"], until, known):
            yield unit, came_at


def expected(connection: Connection, graph: Graph, keys: Iterable[Key], now: datetime) -> dict[Key, list[Expected]]:
    """Return what each partition of a batch reads. Workflows whose edges have no partitions are left out."""
    if not graph.partitioned:
        return {}
    known = known_keys(connection, graph)
    mapped = {key for key in keys if graph.is_mapped(key[0])}
    wholes = _wholes(connection, graph, mapped)
    return {key: list(expected_inputs(graph, key, now, known, wholes.get(key, ()))) for key in mapped}


def _wholes(connection: Connection, graph: Graph, keys: Iterable[Key]) -> dict[Key, set[str]]:
    """Return the inputs that partitions read as one.

    An input that the last success read as one stays one when it has fewer partitions: the forms cannot be compared.
    """
    asked = [(*key, asset_id) for key in keys for asset_id in read_as_one(graph, key[0])]
    if not asked:
        return {}
    arrays = {
        "workflows": [workflow_id for workflow_id, _, _ in asked],
        "partitions": [key for _, key, _ in asked],
        "assets": [asset_id for _, _, asset_id in asked],
        "most": MOST_LISTED,
    }
    found: dict[Key, set[str]] = {}
    for row in connection.execute(SQL["large_inputs"], arrays):
        found.setdefault((row["workflow_id"], row["partition_key"]), set()).add(row["asset_id"])
    return found


def arrays(found: Mapping[Key, Sequence[Expected]]) -> Arrays:
    """Return what partitions read as arrays."""
    listed = ((unit, one) for unit, inputs in found.items() for one in inputs if not one.whole)
    rows = [(*unit, one.asset_id, key) for unit, one in listed for key in one.keys]
    wholes = [(*unit, one.asset_id) for unit, inputs in found.items() for one in inputs if one.whole]
    return {
        "whole": [row[0] for row in wholes],
        "whole_keys": [row[1] for row in wholes],
        "whole_assets": [row[2] for row in wholes],
        "reading": [row[0] for row in rows],
        "reading_keys": [row[1] for row in rows],
        "read_assets": [row[2] for row in rows],
        "read_keys": [row[3] for row in rows],
    }


def moving_parts(
    graph: Graph,
    rows: Iterable[Sequence[Any]],
    unconsumed: Iterable[Sequence[Any]],
    arriving: Iterable[Sequence[Any]] = (),
    rests: Iterable[Sequence[Any]] = (),
) -> dict[int, list[MovingPart]]:
    """Return what is in motion: partitions, and selections of them.

    Selections are what events concern that nobody has consumed yet, and the undone rests of backfills.
    """
    parts: dict[int, list[MovingPart]] = {}
    for workflow_id, key, kind, until, cannot_run, origin in rows:
        if workflow_id in graph.slugs and graph.has_unit(workflow_id, key):
            moving = Moving(kind, parsed(until), cannot_run, parsed(origin))
            whole = not key and bool(graph.partitioning_of(workflow_id).columns)  # a note about all of its partitions
            selection = selection_of(graph, workflow_id, key)
            parts.setdefault(workflow_id, []).append(MovingPart(selection, moving, None if whole else key))
    for asset_id, key, origin in unconsumed:
        for workflow_id in consuming(graph, asset_id):
            moving = Moving("unabsorbed", origin=parsed(origin))
            parts.setdefault(workflow_id, []).append(MovingPart(fed_by(graph, asset_id, key, workflow_id), moving))
    for asset_id, since, until in arriving:
        begun, now = datetime.fromisoformat(since), datetime.fromisoformat(until)
        for workflow_id, selection in _arriving(graph, asset_id, graph.partitioning(asset_id).arrived(begun, now)):
            parts.setdefault(workflow_id, []).append(MovingPart(selection, Moving("timer", origin=begun)))
    for workflow_id, rest, until, cannot_run, origin in rests:
        moving = Moving("backfill", parsed(until), cannot_run, parsed(origin))
        parts.setdefault(workflow_id, []).append(MovingPart(from_json(rest), moving))
    return parts


def _arriving(graph: Graph, asset_id: str, arrived: Selection) -> Iterator[tuple[int, Selection]]:
    """Yield the partitions of workflows that partitions of an asset concern which came to exist."""
    producer = graph.producer(asset_id)
    if producer is not None:
        yield producer, arrived
        return
    for workflow_id in consuming(graph, asset_id):
        mapping = graph.mapping(asset_id, workflow_id)
        yield workflow_id, EVERYTHING if mapping is None or mapping.latest else mapping.down_all(arrived)
