"""Reads the facts that `root_causes` needs, and returns the causes as documents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import cached_property

from freshline.alerts import causes
from freshline.alerts.records import Node, Trouble
from freshline.graph import Graph
from freshline.model.alerts import AlertKind
from freshline.model.documents.overview import Cause, CauseKind
from freshline.model.enums import AssetState
from freshline.model.json import Json
from freshline.model.state import reference
from freshline.store.alerts.troubles import read_reported, read_troubles
from freshline.store.read.next_steps import Source, Words, first_line, next_step, sentence
from freshline.store.read.root_causes import Fact, Found, Root, Situation, find, lasting
from freshline.store.read.session import ReadSession, json_value
from freshline.store.read.status import AT_REST

MOST_ASSETS = 20
_WITH_ERROR = frozenset({"failing", "watch-failing", "nothing-found"})


class CauseReader:
    """The causes in one transaction. `states`: those of all assets."""

    def __init__(self, session: ReadSession, graph: Graph, states: Mapping[str, AssetState], now: datetime) -> None:
        self._session = session
        self._graph = graph
        self._now = now
        self._failing = {one for one, state in states.items() if state is AssetState.FAILING}
        self._unfresh = {one for one, state in states.items() if state not in AT_REST}
        self._keys: dict[str, str] = {}  # the last partition that fails, by slug

    def found(self) -> list[Found]:
        """Return all causes."""
        found = find(self._situation, self._troubles)
        late = [one.first.node.name for one in found if one.first.kind == "overdue"]
        if late:
            self._sources.update({row["id"]: row for row in self._session.rows("reported_sources", assets=late)})
        return found

    def document(self, found: Found) -> Cause:
        """Return a cause with its sentence and what to do."""
        root, words = found.first, self._words(found)
        named = not root.soft or len(found.roots) == 1
        fact = words.fact if named else None
        until = _until(root, fact) if fact else None
        return {
            "kind": root.kind,
            "assetId": root.node.name if root.node.type == "asset" else words.made,
            "workflowSlug": root.node.name if root.node.type == "workflow" and named else None,
            "partitionKey": self._keys.get(root.node.name, ""),
            "runId": words.run_id or (fact.run_id if fact and root.soft else None),
            "backfillId": root.node.name if root.node.type == "backfill" else None,
            "reason": root.reason or None,
            "since": json_value(root.since),
            "until": json_value(until) if until and until > self._now else None,
            "explains": len(found.assets),
            "behind": self._behind(found),
            "assets": sorted(found.assets)[:MOST_ASSETS],
            "sentence": sentence(found, words),
            "error": words.error,
            "next": next_step(found, words),
        }

    @cached_property
    def _situation(self) -> Situation:
        troubles, graph = self._troubles, self._graph
        made = {graph.producer(one) for one in self._unfresh}
        slugs = sorted(graph.slugs[one] for one in made if one in graph.slugs)
        reported = read_reported(self._session.connection, sorted(causes.sources_above(troubles, graph)))
        return Situation(
            graph=graph,
            now=self._now,
            unfresh=self._unfresh,
            facts={row["id"]: Fact(**row) for row in self._session.rows("facts", slugs=slugs)},
            unreported={name: _unreported(row) for name, row in self._sources.items()},
            failing={one.node.name: one for one in troubles if one.node.type == "workflow" and not one.late_only},
            roots=causes.roots(troubles, graph, reported),
        )

    @cached_property
    def _sources(self) -> dict[str, Json]:
        return {row["id"]: row for row in self._session.rows("unreported_sources")}

    @cached_property
    def _troubles(self) -> list[Trouble]:
        """All that is wrong: what alerts are about, and failures of partitions and of manual runs."""
        session, graph = self._session, self._graph
        found = read_troubles(session.connection)
        known = {one.node.name for one in found if one.node.type == "workflow" and not one.late_only}
        made = {graph.producer(one) for one in self._failing}
        others = {graph.slugs[one] for one in made if one in graph.slugs} - known
        rows = session.rows("other_failures", slugs=sorted(others)) if others else []
        self._keys = {row["slug"]: row["partition_key"] for row in rows}
        found = [one for one in found if one.node.name not in self._keys] + [_failure(row) for row in rows]
        began = {row["slug"]: row["since"] for row in session.rows("first_failures", slugs=sorted(known | others))}
        return [
            replace(one, since=began[one.node.name]) if one.node.type == "workflow" and one.node.name in began else one
            for one in found
        ]

    @cached_property
    def _known(self) -> Mapping[Node, Trouble]:
        return {one.node: one for one in self._troubles}

    @cached_property
    def _members(self) -> Mapping[Node, list[Trouble]]:
        """What has a shared root, by that root."""
        found: dict[Node, list[Trouble]] = defaultdict(list)
        for node, root in self._situation.roots.items():
            found[root].append(self._known[node])
        return found

    @cached_property
    def _facts(self) -> Mapping[str, Fact]:
        return {one.slug: one for one in self._situation.facts.values()}

    def _words(self, found: Found) -> Words:
        root = found.first
        members = self._members.get(root.node, [])
        trouble = self._known.get(root.node) or next(iter(members), None)
        source = self._sources.get(root.node.name, {})
        error = trouble.error if trouble and root.kind in _WITH_ERROR else source.get("error")
        return Words(
            fact=self._facts.get(root.node.name) if root.node.type == "workflow" else None,
            source=Source(bool(source.get("append")), bool(source.get("partitioned")), bool(source.get("watched"))),
            run_id=trouble.run_id if trouble and root.kind == "failing" else None,
            error=first_line(error),
            unit=reference(root.node.name, self._keys.get(root.node.name, "")),
            readers=len(members),
            made=_made(trouble) if root.kind == "proposal" else None,
        )

    def _behind(self, found: Found) -> int:
        """Return how many assets are made from the origins of a cause, without their own outputs."""
        named = {root.node.name for root in found.roots if root.node.type == "workflow"}
        own = {workflow_id for slug in named if (workflow_id := self._numbers.get(slug)) is not None}
        assets = [one for workflow_id in own for one in self._graph.outputs_of(workflow_id)]
        assets += [root.node.name for root in found.roots if root.node.type == "asset"]
        if found.first.node.type == "backfill":
            assets += found.assets
        below = set(self._graph.descendants(*assets)) - own
        return sum(len(self._graph.outputs_of(one)) for one in below)

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {slug: workflow_id for workflow_id, slug in self._graph.slugs.items()}


def _failure(row: Json) -> Trouble:
    return Trouble(
        node=Node("workflow", row["slug"]),
        since=row["since"],
        assets={AlertKind.FAILING: tuple(row["outputs"])},
        workflow_id=row["id"],
        project=row["project"],
        run_id=row["run_id"],
        failures=1,
        error_code=row["code"],
        error=row["message"],
    )


def _unreported(row: Json) -> Root:
    kind: CauseKind = "nothing-found" if row["watched"] else "never-reported"
    return lasting(row["since"], kind, Node("asset", row["id"]))


def _made(trouble: Trouble | None) -> str | None:
    """Return the asset that a proposal is about."""
    return next((assets[0] for assets in trouble.assets.values()), None) if trouble else None


def _until(root: Root, fact: Fact) -> datetime | None:
    """Return when a cause ends by itself, as far as that is known."""
    match root.kind:
        case "failing":
            return fact.eligible_at
        case "paused":
            return fact.paused_until
        case "held" if root.soft:
            return fact.blocks_until or fact.not_before
        case _:
            return None
