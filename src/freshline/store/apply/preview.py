"""Reads what plans and simulations need: the states downstream of an asset or a change, and the recorded history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from freshline.decide import Decision, decide
from freshline.decide.flood import exceeds
from freshline.graph import Graph
from freshline.model.documents.decision import Wave
from freshline.model.enums import ExpiryReason, Reason
from freshline.model.json import Json
from freshline.model.staleness import Counted, FloodCounts
from freshline.partitions.selection import EVERYTHING
from freshline.reading import existing
from freshline.settings import Settings
from freshline.simulation import plan
from freshline.simulation.from_store import Facts, restore
from freshline.store.apply import partition_plan
from freshline.store.apply.partition_changes import counts, sentences
from freshline.store.apply.stored_graph import read_graph
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.evaluation import load_state
from freshline.store.evaluation.load_state import LoadedWorkflow
from freshline.store.evaluation.partitions import known_keys

SQL = load("apply")
DB = load("db")
MOST = 10_000  # partitions of a workflow, from the newest on
CHUNK = 500
Rows = Sequence[Row]


@dataclass(frozen=True, slots=True)
class Fetched:
    """The rows of `Facts`, fetched so that their locks can be released before they are parsed."""

    keys: Mapping[load_state.Key, int]
    states: Row
    clocks: Rows
    jobs: Rows

    def facts(self) -> Facts:
        """Return the rows as the simulation takes them."""
        state = load_state.parse(self.states, self.keys)
        return Facts(
            now=state.now,
            known=[(one.policy, one.state) for one in state.loaded if not one.retired],
            due={row["asset_id"]: (row["due_at"], ExpiryReason(row["reason"])) for row in self.clocks},
            jobs={row["id"]: row["job_fingerprint"] for row in self.jobs},
            groups=tuple(state.groups.values()),
        )


def below(connection: Connection, asset_id: str) -> Facts:
    """Return all facts about the workflows downstream of the asset, and about all their ancestors."""
    graph = read_graph(connection)
    return _fetch(connection, graph, graph.descendants(asset_id)).facts()


def partition_wave(connection: Connection, asset_id: str, key: str, settings: Settings) -> Wave | None:
    """Return the effects of a change if a workflow below has partitions or reads some; None if there is none."""
    graph = read_graph(connection)
    if not any(graph.is_mapped(one) for one in graph.descendants(asset_id)):
        return None
    return partition_plan.plan(connection, graph, asset_id, key, settings)


def simulated(facts: Facts, asset_id: str, key: str, settings: Settings) -> Wave:
    """Return the effects of a change among workflows without partitions."""
    made = plan.plan(restore(facts, settings), asset_id, key) if facts.known else plan.Plan()
    return made.as_json()


def around(connection: Connection, slugs: Collection[str], assets: Iterable[str]) -> Fetched:
    """Return the rows about these workflows and everything downstream of them and of these assets."""
    graph = read_graph(connection)
    own = {workflow_id for workflow_id, slug in graph.slugs.items() if slug in slugs}
    made = [asset_id for asset_id, producer in graph.outputs().items() if producer in own]
    return _fetch(connection, graph, own.union(graph.descendants(*made, *assets)))


def partitions(connection: Connection, slugs: Collection[str]) -> list[str]:
    """Return how many partitions of these workflows would run now, and why the others would not."""
    graph = read_graph(connection)
    own = sorted(one for one, slug in graph.slugs.items() if slug in slugs and graph.is_mapped(one))
    if not own:
        return []
    row = connection.execute(DB["now"]).fetchone()
    assert row is not None  # noqa: S101 - it is one value
    known = known_keys(connection, graph)
    units = [(one, key) for one in own for key in islice(existing(graph, one, EVERYTHING, row["now"], known), MOST)]
    decided: list[tuple[LoadedWorkflow, Decision]] = []
    for first in range(0, len(units), CHUNK):
        read = load_state.read(connection, graph, dict.fromkeys(units[first : first + CHUNK], 0), above=())
        decided += [(one, decide(one.policy, one.state, read.now)) for one in read.loaded]
    whole = {graph.slugs[one] for one in own if not graph.partitioning_of(one).columns}
    return list(sentences(counts(_guarded(decided)), whole, MOST))


def _guarded(decided: Sequence[tuple[LoadedWorkflow, Decision]]) -> Iterator[tuple[str, str]]:
    """Yield how each partition is decided when all of them count: no consideration was made for them yet."""
    stale = Counter(one.state.workflow_id for one, decision in decided if decision.run and decision.run.counted)
    own = Counter(
        one.state.workflow_id for one, decision in decided if decision.run and decision.run.counted is Counted.OWN
    )
    for one, decision in decided:
        state, run = one.state, decision.run
        counted = run.counted if run else None
        known, there = state.flood or FloodCounts(0, 0), state.workflow_id
        most = max(known.own, own[there]) if counted is Counted.OWN else max(known.stale, stale[there])
        if counted is not None and exceeds(one.policy, most):
            yield state.slug, Reason.BACKFILL_PROPOSED
        else:
            yield state.slug, "run" if run else str(decision.reason)


def triggered(found: Fetched, settings: Settings, touched: Collection[str], moved: Iterable[str]) -> plan.Plan:
    """Return what an apply that changes these workflows, and releases or reports these assets, would run."""
    return plan.plan_apply(restore(found.facts(), settings), touched, moved)


def _fetch(connection: Connection, graph: Graph, workflows: Iterable[int]) -> Fetched:
    # Partitions are counted, not played: there may be tens of thousands.
    found = sorted(one for one in _closed(graph, workflows) if not graph.is_mapped(one))
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


def history(connection: Connection, since: datetime, most: int | None = None) -> dict[str, list[Json]]:
    """Return the reports and run ends since then, oldest first, the current definitions, and when the first began.

    With the partitionings of sources, and which of their partitions had data then. `most`: how many reports, how many
    runs, and how many partitions.
    """
    period = {"since": since, "most": most}
    return {
        "start": connection.execute(SQL["history_start"]).fetchall(),
        "workflows": connection.execute(SQL["history_workflows"]).fetchall(),
        "sources": connection.execute(SQL["history_sources"]).fetchall(),
        "keys": connection.execute(SQL["history_keys"], period).fetchall(),
        "reports": connection.execute(SQL["history_reports"], period).fetchall(),
        "runs": connection.execute(SQL["history_runs"], period).fetchall(),
    }
