"""Partitions in the evaluation of a batch: what its members read, and what is in motion."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple, TypedDict

from freshline.decide.motion import Moving
from freshline.decide.partition_motion import MovingPart, feeding
from freshline.graph import Graph
from freshline.model.moment import parsed
from freshline.partitions.declaration import Affects
from freshline.partitions.selection import EVERYTHING, NOTHING, Selection, from_json
from freshline.reading import (
    Change,
    Expected,
    Known,
    Newest,
    consuming,
    earlier,
    existing,
    expected_inputs,
    fed_by,
    read_as_one,
    readers,
    selection_of,
    unexpanded,
)
from freshline.store import seen_keys
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.evaluation.newest import StoredNewest
from freshline.store.seen_keys import appearing

SQL = load("evaluation")
KEYS = load("partitions")
Key = tuple[int, str]


# An event that concerns more partitions of a workflow than this, and all of them, becomes a note.
MOST_NOTED = 500
# A consumer of more partitions than this reads them as one: it compares a digest (docs/semantics.md#R13.4).
MOST_LISTED = 1_000
# Of ancestors that only users start, as many partitions are compared as read about so many partitions of inputs.
MOST_FEEDING = 10_000


class Arrays(TypedDict):
    """What partitions read, as arrays: who reads, and what; and who reads all partitions of an asset as one."""

    reading: list[int]
    reading_keys: list[str]
    read_assets: list[str]
    read_keys: list[str]
    whole: list[int]
    whole_keys: list[str]
    whole_assets: list[str]
    whole_keep: list[bool]
    read_since: list[str | None]
    read_until: list[str | None]


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
    was produced again with equal data, which matters to some holds only (docs/semantics.md#R9.3). Very many partitions
    of a workflow are one note, without a key (docs/semantics.md#R13.13).
    """

    changed: list[Key]
    unchanged: list[Key]
    came: Mapping[Key, datetime]  # when those came to exist that did
    counts: Mapping[int, int]  # of workflows of which all partitions are concerned, as a note: how many these are


NOBODY = Concerned([], [], {}, {})


def see(connection: Connection, graph: Graph, events: Iterable[Row]) -> None:
    """Record the keys of dynamic consumers that appear because of changed inputs."""
    changed = [event for event in events if event["kind"] == "changed"]
    found = [appearing(graph, event["asset_id"], event["partition_key"]) for event in changed]
    seen_keys.add(connection, [one for seen in found for one in seen])


def concerned(connection: Connection, graph: Graph, events: Iterable[Row], now: datetime, known: Known) -> Concerned:
    """Return the partitions that events concern."""
    newest = StoredNewest(connection, graph, now)
    changed: set[Key] = set()
    unchanged: set[Key] = set()
    came: dict[Key, datetime] = {}
    for event in events:
        if event["kind"] == "arrived":
            arrived = dict(_arrived(connection, graph, event, known, newest))
            changed.update(arrived)
            came |= arrived
        elif event["kind"] == "retired":
            changed.update(_retired(graph, event, now, known))
        elif event["asset_id"] is not None:
            found = changed if event["kind"] == "changed" else unchanged
            at = datetime.fromisoformat(event["at"])
            change = Change(event["asset_id"], event["partition_key"], at, bool(event["first"]))
            for workflow_id in consuming(graph, change.asset_id):
                fed = fed_by(graph, change, workflow_id, known, newest, now=now)
                found.update(_noted(graph, workflow_id, fed, now, known))
        elif event["workflow_id"] in graph.slugs:
            changed.update(_noted(graph, event["workflow_id"], EVERYTHING, now, known))
    whole = {workflow_id for workflow_id, key in changed if not key and graph.partitioning_of(workflow_id).columns}
    return Concerned(
        sorted(changed),
        sorted(unchanged - changed),
        came,
        {one: graph.partitioning_of(one).count(now, known(graph.outputs_of(one)[0])) for one in whole},
    )


def _noted(graph: Graph, workflow_id: int, selection: Selection, now: datetime, known: Known) -> Iterator[Key]:
    """Yield the existing partitions of a selection, or one note if it is everything and more than a chunk."""
    keys = existing(graph, workflow_id, selection, now, known)
    first = list(islice(keys, MOST_NOTED + 1)) if selection is EVERYTHING else []
    if len(first) > MOST_NOTED:
        yield workflow_id, ""
        return
    for key in (*first, *keys):
        yield workflow_id, key


def _arrived(
    connection: Connection, graph: Graph, event: Row, known: Known, newest: Newest
) -> Iterator[tuple[Key, datetime]]:
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
        for unit in readers(graph, Change(asset_id, row["partition_key"], until), until, known, newest):
            yield unit, came_at


def _retired(graph: Graph, event: Row, now: datetime, known: Known) -> Iterator[Key]:
    """Yield the partitions that read what retention removed, and what was removed: a run of it may be queued.

    Without a key the event is about all partitions whose time ended, whether they had data or not.
    """
    asset_id, key, retained = event["asset_id"], event["partition_key"], graph.retained(event["asset_id"])
    producer = graph.producer(asset_id)
    if key:
        if producer is not None:
            yield producer, key
        removed = graph.partitioning(asset_id).select([key])
        yield from _reading(graph, asset_id, removed, now, known)
    elif retained is not None:
        since, until = (earlier(datetime.fromisoformat(event[name]), retained) for name in ("since", "at"))
        ended = graph.partitioning(asset_id).ended(since, until)
        yield from _reading(graph, asset_id, ended, now, known)


