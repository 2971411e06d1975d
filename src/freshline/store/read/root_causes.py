"""Finds out of what each asset that is not fresh is a consequence, and groups them by that.

A cause that only a user ends (a failing job, a pause, a source without data) explains everything below it that is not
fresh, however far; of several, the one that began first. A workflow that is about to run by itself is its own cause,
and explains what waits for it. Such causes are grouped: forty workflows that run are one cause.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from freshline.alerts.records import Node, Trouble
from freshline.graph import Graph, fold
from freshline.model.documents.overview import CauseKind
from freshline.model.enums import Reason

# Holds that end by themselves, whatever is above.
_OWN_HOLDS = frozenset(
    {Reason.DEBOUNCING, Reason.MIN_INTERVAL, Reason.QUIET_HOURS, Reason.WAITING_FOR_ALL, Reason.INPUT_TOO_OLD}
)


@dataclass(frozen=True, slots=True)
class Fact:
    """What keeps a workflow from being fresh. `proposal`: a backfill of it that waits for an approval."""

    id: int
    slug: str
    automatic: bool
    applied_at: datetime
    paused_at: datetime | None
    paused_until: datetime | None
    hold: str | None
    noted_at: datetime | None
    not_before: datetime | None
    blocks_until: datetime | None
    blocker: str | None
    run_id: str | None
    status: str | None
    run_since: datetime | None
    eligible_at: datetime | None
    breaker_at: datetime | None
    proposal: str | None
    due: bool


class Root(NamedTuple):
    """The origin of a cause. Those that end by themselves (`soft`) come last, and then the oldest first."""

    soft: bool
    since: datetime
    kind: CauseKind
    node: Node
    reason: str = ""

    @property
    def group(self) -> tuple[str, ...]:
        """Return what causes that are shown as one have in common."""
        return (self.kind, self.reason) if self.soft else self.node


def lasting(since: datetime, kind: CauseKind, node: Node, reason: str = "") -> Root:
    """Return an origin that only a user ends."""
    return Root(soft=False, since=since, kind=kind, node=node, reason=reason)


def passing(since: datetime, kind: CauseKind, node: Node, reason: str = "") -> Root:
    """Return an origin that ends by itself."""
    return Root(soft=True, since=since, kind=kind, node=node, reason=reason)


@dataclass(slots=True)
class Found:
    """A cause: its origins, and the assets that it explains. `unfresh`: those of them that are not fresh."""

    roots: list[Root]
    assets: set[str] = field(default_factory=set)
    unfresh: set[str] = field(default_factory=set)

    @property
    def first(self) -> Root:
        """Return the origin that describes the cause."""
        return min(self.roots)


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known. `unfresh`: the states of produced assets that are not fresh; `unreported`: sources without data.

    `failing`: the trouble of each failing workflow, by its slug, and `roots`: the root of each trouble.
    """

    graph: Graph
    now: datetime
    unfresh: Collection[str]
    facts: Mapping[int, Fact]
    unreported: Mapping[str, Root]
    failing: Mapping[str, Trouble]
    roots: Mapping[Node, Node]


def find(situation: Situation, troubles: Iterable[Trouble]) -> list[Found]:
    """Return the causes: those that a user ends first, and those that explain most."""
    groups: dict[tuple[str, ...], Found] = {}
    seen: dict[tuple[str, ...], set[Root]] = defaultdict(set)

    def add(root: Root, assets: Collection[str], *, unfresh: bool) -> None:
        found = groups.setdefault(root.group, Found([]))
        if root not in seen[root.group]:
            seen[root.group].add(root)
            found.roots.append(root)
        found.assets.update(assets)
        if unfresh:
            found.unfresh.update(assets)

    for workflow_id, root in _assigned(situation):
        add(root, {*situation.graph.outputs_of(workflow_id)}.intersection(situation.unfresh), unfresh=True)
    explained = {one for found in groups.values() for one in found.unfresh}
    for root, assets in _others(situation, troubles):
        add(root, assets - explained, unfresh=False)
    return sorted(groups.values(), key=lambda one: (one.first.soft, -len(one.unfresh), -len(one.assets), one.first))


