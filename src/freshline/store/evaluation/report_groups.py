"""Ends groups of reports that have settled (docs/semantics.md#R4.7)."""

from __future__ import annotations

from collections.abc import Mapping

from freshline.decide.report_groups import Members, Settling
from freshline.store.db.database import Connection
from freshline.store.db.queries import load

SQL = load("evaluation")


def read(connection: Connection) -> dict[str, Members]:
    """Return the groups that have not settled, by id."""
    return {row["id"]: tuple(row["members"]) for row in connection.execute(SQL["open_groups"]).fetchall()}


def settle(connection: Connection, settling: Settling, groups: Mapping[str, Members]) -> None:
    """End the groups below whose members everything is at rest, after the decisions of a batch were written.

    A group that two batches bring to rest at once is ended by the next batch or sweep: until then joins may wait for
    more than they need to.
    """
    if not groups:
        return
    graph = settling.graph
    awaited = {group_id: settling.awaited(members) for group_id, members in groups.items()}
    idle = {group_id: graph.not_automatic.intersection(workflows) for group_id, workflows in awaited.items()}
    # Whether all partitions of a workflow that only users start have read the current versions is not known.
    known = [group_id for group_id in groups if not any(graph.is_mapped(one) for one in idle[group_id])]
    pairs = [(group_id, one) for group_id in known for one in awaited[group_id]]
    idle_pairs = [(group_id, one) for group_id in known for one in sorted(idle[group_id])]
    arrays = {
        "known": known,
        "groups": [group_id for group_id, _ in pairs],
        "workflows": [one for _, one in pairs],
        "idle_groups": [group_id for group_id, _ in idle_pairs],
        "idle": [one for _, one in idle_pairs],
    }
    connection.execute(SQL["settle_groups"], arrays)
