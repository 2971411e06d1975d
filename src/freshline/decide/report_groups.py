"""Groups of reports: sources that were reported together, as one generation (docs/semantics.md#R4.7).

Until a group has settled it counts as a common ancestor of its members, so that a join below two branches waits for
both. A group has settled once everything below its members was at rest at one moment: from then on all of it is made
from the whole group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from freshline.graph import Graph
from freshline.model.state import split_reference

Members = tuple[str, ...]  # references of sources or of their partitions, sorted


class Groups:
    """The groups that have not settled, as roots of the graph."""

    def __init__(self, graph: Graph, groups: Iterable[Members] = ()) -> None:
        self._roots = [(members, _roots(graph, members)) for members in groups]

    def linking(self, origins: int, roots: int) -> Iterator[Members]:
        """Yield the groups from which both descend."""
        return (members for members, common in self._roots if common & origins and common & roots)


def _roots(graph: Graph, members: Members) -> int:
    found = 0
    for member in members:
        # A member that a workflow produces by now counts with all that it is made from.
        found |= graph.roots(split_reference(member)[0])
    return found


class Settling:
    """The workflows that must come to rest before a group has settled, memoised for one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._found: dict[Members, tuple[int, ...]] = {}

    def awaited(self, members: Members) -> tuple[int, ...]:
        """Return the workflows below any member.

        Those that are above no join count too: an apply can add one while they run.
        """
        known = self._found.get(members)
        if known is None:
            assets = {split_reference(one)[0] for one in members}
            known = self._found[members] = tuple(self.graph.descendants(*sorted(assets)))
        return known