def _reading(graph: Graph, asset_id: str, removed: Selection, now: datetime, known: Known) -> Iterator[Key]:
    """Yield the existing partitions that may read one of these partitions of an asset."""
    for workflow_id in consuming(graph, asset_id):
        for one in existing(graph, workflow_id, _fed(graph, asset_id, removed, workflow_id), now, known):
            yield workflow_id, one


def expected(connection: Connection, graph: Graph, keys: Iterable[Key], now: datetime) -> dict[Key, list[Expected]]:
    """Return what each partition of a batch reads. Workflows whose edges have no partitions are left out."""
    if not graph.partitioned:
        return {}
    known, newest = known_keys(connection, graph), StoredNewest(connection, graph, now)
    mapped = {key for key in keys if graph.is_mapped(key[0])}
    wholes = _wholes(connection, graph, mapped)
    return {
        key: list(expected_inputs(graph, key, now, known, newest=newest, wholes=wholes.get(key, ()))) for key in mapped
    }


def feeding_units(
    connection: Connection, graph: Graph, keys: Iterable[Key], workflows: Collection[int], now: datetime
) -> dict[Key, list[Expected]]:
    """Return what the partitions of these ancestors read that feed a batch: the newest ones, if they are very many."""
    above, known = feeding(graph, keys), known_keys(connection, graph)
    found: dict[Key, list[Expected]] = {}
    left = MOST_FEEDING
    for workflow_id in workflows:
        wanted = existing(graph, workflow_id, above.get(workflow_id, NOTHING), now, known)
        while left > 0 and (units := [(workflow_id, key) for key in islice(wanted, MOST_NOTED)]):
            read = expected(connection, graph, units, now)
            found |= read
            left -= sum(len(one.keys) + 1 for inputs in read.values() for one in inputs)
    return found


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


def mapped(graph: Graph, found: Mapping[Key, Sequence[Expected]]) -> dict[Key, list[Expected]]:
    """Return what partitions read by mappings. The batch joins the inputs of all other edges."""
    return {
        unit: [one for one in inputs if graph.mapping(one.asset_id, unit[0]) is not None]
        for unit, inputs in found.items()
    }


def arrays(found: Mapping[Key, Sequence[Expected]]) -> Arrays:
    """Return what partitions read as arrays."""
    listed = ((unit, one) for unit, inputs in found.items() for one in inputs if not one.whole)
    rows = [(*unit, one.asset_id, key, *_newness(one)) for unit, one in listed for key in one.keys]
    wholes = [(*unit, one.asset_id, one.keep) for unit, inputs in found.items() for one in inputs if one.whole]
    return {
        "whole": [row[0] for row in wholes],
        "whole_keys": [row[1] for row in wholes],
        "whole_assets": [row[2] for row in wholes],
        "whole_keep": [row[3] for row in wholes],
        "reading": [row[0] for row in rows],
        "reading_keys": [row[1] for row in rows],
        "read_assets": [row[2] for row in rows],
        "read_keys": [row[3] for row in rows],
        "read_since": [row[4] for row in rows],
        "read_until": [row[5] for row in rows],
    }


def _newness(one: Expected) -> tuple[str | None, str | None]:
    """Return the time in which changes concern the partition. Without an end, every change does."""
    if one.affects is not Affects.LATEST:
        return None, None
    since, until = one.newness
    return since.isoformat() if since else None, until.isoformat() if until else "infinity"


def moving_parts(
    graph: Graph,
    rows: Iterable[Sequence[Any]],
    unconsumed: Iterable[Sequence[Any]],
    arriving: Iterable[Sequence[Any]] = (),
    rests: Iterable[Sequence[Any]] = (),
    *,
    expanding: Iterable[Sequence[Any]] = (),
    known: Known,
    newest: Newest,
) -> dict[int, list[MovingPart]]:
    """Return what is in motion: partitions, and selections of them.

    Selections are what events concern that nobody has consumed yet, notes that are not expanded, and the undone rests
    of backfills.
    """
    parts: dict[int, list[MovingPart]] = {}
    left = {workflow_id: unexpanded(graph, workflow_id, last) for workflow_id, last in expanding}
    for workflow_id, key, kind, until, cannot_run, origin, has_head in rows:
        if workflow_id in graph.slugs and graph.has_unit(workflow_id, key):
            moving = Moving(kind, parsed(until), cannot_run, parsed(origin), has_head)
            whole = not key and bool(graph.partitioning_of(workflow_id).columns)  # a note about all of its partitions
            selection = left.get(workflow_id, EVERYTHING) if whole else selection_of(graph, workflow_id, key)
            parts.setdefault(workflow_id, []).append(MovingPart(selection, moving, None if whole else key))
    for asset_id, key, origin, at, first in unconsumed:
        change = Change(asset_id, key, datetime.fromisoformat(at), bool(first))
        for workflow_id in consuming(graph, asset_id):
            moving = Moving("unabsorbed", origin=parsed(origin))
            selection = fed_by(graph, change, workflow_id, known, newest)
            parts.setdefault(workflow_id, []).append(MovingPart(selection, moving))
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
        yield workflow_id, _fed(graph, asset_id, arrived, workflow_id)


def _fed(graph: Graph, asset_id: str, selection: Selection, workflow_id: int) -> Selection:
    """Return the partitions of a workflow that read one of these partitions of an asset."""
    mapping = graph.mapping(asset_id, workflow_id)
    return EVERYTHING if mapping is None or mapping.latest else mapping.down_all(selection)
