"""Writes of manual runs: queue one, cancel one."""

from __future__ import annotations

from shlex import quote
from typing import NamedTuple

from psycopg.types.json import Jsonb

from freshline.decide.ages import sealed_by
from freshline.decide.causes import moved_inputs
from freshline.decide.decide import pins_of, reads_mix
from freshline.errors import ConflictError, KeyReusedError
from freshline.graph import Graph
from freshline.model.enums import EventType, RunStatus, TriggerType
from freshline.model.json import Json
from freshline.model.state import State, split_reference
from freshline.plural import counted
from freshline.store.apply.stored_graph import GraphCache
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.evaluation import load_state
from freshline.store.evaluation.evaluation import MOST_ANCESTORS
from freshline.store.evaluation.load_state import BatchState
from freshline.store.operations import audit
from freshline.store.runs.events import append_event
from freshline.store.runs.finish import end_canceled

SQL = load("operations")
MANUAL_PRIORITY = 0


class _Situation(NamedTuple):
    """The heads that a run reads now, and whether they are a mix or descend from one."""

    pins: Json
    mixed: bool
    mixed_upstream: bool
    round: dict[str, int]
    epoch: int


def queue(
    connection: Connection,
    graphs: GraphCache,
    workflow: Row,
    run_id: str,
    parameters: Row,
    *,
    key: str | None,
    asked: Row,
) -> str:
    """Queue a manual run and return its id."""
    slug = workflow["slug"]
    partition_key = asked["partitionKey"]
    situation = _situation(connection, graphs, workflow, partition_key)
    trigger = {"type": TriggerType.MANUAL, **asked, "parameters": sorted(parameters)}
    values = {
        "id": run_id,
        "workflow": workflow["id"],
        "partition": partition_key,
        "trigger": Jsonb(trigger),
        "priority": MANUAL_PRIORITY,
        "pins": Jsonb(situation.pins),
        "mixed": situation.mixed,
        "mixed_upstream": situation.mixed_upstream,
        "round": Jsonb(situation.round),
        "epoch": situation.epoch,
        "parameters": Jsonb(dict(parameters)),
        "key": key,
    }
    with audit.changing(connection, "request_run", slug, "run_state", run_id):
        connection.execute(SQL["request_run"], values)
    data = {"workflowSlug": slug, "workflowId": workflow["id"], "runId": run_id, "partitionKey": partition_key}
    append_event(connection, EventType.RUN_QUEUED, slug, {**data, "trigger": trigger})
    return run_id


def find(connection: Connection, slug: str, parameters: Row, key: str | None, asked: Row) -> str | None:
    """Return the run that was requested with this key. Raise an error if it was another request."""
    if key is None:
        return None
    asking = {
        "key": key,
        "partition": asked["partitionKey"],
        "parameters": Jsonb(dict(parameters)),
        "full_refresh": asked.get("fullRefresh", False),
    }
    known = connection.execute(SQL["requested"], asking).fetchone()
    if known is None:
        return None
    if known["slug"] != slug:
        raise KeyReusedError(f"the key {key!r} was used for a run of workflow '{known['slug']}'; choose another")
    same = {
        "other parameters": known["same_parameters"],
        "another full refresh": known["same_refresh"],
        "another partition": known["same_partition"],
    }
    differs = [name for name, equal in same.items() if not equal]
    if differs:
        raise KeyReusedError(
            f"the key {key!r} was used for run {known['id']} with {' and '.join(differs)}",
            hint="a repeated request must be equal to the first; give a new request another key",
        )
    return str(known["id"])


def _situation(connection: Connection, graphs: GraphCache, workflow: Row, partition_key: str) -> _Situation:
    """Read heads and motion in one statement, as the reconciler does (docs/semantics.md#R6.2).

    A manual run does not wait. The same search as for an automatic run finds whether it reads a mix.
    """
    found, graph = _read(connection, graphs, workflow["id"], partition_key)
    state = found.loaded[0].state
    _refuse_sealed(workflow["slug"], state)
    missing = [one.reference for one in state.inputs if one.missing]
    if missing:
        asset_id, key = split_reference(missing[0])
        named = f"{asset_id} --partition {quote(key)}" if key else asset_id
        more = f", nor have {counted(len(missing) - 1, 'other input')}" if len(missing) > 1 else ""
        raise ConflictError(
            f"workflow '{workflow['slug']}' cannot run: its input '{missing[0]}' has no data yet{more}",
            hint=f"report it (`freshline report {named}`) or run its producer first",
        )
    pins = {asset_id: pin.as_json() for asset_id, pin in pins_of(state).items()}
    blockers = found.walk(graph).blockers(state.workflow_id, moved_inputs(state), partition_key=partition_key)
    mixing = [one for one in blockers if one.mixes]
    return _Situation(pins, bool(mixing), reads_mix(state), state.round, graph.epoch)


def _refuse_sealed(slug: str, state: State) -> None:
    """Raise ConflictError if a run would lack rows that retention removed (docs/semantics.md#R13.15)."""
    gone = sealed_by(state)
    if gone:
        more = f" and {counted(len(gone) - 1, 'other input')}" if len(gone) > 1 else ""
        raise ConflictError(
            f"workflow '{slug}' cannot run: retention has removed its input '{gone[0]}'{more}, and the result would"
            " lack these rows",
            hint="to compute it from what is left: `freshline backfill ASSET --keys KEY --partial`",
        )


def _read(connection: Connection, graphs: GraphCache, workflow_id: int, partition_key: str) -> tuple[BatchState, Graph]:
    """Return the state of a workflow with what is in motion, and the graph, both of one epoch."""
    graph = graphs.read(connection)
    while True:
        above = graph.ancestors([workflow_id], MOST_ANCESTORS)
        found = load_state.read(
            connection,
            graph,
            {(workflow_id, partition_key): 0},
            None if above is None else sorted(above),
            graph.not_automatic_above([workflow_id]),
        )
        if found.epoch == graph.epoch:
            return found, graph
        graph = graphs.read(connection, found.epoch)


def cancel(connection: Connection, run: Row, reason: str) -> RunStatus:
    """End a queued run, or ask the worker of a running one to stop. Return the status."""
    status = RunStatus(run["status"])
    if status is RunStatus.QUEUED:
        end_canceled(connection, run, run["attempt"], reason)
        return RunStatus.CANCELED
    if status is RunStatus.RUNNING:
        connection.execute(SQL["request_cancel"], {"run": run["id"], "reason": reason})
    return status
