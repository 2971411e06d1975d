"""The search for ancestors in motion that a run has to wait for (docs/semantics.md#R4.2).

An ancestor in motion blocks a run only if the run could read a mix of generations: a changed input that does not
descend from the ancestor shares a root with it. Waiting for every active ancestor would starve long chains.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice

from freshline.decide.report_groups import Groups, Members
from freshline.graph import Graph, fold
from freshline.model.state import Blocker

MOST_BLOCKERS = 20
FIRST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Moving:
    """Why a workflow is in motion (docs/semantics.md#R4.1).

    `until`: the end of its hold. `cannot_run`: it is held without a known end.
    `origin`: when the root of what it waits for or computes happened; None: not known.
    `has_head`: there is data of it, or was. Only known of one partition that cannot run.
    """

    kind: str
    until: datetime | None = None
    cannot_run: bool = False
    origin: datetime | None = None
    has_head: bool = True

    @property
    def never_read(self) -> bool:
        """Whether nothing can have read its data, and nothing will before an event lets it run."""
        return self.cannot_run and not self.has_head


class Walk:
    """A memoised search upwards from the workflows of one batch.

    It stops at the lowest level in motion. A batch is decided in topological order: `settle` records each decision.
    `groups`: sources that were reported together, and that have not settled (docs/semantics.md#R4.7).
    """

    def __init__(self, graph: Graph, motion: Mapping[int, Moving], groups: Iterable[Members] = ()) -> None:
        self._graph = graph
        self._groups = Groups(graph, groups)
        self._motion = {w: m for w, m in motion.items() if w in graph.slugs}
        self._floor = min((graph.level(w) for w in self._motion), default=None)
        self._above: dict[int, frozenset[int]] = {}

    def settle(self, workflow_id: int, moving: Moving | None, partition_key: str = "") -> None:  # noqa: ARG002
        """Record the motion of a workflow after its decision; None: it is at rest."""
        if moving is None:
            self._motion.pop(workflow_id, None)
        else:
            self._motion[workflow_id] = moving

    def blockers(
        self,
        workflow_id: int,
        moved: Iterable[str],
        *,
        every: bool = False,
        partition_key: str = "",  # noqa: ARG002 - as in `PartitionWalk`
        since: datetime | None = None,  # noqa: ARG002 - as in `PartitionWalk`
        not_after: datetime | None = None,
    ) -> tuple[Blocker, ...]:
        """Return the ancestors in motion that a run has to wait for.

        `moved`: the inputs of another generation than the last success. `every`: ancestors block even if the run
        cannot read a mix because of them (docs/semantics.md#R4.3), of these only those whose origin is not after
        `not_after`.
        """
        above = [x for x in self._moving_above(workflow_id) if x in self._motion]
        if not above:
            return ()
        inputs = tuple(moved)
        ordered = sorted(above, key=self._order)
        mixing = list(islice((x for x in ordered if self._could_mix(x, inputs)), MOST_BLOCKERS))
        if not every:
            return tuple(self._blocker(x, inputs, mixes=True) for x in mixing)
        # A mixing one is always named, however many others there are: the run has to say that it reads a mix.
        early = [x for x in ordered if is_early(self._motion[x], not_after)]
        found = list(dict.fromkeys((*early[: MOST_BLOCKERS - 1], *mixing[:1], *early, *mixing)))[:MOST_BLOCKERS]
        return tuple(self._blocker(x, inputs, mixes=x in mixing) for x in found)

    def came_out_unchanged(self, asset_id: str, moved_sources: Collection[str]) -> bool:
        """Return whether a source of the asset moved, and everything between them is at rest (docs/semantics.md#R1.4).

        The asset itself did not move, so a workflow in between has stopped the change. A source whose changes cause no
        run in between does not count.
        """
        producer = self._graph.producer(asset_id)
        if producer is None or any(x in self._motion for x in (producer, *self._moving_above(producer))):
            return False
        roots = self._graph.heard_roots(asset_id)
        return any(roots & self._graph.roots(source) for source in moved_sources)

    def _order(self, workflow_id: int) -> tuple[bool, bool, datetime, int]:
        """Sort active ancestors first, because the list is cut at its end."""
        moving = self._motion[workflow_id]
        return moving.cannot_run, moving.until is not None, moving.until or FIRST, workflow_id

    def link(self, groups: Iterable[Members]) -> None:
        """Let these groups of reports be those that have not settled."""
        self._groups = Groups(self._graph, groups)

    def _could_mix(self, ancestor: int, changed: tuple[str, ...]) -> bool:
        if self._shares_root(ancestor, changed):
            return True
        return bool(self._together(ancestor, changed))

    def _shares_root(self, ancestor: int, changed: tuple[str, ...]) -> bool:
        origins = self._graph.origins(ancestor)
        return any(
            origins & self._graph.roots(asset_id) and not self._descends(asset_id, ancestor) for asset_id in changed
        )

    def _together(self, ancestor: int, changed: tuple[str, ...]) -> Members:
        """Return the group from which the ancestor and a moved input descend, which does not descend from it."""
        origins = self._graph.origins(ancestor)
        for asset_id in changed:
            for members in self._groups.linking(origins, self._graph.roots(asset_id)):
                if not self._descends(asset_id, ancestor):
                    return members
        return ()

    def _descends(self, asset_id: str, ancestor: int) -> bool:
        producer = self._graph.producer(asset_id)
        return producer is not None and (producer == ancestor or ancestor in self._moving_above(producer))

    def _blocker(self, workflow_id: int, changed: tuple[str, ...], *, mixes: bool) -> Blocker:
        moving, slug = self._motion[workflow_id], self._graph.slugs[workflow_id]
        together = self._together(workflow_id, changed) if mixes and not self._shares_root(workflow_id, changed) else ()
        return Blocker(workflow_id, slug, moving.kind, moving.until, moving.cannot_run, mixes, together=together)

    def _moving_above(self, start: int) -> frozenset[int]:
        """Return the proper ancestors that were in motion when the walk began."""
        return fold(start, self._above, self._parents, self._collect)

    def _collect(self, workflow_id: int) -> frozenset[int]:
        parents = self._parents(workflow_id)
        moving = frozenset(parent for parent in parents if parent in self._motion)
        return moving.union(*(self._above[parent] for parent in parents))

    def _parents(self, workflow_id: int) -> tuple[int, ...]:
        if self._floor is None or self._graph.level(workflow_id) <= self._floor:
            return ()
        return tuple(self._graph.parents(workflow_id))


def strongest(known: Moving | None, moving: Moving) -> Moving:
    """Return the stronger of two motions of a workflow, with the earlier origin.

    The strongest has no end, then comes the latest end, then one that cannot run.
    """
    if known is None:
        return moving
    stronger = moving if _strength(moving) > _strength(known) else known
    origins = [one.origin for one in (known, moving)]
    return replace(stronger, origin=None if None in origins else min(one for one in origins if one is not None))


def _strength(moving: Moving) -> tuple[bool, bool, float]:
    until = moving.until
    return not moving.cannot_run, until is None, until.timestamp() if until else 0.0


def is_early(moving: Moving, not_after: datetime | None) -> bool:
    """Return whether the root of a motion is not known to have happened after a time."""
    return not_after is None or moving.origin is None or moving.origin <= not_after
