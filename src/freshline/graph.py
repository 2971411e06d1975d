"""The graph of all workflows: which workflow produces and which consume an asset. Immutable, cached by epoch.

It has no policies. They are loaded with the state of a workflow, in one statement (docs/semantics.md#R6.2).
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import cached_property, reduce
from operator import or_
from typing import TypeVar

from freshline.model.enums import OnRetire
from freshline.partitions.compatibility import default_requirement
from freshline.partitions.key_partitionings import Unpartitioned
from freshline.partitions.mapping import NO_VALUES, PartitionMapping, Values
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.requirements import ALL, ANY, Requirement
from freshline.partitions.selection import EVERYTHING, NOTHING, Selection

Root = str | int  # a source, or a workflow without inputs
Node = TypeVar("Node")
Value = TypeVar("Value")
UNPARTITIONED = Unpartitioned()


class Graph:
    """Assets and workflows of one definitions epoch.

    A workflow that reads its own output has no edge to itself (docs/semantics.md#R1.3).
    """

    def __init__(
        self,
        *,
        epoch: int,
        slugs: Mapping[int, str],
        producers: Mapping[str, int],
        edges: Iterable[tuple[str, int]],
        not_automatic: Iterable[int] = (),
        not_triggering: Iterable[tuple[str, int]] = (),
        partitionings: Mapping[str, Partitioning] | None = None,
        mappings: Mapping[tuple[str, int], PartitionMapping] | None = None,
        requirements: Mapping[tuple[str, int], Requirement] | None = None,
        retained: Mapping[str, timedelta] | None = None,
        on_retire: Mapping[tuple[str, int], OnRetire] | None = None,
    ) -> None:
        self.epoch = epoch
        self._partitionings = dict(partitionings or {})  # of the assets that have one
        self._mappings = dict(mappings or {})  # of edges to or from an asset with partitions
        self._requirements = dict(requirements or {})  # where it is not the default of the mapping
        self._retained = dict(retained or {})  # of the assets whose partitions are removed after a time
        self._on_retire = dict(on_retire or {})  # where it is not the default of the mapping
        self._not_triggering = frozenset(not_triggering)  # edges whose changes cause no run
        self.not_automatic = frozenset(not_automatic)  # only users start these
        self.slugs = dict(slugs)
        self._producers = dict(producers)
        inputs: dict[int, list[str]] = defaultdict(list)
        consumers: dict[str, list[int]] = defaultdict(list)
        self._earlier: dict[int, str] = {}  # the own output of which a workflow reads earlier partitions
        names: dict[str, str] = {asset_id: asset_id for asset_id in self._producers}  # one copy of each string
        for named, workflow_id in edges:
            asset_id = names.setdefault(named, named)
            if self._producers.get(asset_id) == workflow_id:
                if (asset_id, workflow_id) in self._mappings:
                    self._earlier[workflow_id] = asset_id
                continue
            inputs[workflow_id].append(asset_id)
            consumers[asset_id].append(workflow_id)
        self._inputs = {workflow_id: tuple(sorted(ids)) for workflow_id, ids in inputs.items()}
        self._consumers = {asset_id: tuple(sorted(ids)) for asset_id, ids in consumers.items()}
        self._levels: dict[int, int] = {}
        self._numbers: dict[Root, int] = {}
        self._roots: dict[str, int] = {}
        self._heard: dict[str, int] = {}
        self._not_automatic_above: dict[int, frozenset[int]] = {}

    @cached_property
    def digest(self) -> str:
        """A hash of all edges. Two processes with equal digests have the same graph."""
        made = hashlib.sha256()
        for asset_id, workflow_id in sorted(self._producers.items()):
            made.update(f"{asset_id}<{workflow_id};".encode())
        for workflow_id, assets in sorted(self._inputs.items()):
            made.update(f"{workflow_id}<{','.join(assets)};".encode())
        return made.hexdigest()[:16]

    def inputs(self, workflow_id: int) -> tuple[str, ...]:
        """Return the assets that the workflow reads, sorted."""
        return self._inputs.get(workflow_id, ())

    def consumers(self, asset_id: str) -> tuple[int, ...]:
        """Return the workflows that read the asset."""
        return self._consumers.get(asset_id, ())

    def producer(self, asset_id: str) -> int | None:
        """Return the workflow that produces the asset; None for a source."""
        return self._producers.get(asset_id)

    def outputs(self) -> Mapping[str, int]:
        """Return every produced asset and its workflow."""
        return self._producers

    def parents(self, workflow_id: int) -> Iterator[int]:
        """Yield the workflows that produce the inputs of the workflow."""
        for asset_id in self.inputs(workflow_id):
            producer = self._producers.get(asset_id)
            if producer is not None:
                yield producer

    def ancestors(self, workflows: Iterable[int], most: int) -> set[int] | None:
        """Return every workflow upstream of these; None if there are more than `most`."""
        found: set[int] = set()
        frontier = list(workflows)
        while frontier:
            fresh = set(self.parents(frontier.pop())) - found
            found |= fresh
            frontier.extend(fresh)
            if len(found) > most:
                return None
        return found

    def not_automatic_above(self, workflows: Iterable[int]) -> list[int]:
        """Return the workflows upstream of these that only users start, sorted."""
        if not self.not_automatic:
            return []
        found: set[int] = set()
        for workflow_id in workflows:
            found |= self._not_automatic_ancestors(workflow_id)
        return sorted(found)

    def _not_automatic_ancestors(self, workflow_id: int) -> frozenset[int]:
        memo = self._not_automatic_above
        return fold(workflow_id, memo, lambda one: tuple(self.parents(one)), self._collect_not_automatic)

    def _collect_not_automatic(self, workflow_id: int) -> frozenset[int]:
        parents = frozenset(self.parents(workflow_id))
        above = (self._not_automatic_above[parent] for parent in parents)
        return (parents & self.not_automatic).union(*above)

    @property
    def partitioned(self) -> bool:
        """Whether any asset has partitions."""
        return bool(self._partitionings)

    def partitioning(self, asset_id: str) -> Partitioning:
        """Return the partitioning of an asset."""
        return self._partitionings.get(asset_id, UNPARTITIONED)

    def partitioning_of(self, workflow_id: int) -> Partitioning:
        """Return the partitioning of the outputs of a workflow: they have the same."""
        return self._by_workflow.get(workflow_id, UNPARTITIONED)

    def has_unit(self, workflow_id: int, partition_key: str) -> bool:
        """Return whether a workflow has a partition by definition. An empty key is the workflow, or all of it."""
        return not partition_key or self.partitioning_of(workflow_id).defines(partition_key)

    @cached_property
    def _by_workflow(self) -> dict[int, Partitioning]:
        found = ((self._producers.get(asset_id), one) for asset_id, one in self._partitionings.items())
        return {workflow_id: one for workflow_id, one in found if workflow_id is not None}

    def read_of(self, asset_id: str, workflow_id: int, selection: Selection, newest: Values = NO_VALUES) -> Selection:
        """Return the partitions of an input that these partitions of the workflow read, or would read with data.

        `newest`: its newest values with data. Without them, a mapping `latest` may read any.
        """
        mapping = self._mappings.get((asset_id, workflow_id))
        if mapping is None:
            return NOTHING if selection.is_empty else EVERYTHING
        return mapping.readable_all(selection, newest) if mapping.latest else mapping.up_all(selection)

    @cached_property
    def latest_edges(self) -> tuple[tuple[str, int], ...]:
        """The inputs of which workflows read the newest partitions with data, with these workflows."""
        return tuple(sorted(edge for edge, mapping in self._mappings.items() if mapping.latest))

    def mapping(self, asset_id: str, workflow_id: int) -> PartitionMapping | None:
        """Return the mapping of an edge; None if neither the input nor the consumer has partitions."""
        return self._mappings.get((asset_id, workflow_id))

    def is_mapped(self, workflow_id: int) -> bool:
        """Return whether the workflow or one of its inputs has partitions."""
        return workflow_id in self._mapped

    @cached_property
    def _mapped(self) -> frozenset[int]:
        return frozenset(workflow_id for _, workflow_id in self._mappings).union(self._by_workflow)

    def requirement(self, asset_id: str, workflow_id: int) -> Requirement:
        """Return how many partitions of an input must have data."""
        mapping = self._mappings.get((asset_id, workflow_id))
        default = default_requirement(mapping) if mapping else ALL
        return self._requirements.get((asset_id, workflow_id), default)

    def retained(self, asset_id: str) -> timedelta | None:
        """Return how long after its window a partition of the asset is kept; None: without end."""
        return self._retained.get(asset_id)

    def on_retire(self, asset_id: str, workflow_id: int) -> OnRetire:
        """Return what happens to partitions of the workflow when retention removes one that they read."""
        edge = (asset_id, workflow_id)
        mapping = self._mappings.get(edge)
        recompute = mapping is not None and default_requirement(mapping) == ANY
        return self._on_retire.get(edge, OnRetire.RECOMPUTE if recompute else OnRetire.KEEP)

    def outputs_of(self, workflow_id: int) -> tuple[str, ...]:
        """Return the assets that a workflow produces, sorted."""
        return self._made.get(workflow_id, ())

    @cached_property
    def _made(self) -> dict[int, tuple[str, ...]]:
        found: dict[int, list[str]] = defaultdict(list)
        for asset_id, workflow_id in self._producers.items():
            found[workflow_id].append(asset_id)
        return {workflow_id: tuple(sorted(assets)) for workflow_id, assets in found.items()}

    def own_input(self, workflow_id: int) -> str | None:
        """Return the own output of which the workflow reads earlier partitions (docs/semantics.md#R13.6)."""
        return self._earlier.get(workflow_id)

    def predecessors(self, workflow_id: int, selection: Selection) -> Selection:
        """Return the partitions of its own output that these partitions of a workflow read, directly or not."""
        asset_id = self._earlier.get(workflow_id)
        if asset_id is None:
            return NOTHING
        mapping = self._mappings[asset_id, workflow_id]
        return mapping.with_earlier(mapping.up_all(selection))

    def level(self, workflow_id: int) -> int:
        """Return 0 for a workflow that reads only sources, else one more than the highest parent."""
        return fold(workflow_id, self._levels, lambda one: tuple(self.parents(one)), self._level)

    def _level(self, workflow_id: int) -> int:
        return 1 + max((self._levels[parent] for parent in self.parents(workflow_id)), default=-1)

    def roots(self, asset_id: str) -> int:
        """Return the roots of the asset as bits of a number: its sources, and its workflows without inputs.

        Two assets have a common ancestor exactly when they share a root. All outputs of a workflow without inputs
        have one root, because they are of one generation. Bits, because sets take gigabytes in graphs with thousands
        of sources.
        """
        return fold(asset_id, self._roots, self._read_for, self._own_roots)

    def heard_roots(self, asset_id: str) -> int:
        """Return the roots whose changes can reach the asset by runs that they cause."""
        return (
            fold(asset_id, self._heard, self._heard_for, self._own_heard)
            if self._not_triggering
            else self.roots(asset_id)
        )

    def _heard_for(self, asset_id: str) -> tuple[str, ...]:
        producer = self._producers.get(asset_id)
        return tuple(one for one in self._read_for(asset_id) if (one, producer) not in self._not_triggering)

    def _own_heard(self, asset_id: str) -> int:
        above = self._heard_for(asset_id)
        if above or self._read_for(asset_id):
            return reduce(or_, (self._heard[upper] for upper in above), 0)
        return self.roots(asset_id)

    def _read_for(self, asset_id: str) -> tuple[str, ...]:
        producer = self._producers.get(asset_id)
        return self.inputs(producer) if producer is not None else ()

    def _own_roots(self, asset_id: str) -> int:
        above = self._read_for(asset_id)
        if not above:
            root = self._producers.get(asset_id, asset_id)
            return 1 << self._numbers.setdefault(root, len(self._numbers))
        return reduce(or_, (self._roots[upper] for upper in above))

    def origins(self, workflow_id: int) -> int:
        """Return the roots of all inputs of the workflow."""
        return reduce(or_, (self.roots(asset_id) for asset_id in self.inputs(workflow_id)), 0)

    def descendants(self, *assets: str) -> list[int]:
        """Return every workflow downstream of the assets, by level."""
        found: set[int] = set()
        frontier = list(assets)
        made: dict[int, list[str]] = defaultdict(list)
        for output, workflow_id in self._producers.items():
            made[workflow_id].append(output)
        while frontier:
            for workflow_id in self.consumers(frontier.pop()):
                if workflow_id not in found:
                    found.add(workflow_id)
                    frontier.extend(made[workflow_id])
        return sorted(found, key=lambda workflow_id: (self.level(workflow_id), workflow_id))


def fold(
    start: Node, memo: dict[Node, Value], above: Callable[[Node], Iterable[Node]], value: Callable[[Node], Value]
) -> Value:
    """Compute the value of `start` from the values of everything above it.

    `memo` keeps the values. It does not recurse, because chains may be deep.
    """
    stack = [start]
    while stack:
        current = stack[-1]
        missing = [] if current in memo else [upper for upper in above(current) if upper not in memo]
        if missing:
            stack.extend(missing)
            continue
        if current not in memo:
            memo[current] = value(current)
        stack.pop()
    return memo[start]


def find_cycle(successors: Mapping[str, Iterable[str]]) -> list[str] | None:
    """Return a cycle as a path whose first and last nodes are equal, or None."""
    done: set[str] = set()
    for start in sorted(successors):
        if start in done:
            continue
        path: list[str] = []
        on_path: set[str] = set()
        stack: list[tuple[str, Iterator[str]]] = [(start, iter(sorted(successors.get(start, ()))))]
        path.append(start)
        on_path.add(start)
        while stack:
            node, following = stack[-1]
            step = next((n for n in following if n not in done), None)
            if step is None:
                stack.pop()
                on_path.discard(path.pop())
                done.add(node)
            elif step in on_path:
                return [*path[path.index(step) :], step]
            else:
                stack.append((step, iter(sorted(successors.get(step, ())))))
                path.append(step)
                on_path.add(step)
    return None
