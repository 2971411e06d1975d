"""Which partitions a request selects: keys, ranges, what they read and what reads them, within the limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from freshline.decide.backfill_parts import closure
from freshline.errors import UsageError
from freshline.graph import Graph
from freshline.model.backfill import MOST_CONCURRENCY, MOST_PARTITIONS, BackfillPolicy, BackfillRequest, Only
from freshline.model.json import Json
from freshline.partitions.selection import EVERYTHING, Selection
from freshline.reading import Known, existing, is_kept, require_kept
from freshline.store.db.database import Connection
from freshline.store.db.queries import load
from freshline.store.evaluation.newest import StoredNewest
from freshline.store.operations.targets import TargetAsset

SQL = load("backfills")
MOST_PRIORITY = 1_000_000


class Catalogue(NamedTuple):
    """What exists at a moment: the graph, and the dynamic keys that were seen."""

    connection: Connection
    graph: Graph
    now: datetime
    known: Known


@dataclass(frozen=True, slots=True)
class Part:
    """The partitions of one workflow of a backfill: what is stored, how many, and the first and last in its order.

    `outside`: how many were selected too, and removed by retention.
    """

    workflow_id: int
    slug: str
    selection: Selection
    total: int
    first: str
    last: str
    outside: int = 0

    def as_json(self) -> Json:
        """Return the row."""
        return {"workflow_id": self.workflow_id, "selection": self.selection.as_json(), "total": self.total}


def select(there: Catalogue, asset: TargetAsset, request: BackfillRequest) -> list[Part]:
    """Return the parts of a backfill, ancestors first. Raise UsageError if it selects nothing, or too much."""
    graph = there.graph
    workflow_id = asset["producer_id"]
    if workflow_id is None:
        raise UsageError(
            f"asset '{asset['id']}' is a source: nothing computes it, so it cannot be backfilled",
            hint="backfill an asset that is computed from it, or report its partitions again",
        )
    refuse_policy(request.policy)
    _refuse_order(graph, workflow_id, request)
    _refuse_batch(there, workflow_id, request)
    chosen = _chosen(there, asset, request)
    newest = StoredNewest(there.connection, graph, there.now)
    found = closure(
        graph,
        workflow_id,
        chosen,
        now=there.now,
        newest=newest,
        upstream=request.upstream,
        downstream=request.downstream,
    )
    parts: list[Part] = []
    for one in sorted(found, key=lambda w: (graph.level(w), w)):
        left = MOST_PARTITIONS - sum(part.total for part in parts)
        part = _part(there, one, found[one], request.policy, left)
        if part is not None:
            parts.append(part)
    if not parts:
        raise nothing(graph, request, asset["id"])
    return parts


def nothing(graph: Graph, request: BackfillRequest, asset_id: str) -> UsageError:
    """Return the error about a request that selects nothing."""
    lists = f"`freshline partitions {asset_id}` lists those that exist"
    return UsageError(_nothing(asset_id, request), hint=lists if graph.partitioning(asset_id).columns else None)


def refuse_policy(policy: BackfillPolicy) -> None:
    """Raise UsageError for values that cannot be."""
    if not 1 <= policy.concurrency <= MOST_CONCURRENCY:
        raise UsageError(f"concurrency is {policy.concurrency}; allowed are 1 to {MOST_CONCURRENCY}")
    if not 1 <= policy.batch <= MOST_CONCURRENCY:
        raise UsageError(f"batch is {policy.batch}; allowed are 1 to {MOST_CONCURRENCY}")
    if not 0 <= policy.priority <= MOST_PRIORITY:
        raise UsageError(f"priority is {policy.priority}; allowed are 0 to {MOST_PRIORITY}")


def _refuse_order(graph: Graph, workflow_id: int, request: BackfillRequest) -> None:
    """Refuse an order or a batch that cannot be where a partition reads its own predecessor."""
    if graph.own_input(workflow_id) is None:
        return
    slug = graph.slugs[workflow_id]
    if request.policy.newest_first:
        raise UsageError(
            f"workflow '{slug}' computes a partition from the one before it: newest first cannot be",
            hint="use the order 'oldest'",
        )
    if request.policy.batch > 1:
        raise UsageError(f"workflow '{slug}' computes a partition from the one before it: leave the batch out")


def _refuse_batch(there: Catalogue, workflow_id: int, request: BackfillRequest) -> None:
    """Refuse batches of a workflow that computes one partition per run."""
    if request.policy.batch == 1:
        return
    slug = there.graph.slugs[workflow_id]
    if not there.graph.partitioning_of(workflow_id).columns:
        raise UsageError(f"workflow '{slug}' has no partitions: leave the batch out")
    steps = there.connection.execute(SQL["batching"], {"workflows": [workflow_id]}).fetchall()
    lacking = [f"'{step['step_id']}'" for step in steps if not step["batch"]]
    if lacking:
        which = f"step {lacking[0]} does" if len(lacking) == 1 else f"steps {', '.join(lacking)} do"
        raise UsageError(
            f"batch is {request.policy.batch}, but {which} not compute several partitions in one run of '{slug}'",
            hint="add 'batch: true' to each step whose job can, and apply; or leave the batch out",
        )


def _chosen(there: Catalogue, asset: TargetAsset, request: BackfillRequest) -> Selection:
    partitioning = there.graph.partitioning(asset["id"])
    if not partitioning.columns:
        if request.keys or request.first or request.last:
            raise UsageError(f"asset '{asset['id']}' has no partitions: leave keys and range out")
        return EVERYTHING
    if request.keys and (request.first or request.last):
        raise UsageError("keys and a range are two ways to select partitions; use one of them")
    if request.keys:
        if len(request.keys) > MOST_PARTITIONS:
            raise _too_many()
        known = there.known(asset["id"])
        existing_keys = (partitioning.require_exists(key, there.now, known) for key in request.keys)
        retained = there.graph.retained(asset["id"])
        return partitioning.select(require_kept(partitioning, key, retained, there.now) for key in existing_keys)
    if request.first is None and request.last is None:
        return EVERYTHING
    selected = partitioning.between(request.first, request.last)
    if selected.is_empty:
        raise UsageError(f"the range ends before it begins: from {request.first} to {request.last}")
    return selected


def _part(there: Catalogue, workflow_id: int, selection: Selection, policy: BackfillPolicy, most: int) -> Part | None:
    """Return the existing partitions of a workflow; None without any."""
    graph = there.graph
    keys = existing(graph, workflow_id, selection, there.now, there.known)
    found = list(islice(_wanted(there.connection, workflow_id, keys, policy.only), most + 1))
    if len(found) > most:
        raise _too_many()
    if not found:
        return None
    partitioning = graph.partitioning_of(workflow_id)
    stored = partitioning.select(found) if partitioning.columns else EVERYTHING
    first, last = (found[0], found[-1]) if policy.newest_first else (found[-1], found[0])
    outside = _removed(there, workflow_id, selection)
    return Part(workflow_id, graph.slugs[workflow_id], stored, len(found), first, last, outside)


def _removed(there: Catalogue, workflow_id: int, selection: Selection) -> int:
    """Return how many of the selected partitions retention has removed."""
    asset_id = there.graph.outputs_of(workflow_id)[0]
    if there.graph.retained(asset_id) is None or selection.is_empty:
        return 0
    keys = there.graph.partitioning(asset_id).keys(selection, there.now, there.known(asset_id), newest_first=False)
    return sum(1 for key in islice(keys, MOST_PARTITIONS) if not is_kept(there.graph, asset_id, key, there.now))


def _wanted(connection: Connection, workflow_id: int, keys: Iterable[str], only: Only) -> Iterable[str]:
    if only is Only.MISSING:
        there = _keys(connection, "succeeded_keys", workflow_id)
        return (key for key in keys if key not in there)
    if only is Only.FAILED:
        failed = _keys(connection, "failed_keys", workflow_id)
        return (key for key in keys if key in failed)
    return keys


def _keys(connection: Connection, query: str, workflow_id: int) -> set[str]:
    return {row["partition_key"] for row in connection.execute(SQL[query], {"workflow": workflow_id})}


def _too_many() -> UsageError:
    return UsageError(
        f"the selection has more than {MOST_PARTITIONS:,} partitions; one backfill may have {MOST_PARTITIONS:,}",
        hint="select a shorter range, and request one backfill after the other",
    )


def _nothing(asset_id: str, request: BackfillRequest) -> str:
    only = request.policy.only
    kind = "" if only is Only.ALL else f" that is {only}"
    limits: Sequence[str] = [
        *([f"from {request.first}"] if request.first else []),
        *([f"to {request.last}"] if request.last else []),
    ]
    where = f" {' '.join(limits)}" if limits else ""
    return f"nothing is selected: asset '{asset_id}' has no partition{where}{kind}"
