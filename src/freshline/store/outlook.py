"""Reads what a look into the future needs: the states below an asset, and the recorded past."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from freshline.graph import Graph
from freshline.store import catalogue, states
from freshline.store.database import Connection
from freshline.store.queries import load
from freshline.store.states import Moment

SQL = load("reader")


def below(connection: Connection, asset_id: str) -> Moment:
    """All facts about the workflows downstream of the asset, and about every ancestor of those."""
    graph = catalogue.read_graph(connection)
    return states.read(connection, {(one, ""): 0 for one in sorted(_closed(graph, graph.descendants(asset_id)))})


def _closed(graph: Graph, workflows: Iterable[int]) -> set[int]:
    found: set[int] = set()
    frontier = list(workflows)
    while frontier:
        workflow_id = frontier.pop()
        if workflow_id not in found:
            found.add(workflow_id)
            frontier.extend(graph.parents(workflow_id))
    return found


def history(connection: Connection, since: datetime) -> dict[str, list[dict[str, Any]]]:
    """The reports of sources and the ends of runs since then, oldest first, and the definitions of this moment."""
    return {
        "workflows": connection.execute(SQL["history_workflows"]).fetchall(),
        "reports": connection.execute(SQL["history_reports"], {"since": since}).fetchall(),
        "runs": connection.execute(SQL["history_runs"], {"since": since}).fetchall(),
    }
