"""The search for ancestors in motion where assets have partitions (docs/semantics.md#R13.5).

The rule is that of `motion.Walk`, with partitions in place of workflows. What is in motion is a selection of partitions
of a workflow: one partition, the rest of a note that concerns many, or the rest of a backfill. Going up from the
partition that is decided, each edge maps the selection that feeds it to the selection of the input that it reads.

In addition, a consumer that reads several partitions of one input waits for those that feed any of them and are in
motion, if their origin is not after its own first change: so a month runs once after 31 recomputed days, and a stream
of hours does not starve its total.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from freshline.decide.motion import FIRST, MOST_BLOCKERS, Moving, is_early
from freshline.decide.report_groups import Groups, Members
from freshline.graph import UNPARTITIONED, Graph
from freshline.model.state import Blocker, split_reference
from freshline.partitions.calendar import END
from freshline.partitions.mapping import NO_VALUES, Values, axes_of
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.selection import EVERYTHING, NOTHING, Keys, Products, Selection, Times
from freshline.reading import selection_of

Selections = Mapping[int, Selection]


@dataclass(frozen=True, slots=True)
class MovingPart:
    """Partitions of one workflow that are in motion for the same reason. `key`: the only one; None: several."""

    selection: Selection
    moving: Moving
    key: str | None = None


class _Found(NamedTuple):
    """A moving part above a partition, and those of its partitions that feed it."""

    workflow_id: int
    part: MovingPart
    feeding: Selection


class PartitionWalk:
    """A memoised search upwards from the partitions of one batch. `settle` records each decision.

    `newest`: of the inputs that are read by `latest`, the newest values that have data.
    """

    def __init__(
        self,
        graph: Graph,
        motion: Mapping[int, Iterable[MovingPart]],
        newest: Mapping[tuple[str, int], Values] | None = None,
        groups: Iterable[Members] = (),
    ) -> None:
        self._graph = graph
        self._groups = Groups(graph, groups)
        self._newest = newest or {}
        self._parts = {w: list(parts) for w, parts in motion.items() if w in graph.slugs}
        self._floor = min((graph.level(w) for w in self._parts), default=None)
        self._above: dict[tuple[int, Selection], Selections] = {}
        self._roots: dict[tuple[str, Selection], Mapping[str | int, Selection]] = {}
        self._inputs: dict[tuple[str, str], Selection] = {}
        self._computed: dict[tuple[int, Selection], Sequence[tuple[str | int, Selection]]] = {}

    def settle(self, workflow_id: int, moving: Moving | None, partition_key: str = "") -> None:
        """Record the motion of a partition after its decision; None: it is at rest. Other parts stay."""
        parts = [one for one in self._parts.get(workflow_id, ()) if one.key != partition_key]
        if moving is not None:
            parts.append(MovingPart(selection_of(self._graph, workflow_id, partition_key), moving, partition_key))
        self._parts[workflow_id] = parts

    def blockers(
        self,
        workflow_id: int,
        moved: Iterable[str],
        *,
        every: bool = False,
        partition_key: str = "",
        since: datetime | None = None,
        not_after: datetime | None = None,
    ) -> tuple[Blocker, ...]:
        """Return the ancestors in motion that a run of the partition has to wait for.

        `moved`: references of the inputs of another generation than the last success. `every`: ancestors block even if
        the run cannot read a mix because of them, of these only those whose origin is not after `not_after`.
        `since`: when the first change arrived that was not consumed.
        """
        own = selection_of(self._graph, workflow_id, partition_key)
        moving = self._moving(self._feeding(workflow_id, own))
        above = sorted((one for one in moving if not one.part.moving.never_read), key=_order)
        if not above:
            return ()
        inputs = [split_reference(one) for one in moved]
        mixing = list(islice((one for one in above if self._could_mix(one, inputs)), MOST_BLOCKERS))
        early = [one for one in above if is_early(one.part.moving, not_after)]
        others = early if every else self._fan_in(workflow_id, own, above, since)
        found = list(dict.fromkeys((*others[: MOST_BLOCKERS - 1], *mixing[:1], *mixing, *others)))[:MOST_BLOCKERS]
        return tuple(self._blocker(one, inputs, mixes=one in mixing) for one in sorted(found, key=_order))

    def link(self, groups: Iterable[Members]) -> None:
        """Let these groups of reports be those that have not settled (docs/semantics.md#R4.7)."""
        self._groups = Groups(self._graph, groups)

    def came_out_unchanged(self, reference: str, moved_sources: Collection[str]) -> bool:
        """Return whether a source of the input moved, and all between them is at rest (docs/semantics.md#R1.4)."""
        asset_id, key = split_reference(reference)
        producer = self._graph.producer(asset_id)
        if producer is None:
            return False
        selection = self._input(asset_id, key)
        if any(self._moving({producer: selection})) or any(self._moving(self._feeding(producer, selection))):
            return False
        roots = self._root_selections(asset_id, selection)
        return any(self._is_root(roots, *split_reference(source)) for source in moved_sources)

    def _is_root(self, roots: Mapping[str | int, Selection], source: str, key: str) -> bool:
        return source in roots and roots[source].contains(key, self._graph.partitioning(source))

    def _input(self, asset_id: str, key: str) -> Selection:
        """Return the selection of an input. Without a key it stands for all partitions (docs/semantics.md#R13.4)."""
        if not key:
            return EVERYTHING
        known = self._inputs.get((asset_id, key))
        if known is None:
            known = self._inputs[asset_id, key] = self._graph.partitioning(asset_id).select([key])
        return known

    def _moving(self, feeding: Selections) -> Iterator[_Found]:
        """Yield the parts in motion that feed something."""
        for workflow_id, selection in feeding.items():
            for part in self._parts.get(workflow_id, ()):
                common = part.selection.intersection(selection)
                if not common.is_empty:
                    yield _Found(workflow_id, part, common)

    def _feeding(self, workflow_id: int, selection: Selection) -> Selections:
        """Return, of each workflow above that can be in motion, the partitions that feed these partitions."""
        known = self._above.get((workflow_id, selection))
        if known is None:
            known = self._above[workflow_id, selection] = self.climb({workflow_id: selection}, self._floor)
        return known

    def _read_of(self, asset_id: str, workflow_id: int, selection: Selection) -> Selection:
        newest = self._newest.get((asset_id, workflow_id), NO_VALUES)
        return self._graph.read_of(asset_id, workflow_id, selection, newest)

    def climb(self, start: Selections, floor: int | None) -> Selections:
        """Go up from these partitions, descendants first, down to the lowest level in motion."""
        level = self._graph.level
        found: dict[int, Selection] = {}
        open_: dict[int, Selection] = dict(start)
        while open_:
            current = max(open_, key=lambda one: (level(one), one))
            selection = open_.pop(current)
            earlier = self._graph.predecessors(current, selection)
            if not earlier.is_empty:
                found[current] = found.get(current, NOTHING).union(earlier)
                selection = selection.union(earlier)
            for asset_id in self._graph.inputs(current):
                producer = self._graph.producer(asset_id)
                if producer is None or floor is None or level(producer) < floor:
                    continue
                read = self._read_of(asset_id, current, selection)
                found[producer] = found.get(producer, NOTHING).union(read).bounded()
                open_[producer] = open_.get(producer, NOTHING).union(read).bounded()
        return found

    def _fan_in(
        self, workflow_id: int, own: Selection, above: Sequence[_Found], since: datetime | None
    ) -> list[_Found]:
        """Return what feeds an input of which several partitions are read, and whose origin is not after `since`."""
        inputs: dict[int, Selection] = {}
        for asset_id in self._graph.inputs(workflow_id):
            producer, read = self._graph.producer(asset_id), self._read_of(asset_id, workflow_id, own)
            if producer is not None and _several(read, self._graph.partitioning(asset_id)):
                inputs[producer] = inputs.get(producer, NOTHING).union(read)
        feeding = dict(self.climb(inputs, self._floor)) if inputs else {}
        for producer, read in (*inputs.items(), (workflow_id, self._graph.predecessors(workflow_id, own))):
            feeding[producer] = feeding.get(producer, NOTHING).union(read)
        return [
            one
            for one in above
            if is_early(one.part.moving, since)
            and not one.feeding.intersection(feeding.get(one.workflow_id, NOTHING)).is_empty
        ]

    def _could_mix(self, found: _Found, moved: Sequence[tuple[str, str]]) -> bool:
        """Return whether a moved input does not descend from these partitions, and shares a root with them."""
        return any(
            not self._descends(found, *one) and (self._shares_root(found, *one) or bool(self._together(found, *one)))
            for one in moved
        )

    def _descends(self, found: _Found, asset_id: str, key: str) -> bool:
        producer = self._graph.producer(asset_id)
        selection = self._input(asset_id, key)
        if producer is None or (selection is EVERYTHING and self._graph.partitioning(asset_id) is not UNPARTITIONED):
            return False  # which of so many partitions moved is not known, so it may be one that does not descend
        above = self._feeding(producer, selection).get(found.workflow_id, NOTHING)
        reached = above.union(selection) if producer == found.workflow_id else above
        return found.feeding.intersection(reached) == found.feeding

    def _shares_root(self, found: _Found, asset_id: str, key: str) -> bool:
        graph = self._graph
        if not graph.origins(found.workflow_id) & graph.roots(asset_id):
            return False
        theirs = self._root_selections(asset_id, self._input(asset_id, key))
        return any(
            root in theirs and not roots.intersection(theirs[root]).is_empty
            for root, roots in self._computed_from(found.workflow_id, found.feeding)
        )

    def _together(self, found: _Found, asset_id: str, key: str) -> Members:
        """Return the group of reports from which both descend."""
        graph = self._graph
        for members in self._groups.linking(graph.origins(found.workflow_id), graph.roots(asset_id)):
            known = [pair for one in members for pair in self._root_selections(*self._member(one)).items()]
            theirs = self._root_selections(asset_id, self._input(asset_id, key)).items()
            if _share(known, self._computed_from(found.workflow_id, found.feeding)) and _share(known, theirs):
                return members
        return ()

    def _member(self, member: str) -> tuple[str, Selection]:
        asset_id, key = split_reference(member)
        # A partition that the definitions no longer have counts as all of them.
        return asset_id, self._input(asset_id, key if key and self._graph.partitioning(asset_id).defines(key) else "")

    def _computed_from(self, workflow_id: int, feeding: Selection) -> Sequence[tuple[str | int, Selection]]:
        """Return the roots of the inputs of these partitions and of their predecessors. It is asked per moved input."""
        known = self._computed.get((workflow_id, feeding))
        if known is None:
            graph = self._graph
            computed = feeding.union(graph.predecessors(workflow_id, feeding))
            reads = ((one, self._read_of(one, workflow_id, computed)) for one in graph.inputs(workflow_id))
            known = [pair for read in reads for pair in self._root_selections(*read).items()]
            self._computed[workflow_id, feeding] = known
        return known

    def _root_selections(self, asset_id: str, selection: Selection) -> Mapping[str | int, Selection]:
        """Return the partitions of sources, and of workflows without inputs, that these partitions descend from."""
        known = self._roots.get((asset_id, selection))
        if known is None:
            known = self._roots[asset_id, selection] = self._find_roots(asset_id, selection)
        return known

    def _find_roots(self, asset_id: str, selection: Selection) -> Mapping[str | int, Selection]:
        graph = self._graph
        producer = graph.producer(asset_id)
        if producer is None:
            return {asset_id: selection}
        roots: dict[str | int, Selection] = {}
        feeding = {producer: selection, **self._merged(producer, selection)}
        for workflow_id, fed in feeding.items():
            if not graph.inputs(workflow_id):
                roots[workflow_id] = fed
            for read in graph.inputs(workflow_id):
                if graph.producer(read) is None:
                    roots[read] = roots.get(read, NOTHING).union(self._read_of(read, workflow_id, fed)).bounded()
        return roots

    def _merged(self, producer: int, selection: Selection) -> Selections:
        feeding = dict(self.climb({producer: selection}, 0))
        if producer in feeding:  # it reads its own earlier partitions
            feeding[producer] = feeding[producer].union(selection)
        return feeding

    def _blocker(self, found: _Found, moved: Sequence[tuple[str, str]], *, mixes: bool) -> Blocker:
        moving, slug = found.part.moving, self._graph.slugs[found.workflow_id]
        others = [one for one in moved if not self._descends(found, *one)] if mixes else []
        alone = any(self._shares_root(found, *one) for one in others)
        together = () if alone else next(filter(None, (self._together(found, *one) for one in others)), ())
        return Blocker(
            found.workflow_id,
            slug,
            moving.kind,
            moving.until,
            moving.cannot_run,
            mixes,
            found.part.key or "",
            moving.origin,
            together,
        )


def feeding(graph: Graph, units: Iterable[tuple[int, str]]) -> Selections:
    """Return, of each workflow above these partitions, the partitions that feed any of them. It may hold others."""
    start: dict[int, Selection] = {}
    for workflow_id, key in units:
        start[workflow_id] = start.get(workflow_id, NOTHING).union(selection_of(graph, workflow_id, key)).bounded()
    return PartitionWalk(graph, {}).climb(start, 0)


def _share(some: Iterable[tuple[str | int, Selection]], others: Iterable[tuple[str | int, Selection]]) -> bool:
    """Return whether a root is in both, with partitions in common."""
    theirs = list(others)
    return any(root == other and not one.intersection(two).is_empty for root, one in some for other, two in theirs)


def _several(selection: Selection, partitioning: Partitioning) -> bool:
    """Return whether more than one partition is selected. Those that do not exist yet count."""
    if isinstance(selection, Products):
        axes = zip(selection.products[0], axes_of(partitioning), strict=True)
        return len(selection.products) > 1 or any(_several(one, axis) for one, axis in axes)
    if isinstance(selection, Keys):
        return len(selection.keys) > 1
    if isinstance(selection, Times):
        return len(list(islice(partitioning.keys(selection, END), 2))) > 1
    return bool(axes_of(partitioning)) and not selection.is_empty


def _order(found: _Found) -> tuple[bool, bool, datetime, int, str]:
    """Sort active ancestors first, because the list is cut at its end."""
    moving = found.part.moving
    return moving.cannot_run, moving.until is not None, moving.until or FIRST, found.workflow_id, found.part.key or ""
