"""One evaluation of all rules: what opens, what closes, and what is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from freshline.alerts import causes, schedule
from freshline.alerts.incidents import track
from freshline.alerts.records import Evaluation, Incident, Node, Rule, Situation, Trouble
from freshline.graph import Graph


def evaluate(
    rules: Sequence[Rule],
    incidents: Sequence[Incident],
    troubles: Sequence[Trouble],
    graph: Graph,
    *,
    reported: Mapping[str, datetime],
    now: datetime,
    new_id: Callable[[], str],
) -> Evaluation:
    """Return the changes. `incidents`: all that are not done. `reported`: see `causes.sources_above`."""
    slugs = frozenset(graph.slugs.values())

    def exists(node: Node) -> bool:
        return node.type != "workflow" or node.name in slugs

    found = {one.node: one for one in troubles}
    situation = Situation(found, causes.roots(troubles, graph, reported), exists, now)
    results = []
    for rule in rules:
        mine = {one.id: one for one in incidents if one.rule_id == rule.id}
        still_open = [one for one in mine.values() if one.open]
        changed = track(rule, still_open, situation, new_id)
        after = {**mine, **{one.id: one for one in changed}}
        planned = schedule.plan(rule, list(after.values()), now) if not rule.paused else _only_tracked(after)
        after |= {one.id: one for one in planned.incidents}
        results.append((rule, [one for one in after.values() if one != mine.get(one.id)], planned))
    times = [planned.next_at for _, _, planned in results if planned.next_at is not None]
    return Evaluation(
        incidents=tuple(one for _, changed, _ in results for one in changed),
        messages=tuple(message for _, _, planned in results for message in planned.messages),
        digested=tuple(rule.id for rule, _, planned in results if planned.digested),
        next_at=min(times, default=None),
    )


def _only_tracked(incidents: Mapping[str, Incident]) -> schedule.Schedule:
    """Return the schedule of a paused rule: incidents that end without a message are done."""
    silent = [one for one in incidents.values() if not one.open and one.alerted_at is None]
    return schedule.Schedule(incidents=tuple(one.but(done_at=one.closed_at) for one in silent))