def _others(situation: Situation, troubles: Iterable[Trouble]) -> Iterator[tuple[Root, set[str]]]:
    """Yield what is wrong although its assets may be fresh: late data, watchers that fail, and proposals."""
    for one in troubles:
        late = {asset for assets in one.assets.values() for asset in assets}
        if one.node.type == "backfill":
            yield lasting(one.since, "proposal", one.node), set()
        elif one.node.type == "asset":
            if one.node.name not in situation.unreported:
                yield lasting(one.since, "watch-failing", one.node), set()
        elif one.late_only:
            node = situation.roots.get(one.node, one.node)
            kind: CauseKind = "failing" if node.type == "workflow" and node.name in situation.failing else "overdue"
            yield lasting(_since(situation, node, one.since), kind, node), late


def _since(situation: Situation, node: Node, otherwise: datetime) -> datetime:
    known = situation.failing.get(node.name) if node.type == "workflow" else None
    return known.since if known else otherwise


def _assigned(situation: Situation) -> Iterator[tuple[int, Root]]:
    """Yield every workflow that is not fresh, with its cause."""
    graph, facts = situation.graph, situation.facts
    memo: dict[int, Root | None] = {}

    def parents(workflow_id: int) -> list[int]:
        return [one for one in graph.parents(workflow_id) if one in facts] if workflow_id in facts else []

    def inherited(workflow_id: int) -> Root | None:
        above = [root for one in parents(workflow_id) if (root := memo[one]) is not None]
        missing = [root for one in graph.inputs(workflow_id) if (root := situation.unreported.get(one)) is not None]
        return min([*above, *missing], default=None)

    def passed(workflow_id: int) -> Root | None:
        """Return what explains the descendants: the highest cause."""
        above, own = inherited(workflow_id), _own(situation, facts[workflow_id])
        if above is not None and not above.soft:
            return above
        return own if own is not None and not own.soft else above or own or _waiting(situation, facts[workflow_id])

    for workflow_id, fact in facts.items():
        fold(workflow_id, memo, parents, passed)
        yield workflow_id, _own(situation, fact) or inherited(workflow_id) or _waiting(situation, fact)


def _own(situation: Situation, fact: Fact) -> Root | None:
    """Return the cause that a workflow has itself; None if it only waits for others."""
    node = Node("workflow", fact.slug)
    if (trouble := situation.failing.get(fact.slug)) is not None and not trouble.late_only:
        root = situation.roots.get(node, node)
        return lasting(_since(situation, root, trouble.since), "failing", root)
    noted = fact.noted_at or situation.now
    if fact.status is not None:
        kind: CauseKind = "running" if fact.status == "running" else "queued"
        return passing(fact.run_since or noted, kind, node)
    if fact.proposal is not None:
        return lasting(noted, "proposal", Node("backfill", fact.proposal))
    if fact.paused_at is not None and (fact.paused_until is None or fact.paused_until > situation.now):
        return lasting(fact.paused_at, "paused", node)
    if fact.hold == Reason.CANCELED:
        return lasting(noted, "canceled", node)
    if fact.hold == Reason.INPUT_RETIRED:
        return lasting(noted, "held", node, fact.hold)
    if not fact.automatic:
        return lasting(fact.applied_at, "not-automatic", node)
    return passing(noted, "held", node, fact.hold or "") if fact.hold in _OWN_HOLDS else None


def _waiting(situation: Situation, fact: Fact) -> Root:
    """Return the cause of a workflow that nothing else explains."""
    kind: CauseKind = "held" if fact.hold else "due" if fact.due else "stale"
    return passing(fact.noted_at or situation.now, kind, Node("workflow", fact.slug), fact.hold or "")
