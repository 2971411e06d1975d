"""Opens, continues and closes incidents (docs/semantics.md#R15.3).

Membership is sticky: what once belonged to an open incident belongs to it until it ends. So a recovery from the top
down, in which every descendant is its own root for a moment, opens nothing. Something new joins the open incident of
its root cause. An incident ends when all its members were fine for `clear_after_ms`; until then a relapse continues it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta

from freshline.alerts.records import Closing, Incident, Node, Rule, Situation, Trouble

MOST_ASSETS = 20
MOST_ERROR_CHARS = 500


def track(rule: Rule, incidents: Sequence[Incident], situation: Situation, new_id: Callable[[], str]) -> list[Incident]:
    """Return the incidents of a rule that are new or have changed. `incidents`: its open ones."""
    concerned = {node for node, one in situation.troubles.items() if affected(rule, one)}
    members = _assign(incidents, concerned, situation.causes)
    changed = []
    for incident in incidents:
        after = _continued(rule, incident, members.pop(incident.id, set()), situation)
        if after != incident:
            changed.append(after)
    for nodes in members.values():  # of roots without an open incident
        made = Incident(new_id(), rule.id, _root(nodes, situation.causes), situation.now)
        changed.append(_described(rule, made, nodes, situation.troubles))
    return changed


def affected(rule: Rule, trouble: Trouble) -> list[str]:
    """Return the assets of a trouble that the rule reports, sorted."""
    if rule.project is not None and rule.project != trouble.project:
        return []
    found = {asset for kind, assets in trouble.assets.items() if kind in rule.policy.on for asset in assets}
    return sorted(asset for asset in found if rule.policy.matches(asset))


def _assign(
    incidents: Sequence[Incident], concerned: Collection[Node], causes: Mapping[Node, Node]
) -> dict[str, set[Node]]:
    """Return the members of each incident, by its id, and those of new ones, by the key of their root."""
    oldest = sorted(incidents, key=lambda one: (one.opened_at, one.id))
    holder = {key: one.id for one in reversed(oldest) for key in one.members}
    of_root = {one.root: one.id for one in reversed(oldest)}
    peers: dict[Node, str] = {}
    for node in sorted(concerned):
        if (held := holder.get(node.key)) is not None:
            peers.setdefault(causes[node], held)
    found: dict[str, set[Node]] = defaultdict(set)
    for node in sorted(concerned):
        root = causes[node]
        held = holder.get(node.key) or of_root.get(root)
        if held is None and not _fresh_failure(root, concerned, holder):
            held = peers.get(root)
        found[held or f"new {root.key}"].add(node)
    return found


def _fresh_failure(root: Node, concerned: Collection[Node], holder: Mapping[str, str]) -> bool:
    """Return whether the root itself has just failed: above an open incident it is one of its own."""
    return root in concerned and root.key not in holder


def _continued(rule: Rule, incident: Incident, nodes: Collection[Node], situation: Situation) -> Incident:
    if nodes:
        root = incident.root
        if root not in nodes and root not in {situation.causes[node] for node in nodes}:
            root = _root(nodes, situation.causes)  # the first root is fine, and others are not
        return _described(rule, incident.but(root=root, recovered_at=None), nodes, situation.troubles)
    now, members = situation.now, [Node.of(key) for key in incident.members]
    if any(node in situation.troubles for node in members):
        return incident.but(closed_at=now, closing=Closing.UNMATCHED)
    since = incident.recovered_at or now
    if now < since + timedelta(milliseconds=rule.policy.clear_after_ms):
        return incident.but(recovered_at=since)
    closing = Closing.RECOVERED if any(map(situation.exists, members)) else Closing.REMOVED
    return incident.but(recovered_at=since, closed_at=now, closing=closing)


def _described(rule: Rule, incident: Incident, nodes: Collection[Node], troubles: Mapping[Node, Trouble]) -> Incident:
    """Return the incident with its members and the facts that its message names."""
    kinds = {kind for node in nodes for kind in troubles[node].kinds if kind in rule.policy.on}
    assets = sorted({asset for node in nodes for asset in affected(rule, troubles[node])})
    first = _speaker(incident.root, nodes, troubles)
    return incident.but(
        kinds=incident.kinds | kinds,
        members=incident.members.union(node.key for node in nodes),
        assets=tuple(assets[:MOST_ASSETS]),
        affected=len(assets),
        run_id=first.run_id or incident.run_id,
        error=(first.error or incident.error or "")[:MOST_ERROR_CHARS] or None,
    )


def _speaker(root: Node, nodes: Collection[Node], troubles: Mapping[Node, Trouble]) -> Trouble:
    """Return the trouble that the message describes: that of the root, else the oldest."""
    if root in troubles:
        return troubles[root]
    return min((troubles[node] for node in nodes), key=lambda one: (one.late_only, one.since, one.node))


def _root(nodes: Collection[Node], causes: Mapping[Node, Node]) -> Node:
    return min(causes[node] for node in nodes)
