"""Finds the root cause of everything that is wrong, so that one cause is one incident (docs/semantics.md#R15.2).

A failing workflow explains everything that is wrong below it, however far: the highest failing ancestor is the root.
Late data, and a source that cannot be watched, explain late data below them, and no failure of a job. Roots that do not
explain each other may still have one cause: workflows that fail with the same kind of error since the same input
changed, and assets that are late because the same source is silent. These share that asset as their root.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

from freshline.alerts.records import Node, Trouble
from freshline.graph import Graph, fold

Ranked = tuple[datetime, Node]
Clue = tuple[str, str | None, str | None]  # an input, the version that the last success read, the code of the error
MOST_ANCESTORS = 10_000


def roots(troubles: Collection[Trouble], graph: Graph, reported: Mapping[str, datetime]) -> dict[Node, Node]:
    """Return the root cause of each trouble. A trouble that nothing explains is its own root.

    `reported`: when the sources of `sources_above` were reported last.
    """
    found = _tops(troubles, graph)
    own = [one for one in troubles if found[one.node] == one.node]
    waiting = {one.node: silent_source(one, graph, reported) for one in own if one.late_only}
    shared = {**_common_inputs(own), **_grouped_by_source(waiting)}
    return {node: shared.get(root, root) for node, root in found.items()}


def sources_above(troubles: Collection[Trouble], graph: Graph) -> set[str]:
    """Return the sources that late roots are made from."""
    found = _tops(troubles, graph)
    late = [one for one in troubles if one.late_only and found[one.node] == one.node]
    return {source for one in late for source in _sources(one, graph)}


def silent_source(trouble: Trouble, graph: Graph, reported: Mapping[str, datetime]) -> str | None:
    """Return the source that a late asset waits for; None if there is newer data, so that something else holds it.

    Of several it is the one that was reported last: it is the one that usually moves.
    """
    times = {source: at for source in _sources(trouble, graph) if (at := reported.get(source)) is not None}
    if not times or trouble.produced_at is None or max(times.values()) > trouble.produced_at:
        return None
    return max(times, key=lambda source: (times[source], source))


def _tops(troubles: Collection[Trouble], graph: Graph) -> dict[Node, Node]:
    failing = _highest([one for one in troubles if not one.late_only], troubles, graph)
    late = _highest([one for one in troubles if one.late_only], troubles, graph)
    return {one.node: failing.get(one.node) or late.get(one.node) or one.node for one in troubles}


def _highest(causes: Iterable[Trouble], troubles: Iterable[Trouble], graph: Graph) -> dict[Node, Node]:
    """Return for each trouble the highest of `causes` above it, or itself. Of several the oldest is taken."""
    by_node = {one.node: one for one in causes}
    memo: dict[int, Ranked | None] = {}

    def parents(workflow_id: int) -> tuple[int, ...]:
        return tuple(graph.parents(workflow_id))

    def ranked(node: Node) -> Iterator[Ranked]:
        if (own := by_node.get(node)) is not None:
            yield own.since, node

    def value(workflow_id: int) -> Ranked | None:
        above = [found for parent in parents(workflow_id) if (found := memo[parent]) is not None]
        above += [one for asset_id in graph.inputs(workflow_id) for one in ranked(Node("asset", asset_id))]
        return min(above) if above else next(ranked(Node("workflow", graph.slugs[workflow_id])), None)

    found: dict[Node, Node] = {}
    for one in troubles:
        if one.workflow_id in graph.slugs and (top := fold(one.workflow_id, memo, parents, value)) is not None:
            found[one.node] = top[1]
    return found


def _sources(trouble: Trouble, graph: Graph) -> set[str]:
    """Return the sources above a workflow; none if it has too many ancestors for a search."""
    if trouble.workflow_id not in graph.slugs:
        return set()
    above = graph.ancestors([trouble.workflow_id], MOST_ANCESTORS)
    if above is None:
        return set()
    read = {asset_id for one in (trouble.workflow_id, *above) for asset_id in graph.inputs(one)}
    return {asset_id for asset_id in read if graph.producer(asset_id) is None}


def _common_inputs(own: Iterable[Trouble]) -> dict[Node, Node]:
    """Return the asset that explains workflows which fail in the same way since it changed."""
    groups: dict[Clue, set[Node]] = defaultdict(set)
    for one in own:
        if not one.late_only:
            for asset_id, version in one.good.items():
                groups[asset_id, version, one.error_code].add(one.node)
    return _grouped(groups)


def _grouped_by_source(waiting: Mapping[Node, str | None]) -> dict[Node, Node]:
    groups: dict[Clue, set[Node]] = defaultdict(set)
    for node, source in waiting.items():
        if source is not None:
            groups[source, None, None].add(node)
    return _grouped(groups)


def _grouped(groups: Mapping[Clue, set[Node]]) -> dict[Node, Node]:
    """Return the asset of each group with several members, the largest groups first."""
    found: dict[Node, Node] = {}
    for clue in sorted(groups, key=lambda clue: (-len(groups[clue]), clue[0], clue[1] or "", clue[2] or "")):
        members = groups[clue] - found.keys()
        if len(members) > 1:
            found |= dict.fromkeys(members, Node("asset", clue[0]))
    return found
