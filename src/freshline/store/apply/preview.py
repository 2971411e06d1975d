"""Reads what a look into the future needs: the states below an asset or a change, and the recorded past."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from freshline.graph import Graph
from freshline.model.enums import ExpiryReason
from freshline.settings import Settings
from freshline.simulation import plan
from freshline.simulation.from_store import Facts, restore
from freshline.store.apply import write
from freshline.store.db.database import Connection
from freshline.store.db.queries import load
from freshline.store.evaluation import load_state

SQL = load("apply")
Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Fetched:
    """The rows that facts are made of: what locks them can be let go before."""

    keys: Mapping[load_state.Key, int]
    states: Mapping[str, Any]
    clocks: Rows
    jobs: Rows

    def facts(self) -> Facts:
        """Return the rows as the simulation takes them."""
        moment = load_state.parse(self.states, self.keys)
        return Facts(
            now=moment.now,
            known=[(one.policy, one.state) for one in moment.loaded if not one.retired],
            due={row["asset_id"]: (row["due_at"], ExpiryReason(row["reason"])) for row in self.clocks},
            jobs={row["id"]: row["job_fingerprint"] for row in self.jobs},
        )


def below(connection: Connection, asset_id: str) -> Facts:
    """All facts about the workflows downstream of the asset, and about every ancestor of those."""
    graph = write.read_graph(connection)
    return _fetch(connection, graph, graph.descendants(asset_id)).facts()


def around(connection: Connection, slugs: Collection[str], assets: Iterable[str]) -> Fetched:
    """The same about these workflows and all downstream of them and of these assets."""
    graph = write.read_graph(connection)
    own = {workflow_id for workflow_id, slug in graph.slugs.items() if slug in slugs}
    made = [asset_id for asset_id, producer in graph.outputs().items() if producer in own]
    return _fetch(connection, graph, own.union(graph.descendants(*made, *assets)))


def flood(found: Fetched, settings: Settings, touched: Collection[str], freed: Iterable[str]) -> plan.Plan:
    """What an apply that touches these workflows and frees these assets starts, from the state that it leaves."""
    return plan.plan_apply(restore(found.facts(), settings), touched, freed)


def _fetch(connection: Connection, graph: Graph, workflows: Iterable[int]) -> Fetched:
    found = sorted(_closed(graph, workflows))
    keys = {(one, ""): 0 for one in found}
    return Fetched(
        keys=keys,
        clocks=connection.execute(SQL["clocks"], {"workflows": found}).fetchall(),
        jobs=connection.execute(SQL["running_jobs"], {"workflows": found}).fetchall(),
        states=load_state.fetch(connection, keys, above=()),  # the simulation computes motion itself
    )


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
