"""Which partitions of its inputs a partition reads, and which partitions read a partition, at one moment. Pure.

The mappings of the graph say what belongs together. This module adds what exists: windows that have ended, and dynamic
keys that were seen (docs/semantics.md#R13.2).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timedelta
from itertools import dropwhile, islice
from typing import NamedTuple, Protocol

from freshline import duration
from freshline.errors import PartitionKeyError
from freshline.graph import Graph
from freshline.model.enums import OnRetire
from freshline.model.moment import iso
from freshline.partitions.calendar import BEGINNING
from freshline.partitions.declaration import Affects
from freshline.partitions.key_partitionings import DynamicKeys
from freshline.partitions.keys import shown
from freshline.partitions.mapping import Values, axes_of
from freshline.partitions.newest import with_key
from freshline.partitions.partitioning import Newness, Partitioning
from freshline.partitions.selection import EVERYTHING, NOTHING, Selection
from freshline.partitions.time_partitioning import TimePartitioning

Known = Callable[[str], Collection[str]]  # the dynamic keys of an asset that were seen, in their order


class Newest(Protocol):
    """The newest partitions at one moment, as far as data decides which they are."""

    def values(self, asset_id: str, workflow_id: int) -> Values:
        """Return the newest values of an input that have data, as far as a mapping `latest` reads them."""

    def newness(self, asset_id: str, key: str) -> Newness:
        """Return when a dynamic key was the newest: from when it was first seen until the next one was."""

    def seen_last(self, asset_id: str, at: datetime) -> str | None:
        """Return the dynamic key that was the newest at a time."""


class Change(NamedTuple):
    """A changed partition of an asset. `at`: when its snapshot was produced. `first`: it had no data before."""

    asset_id: str
    key: str
    at: datetime
    first: bool = False


class Expected(NamedTuple):
    """The partitions of one input that a partition reads if they have data.

    `outside`: the input has no such partition by definition, so that none is missing. `whole`: it reads all of them as
    one; then `keys` is what there should be, where a requirement asks for it. `keep`: of these, those that retention
    removed count at their last versions. `affects`: which of its changes concern the partition; with `latest`, those
    of the time `newness`.
    """

    asset_id: str
    keys: list[str]
    outside: bool
    whole: bool = False
    keep: bool = False
    affects: Affects = Affects.ALL
    newness: Newness = Newness()


def expected_inputs(
    graph: Graph, unit: tuple[int, str], now: datetime, known: Known, *, newest: Newest, wholes: Collection[str] = ()
) -> Iterator[Expected]:
    """Yield what a partition of a workflow reads, per input. Earlier partitions of its own output are one too.

    `wholes`: the inputs that it reads as one, because they have very many partitions.
    """
    workflow_id, key = unit
    own = selection_of(graph, workflow_id, key)
    earlier = graph.own_input(workflow_id)
    for asset_id in (*graph.inputs(workflow_id), *((earlier,) if earlier else ())):
        partitioning = graph.partitioning(asset_id)
        mapping = graph.mapping(asset_id, workflow_id)
        if not partitioning.columns:
            affects = mapping.affects if mapping else Affects.ALL
            latest = affects is Affects.LATEST
            newness = newness_of(graph, workflow_id, key, newest) if latest else Newness()
            yield Expected(asset_id, [""], outside=False, affects=affects, newness=newness)
            continue
        readable = read = graph.read_of(asset_id, workflow_id, own)
        if mapping is not None and mapping.latest:
            read = mapping.up_all(own, newest.values(asset_id, workflow_id))
        whole = asset_id in wholes
        counted = not whole or graph.requirement(asset_id, workflow_id).percent > 0
        wanted = read.intersection(kept(graph, asset_id, now)) if whole else read
        keys = list(partitioning.keys(wanted, now, known(asset_id), newest_first=False)) if counted else []
        keep = whole and graph.on_retire(asset_id, workflow_id) is OnRetire.KEEP
        yield Expected(asset_id, keys, readable.is_empty, whole, keep)


def read_as_one(graph: Graph, workflow_id: int) -> Iterator[str]:
    """Yield the inputs of which a workflow reads all partitions, whatever its own is."""
    for asset_id in graph.inputs(workflow_id):
        mapping = graph.mapping(asset_id, workflow_id)
        if graph.partitioning(asset_id).columns and mapping is not None and mapping.reads_all:
            yield asset_id


def readers(
    graph: Graph, change: Change, now: datetime, known: Known, newest: Newest, *, late: bool = True
) -> Iterator[tuple[int, str]]:
    """Yield the existing partitions of workflows that a change concerns, the newest first.

    `late`: also those that may have been evaluated before the change was committed.
    """
    for workflow_id in consuming(graph, change.asset_id):
        fed = fed_by(graph, change, workflow_id, known, newest, now=now if late else None)
        for one in existing(graph, workflow_id, fed, now, known):
            yield workflow_id, one


def consuming(graph: Graph, asset_id: str) -> tuple[int, ...]:
    """Return the workflows that read an asset, its producer among them if it reads earlier partitions of it."""
    producer = graph.producer(asset_id)
    own = (producer,) if producer is not None and graph.own_input(producer) == asset_id else ()
    return (*graph.consumers(asset_id), *own)


def fed_by(
    graph: Graph, change: Change, workflow_id: int, known: Known, newest: Newest, *, now: datetime | None = None
) -> Selection:
    """Return the partitions of a workflow that a change concerns, whether they exist or not.

    The first data of an input concerns all that miss it. Otherwise, with `affects: latest`, a change concerns the
    partition that was the newest when the snapshot was produced; with `now` also the newest at that time, which may
    have been evaluated before the snapshot was committed.
    """
    mapping = graph.mapping(change.asset_id, workflow_id)
    if mapping is None:
        return EVERYTHING
    if mapping.latest:
        values = newest.values(change.asset_id, workflow_id)
        return mapping.down(change.key, with_key(mapping, values, change.key, known(change.asset_id)))
    if change.first or mapping.affects is not Affects.LATEST:
        return mapping.down(change.key) if change.first else mapping.affected(change.key, NOTHING)
    then = newest_at(graph, workflow_id, change.at, newest)
    return then if now is None else then.union(newest_at(graph, workflow_id, now, newest))


def fed_by_all(
    graph: Graph, asset_id: str, selection: Selection, workflow_id: int, *, now: datetime, newest: Newest
) -> Selection:
    """Return the partitions of a workflow that changes of these partitions concern, if they are produced now."""
    mapping = graph.mapping(asset_id, workflow_id)
    if mapping is None:
        return EVERYTHING
    if mapping.latest:
        return mapping.down_all(selection, newest.values(asset_id, workflow_id))
    if mapping.affects is Affects.ALL or selection.is_empty:
        return mapping.down_all(selection)
    return newest_at(graph, workflow_id, now, newest) if mapping.affects is Affects.LATEST else NOTHING


def newest_at(graph: Graph, workflow_id: int, at: datetime, newest: Newest) -> Selection:
    """Return the partitions of a workflow that were the newest at a time.

    Fixed keys are equally new, and so are those of dimensions without a time.
    """
    partitioning = graph.partitioning_of(workflow_id)
    if isinstance(partitioning, DynamicKeys):
        key = newest.seen_last(graph.outputs_of(workflow_id)[0], at)
        return NOTHING if key is None else partitioning.select([key])
    timed = any(isinstance(axis, TimePartitioning) for axis in axes_of(partitioning))
    return partitioning.newest(at) if timed else EVERYTHING


def newness_of(graph: Graph, workflow_id: int, key: str, newest: Newest) -> Newness:
    """Return when a partition of a workflow was the newest. Equal to `newest_at` at every time."""
    partitioning = graph.partitioning_of(workflow_id)
    if isinstance(partitioning, DynamicKeys):
        return newest.newness(graph.outputs_of(workflow_id)[0], key)
    return partitioning.newness(key)


def existing(graph: Graph, workflow_id: int, selection: Selection, now: datetime, known: Known) -> Iterator[str]:
    """Yield the keys of a selection that exist, the newest first; the empty key for a workflow without partitions."""
    partitioning = graph.partitioning_of(workflow_id)
    if selection.is_empty:
        return
    if not partitioning.columns:
        yield ""
        return
    asset_id = graph.outputs_of(workflow_id)[0]
    selection = selection.intersection(kept(graph, asset_id, now))
    if not selection.is_empty:
        yield from partitioning.keys(selection, now, known(asset_id))


def kept(graph: Graph, asset_id: str, now: datetime) -> Selection:
    """Return the partitions of an asset that retention has not removed (docs/semantics.md#R13.14)."""
    retained = graph.retained(asset_id)
    return EVERYTHING if retained is None else graph.partitioning(asset_id).ending_after(earlier(now, retained))


def is_kept(graph: Graph, asset_id: str, key: str, now: datetime) -> bool:
    """Return whether retention has not removed a partition of an asset by now."""
    retained = graph.retained(asset_id)
    window = None if retained is None else graph.partitioning(asset_id).window(key)
    return window is None or retained is None or window.ends > earlier(now, retained)


def require_kept(partitioning: Partitioning, key: str, retained: timedelta | None, now: datetime) -> str:
    """Return the key. Raise `PartitionKeyError` if retention removes its partition."""
    window = None if retained is None else partitioning.window(key)
    if window is None or retained is None or window.ends > earlier(now, retained):
        return key
    kept_for = duration.as_text(int(retained.total_seconds() * 1000))
    raise PartitionKeyError(
        f"partition {shown(key)} was removed by retention: its window ended at {iso(window.ends)}, and 'retain' is"
        f" {kept_for}",
        hint="to compute it again, write a longer 'retain' and run `freshline apply`",
    )


def count_kept(graph: Graph, asset_id: str, now: datetime, known: Known) -> int:
    """Return the number of existing partitions that retention has not removed."""
    partitioning, retained = graph.partitioning(asset_id), graph.retained(asset_id)
    if retained is None:
        return partitioning.count(now, known(asset_id))
    if isinstance(partitioning, TimePartitioning):
        first = partitioning.first_after(earlier(now, retained))
        return max(0, partitioning.newest_ordinal(now) + 1 - first)
    return sum(1 for _ in partitioning.keys(kept(graph, asset_id, now), now, known(asset_id)))


def earlier(now: datetime, by: timedelta) -> datetime:
    """Return a moment that long ago, or the beginning of time."""
    try:
        return now - by
    except OverflowError:
        return BEGINNING


def unexpanded(graph: Graph, workflow_id: int, last: str | None) -> Selection:
    """Return the partitions that a note stands for which was expanded to `last`, newest first. It may hold others."""
    try:
        return EVERYTHING if last is None else graph.partitioning_of(workflow_id).older(last)
    except PartitionKeyError:
        return EVERYTHING  # the definition has other keys now


def following(graph: Graph, workflow_id: int, last: str | None, now: datetime, known: Known) -> Iterator[str]:
    """Yield the existing partitions after `last`, newest first; all of them if there is no such partition any more."""
    rest = unexpanded(graph, workflow_id, last)
    keys = existing(graph, workflow_id, rest, now, known)
    if last is None or not (rest is EVERYTHING or rest.contains(last, graph.partitioning_of(workflow_id))):
        return keys
    passed = dropwhile(lambda key: key != last, keys)
    return passed if next(passed, None) is not None else existing(graph, workflow_id, EVERYTHING, now, known)


def selection_of(graph: Graph, workflow_id: int, key: str) -> Selection:
    """Return one partition of a workflow as a selection."""
    return graph.partitioning_of(workflow_id).select([key]) if key else EVERYTHING


def is_newest(graph: Graph, unit: tuple[int, str], now: datetime, known: Known) -> bool:
    """Return whether no partition of the workflow is newer. Fixed keys are equally new."""
    workflow_id, key = unit
    partitioning = graph.partitioning_of(workflow_id)
    if not key or not partitioning.columns:
        return True
    newest = partitioning.newest(now, known(graph.outputs_of(workflow_id)[0]))
    return newest is EVERYTHING or newest.contains(key, partitioning)


def later_in_chain(graph: Graph, unit: tuple[int, str], now: datetime, known: Known, most: int) -> int:
    """Return how many partitions follow from one in a chain of predecessors. It stops at one more than `most`."""
    workflow_id, key = unit
    own = graph.own_input(workflow_id)
    mapping = graph.mapping(own, workflow_id) if own else None
    if mapping is None:
        return 0
    following = mapping.with_later(selection_of(graph, workflow_id, key))
    keys = existing(graph, workflow_id, following, now, known)
    return max(0, sum(1 for _ in islice(keys, most + 2)) - 1)
