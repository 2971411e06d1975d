"""Warns about ancestors whose runs take longer than a workflow's `maxWaitMs` (docs/semantics.md#R4.5). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from freshline.decide.motion import Moving, Walk
from freshline.definitions.loading.project import LoadedWorkflow, Project
from freshline.graph import Graph
from freshline.model.policy import Policy


@dataclass(frozen=True, slots=True)
class Duration:
    """The 95th percentile of the durations of a workflow's last `runs` successful runs."""

    slug: str
    p95_ms: int
    runs: int


class WaitWarnings:
    """The workflows of a project that may have to wait for ancestors, in the proposed graph."""

    def __init__(self, project: Project, graph: Graph) -> None:
        self._graph = graph
        self._numbers = {slug: number for number, slug in graph.slugs.items()}
        self._waiting = [one for one in project.workflows if self._may_wait(one)]

    @property
    def awaited(self) -> list[str]:
        """Return the slugs of all workflows that one of them could wait for."""
        found: set[int] = set()
        frontier = [self._numbers[one.definition.slug] for one in self._waiting]
        while frontier:
            above = [parent for parent in self._graph.parents(frontier.pop()) if parent not in found]
            found.update(above)
            frontier.extend(above)
        return sorted(self._graph.slugs[number] for number in found)

    @property
    def shortest_ms(self) -> int:
        """Return the shortest `maxWaitMs`."""
        return min((one.policy.max_wait_ms for one in self._waiting), default=0)

    def warnings(self, durations: Iterable[Duration]) -> list[str]:
        """Return a warning per workflow that waits too short, naming its slowest ancestor."""
        slow = {self._numbers[one.slug]: one for one in durations}
        walk = Walk(self._graph, dict.fromkeys(slow, Moving("running")))
        found = ((one, self._slowest(one, walk, slow)) for one in self._waiting)
        return [_warning(one, slowest) for one, slowest in found if slowest is not None]

    def _slowest(self, one: LoadedWorkflow, walk: Walk, slow: Mapping[int, Duration]) -> Duration | None:
        number = self._numbers[one.definition.slug]
        # An expired workflow waits for every ancestor, a changed one only to avoid a mix (docs/semantics.md#R4.3).
        found = walk.blockers(number, self._graph.inputs(number), every=_expires(one.policy))
        blockers = (slow[blocker.workflow_id] for blocker in found)
        longer = (duration for duration in blockers if duration.p95_ms > one.policy.max_wait_ms)
        return max(longer, key=lambda duration: duration.p95_ms, default=None)

    def _may_wait(self, one: LoadedWorkflow) -> bool:
        policy = one.policy
        waits = policy.automatic and policy.wait_for_upstream and policy.max_wait_ms > 0
        joins = len(self._graph.inputs(self._numbers[one.definition.slug])) > 1
        return waits and (joins or _expires(policy))


def _expires(policy: Policy) -> bool:
    return any(
        output.enabled and (output.freshness.ttl_ms or output.freshness.cadence_ms or output.freshness.cron)
        for output in policy.outputs
    )


def _warning(one: LoadedWorkflow, slow: Duration) -> str:
    most = one.policy.max_wait_ms
    seen = (
        f"the 95th percentile of its last {slow.runs} successful runs" if slow.runs > 1 else "its only success so far"
    )
    return (
        f"{one.place}: workflow '{one.definition.slug}' waits for its ancestors for at most {_seconds(most)}"
        f" (maxWaitMs {most}), but '{slow.slug}' takes up to {_seconds(slow.p95_ms)} ({seen}); it would run without"
        f" it and could read a mix; raise maxWaitMs above {slow.p95_ms}, or make '{slow.slug}' faster"
    )


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g} s"
