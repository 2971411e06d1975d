"""Reads the state of a batch, and what is in motion, in one statement (docs/semantics.md#R6.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from freshline.decide.causes import AnyWalk
from freshline.decide.motion import Moving, Walk, strongest
from freshline.decide.newness import Produced, concerns
from freshline.decide.partition_motion import MovingPart, PartitionWalk
from freshline.decide.presence import present_inputs, with_present
from freshline.decide.report_groups import Members
from freshline.graph import Graph
from freshline.model.backfill import BACKFILL_CLASS, Demand, Only
from freshline.model.enums import ExpiryReason, RunStatus, TriggerType
from freshline.model.moment import parsed
from freshline.model.policy import Policy
from freshline.model.staleness import Staleness
from freshline.model.state import (
    ActiveRun,
    Canceled,
    Expiry,
    Failures,
    Input,
    Moved,
    Output,
    Pending,
    RecentBackfill,
    State,
    Version,
    Window,
)
from freshline.partitions.mapping import Values
from freshline.partitions.partitioning import Newness
from freshline.reading import Expected
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.evaluation import guard, partitions
from freshline.store.evaluation.newest import StoredNewest
from freshline.store.evaluation.partitions import Arrays
from freshline.store.evaluation.versions import consumed_version, head_of, version

SQL = load("evaluation")
FEW = 64
NOTHING_READ: Arrays = {
    "reading": [],
    "reading_keys": [],
    "read_assets": [],
    "read_keys": [],
    "whole": [],
    "whole_keys": [],
    "whole_assets": [],
    "whole_keep": [],
    "read_since": [],
    "read_until": [],
}
Key = tuple[int, str]
Edge = tuple[str, int]


@dataclass(frozen=True, slots=True)
class LoadedWorkflow:
    """One workflow partition as it is stored: the input of `decide`, and what a new run needs."""

    policy: Policy
    state: State
    project: str
    code_hash: str | None
    needs_spark: bool
    retired: bool
    last_decision: tuple[str, str] | None  # id and digest
    waiting_priority: int | None = None  # of the most urgent workflow that waits for this one
    waited_ms: int = 0  # of the current consideration; `state.waited` adds earlier ones since the last success

    @property
    def key(self) -> Key:
        """Return workflow and partition."""
        return self.state.workflow_id, self.state.partition_key

    def priority(self, own: int | None = None) -> int:
        """Return its own priority, or that of its most urgent waiter (docs/semantics.md#R11.8)."""
        own = self.policy.priority if own is None else own
        return own if self.waiting_priority is None else min(own, self.waiting_priority)


@dataclass(frozen=True, slots=True)
class BatchState:
    """The result of one read. If `calm`, so little is in motion that reading all of it costs least."""

    epoch: int
    now: datetime
    motion: Mapping[int, Moving]
    loaded: Sequence[LoadedWorkflow]
    calm: bool = False
    parts: Mapping[int, Sequence[MovingPart]] = field(default_factory=dict)  # in a graph with partitions
    newest: Mapping[Edge, Values] = field(default_factory=dict)  # of the inputs that are read by `latest`
    groups: Mapping[str, Members] = field(default_factory=dict)  # of reports, by id: those that have not settled

    def walk(self, graph: Graph) -> AnyWalk:
        """Return the search for ancestors in motion."""
        groups = self.groups.values()
        if graph.partitioned:
            return PartitionWalk(graph, self.parts, self.newest, groups)
        return Walk(graph, self.motion, groups)


def read(
    connection: Connection,
    graph: Graph,
    keys: Mapping[Key, int],
    above: Sequence[int] | None = None,
    not_automatic: Sequence[int] = (),
    *,
    supposed: Callable[[State], State] = lambda state: state,
) -> BatchState:
    """Return the state of these workflow partitions; the values of `keys` are their evaluation counts.

    `above` are their ancestors, whose motion is all that a decision needs (docs/semantics.md#R4.2). With None, all
    motion is read. `not_automatic` are the ancestors that only users start: if stale, they count as held.
    `supposed` changes each state before it is known which inputs are missing; a plan supposes changes with it.
    """
    now = _now(connection) if graph.partitioned else None
    expected = partitions.expected(connection, graph, keys, now) if now else {}
    reading = partitions.arrays(partitions.mapped(graph, expected))
    guarded = guard.guarded(graph, keys) if graph.partitioned else []
    idle = [one for one in not_automatic if graph.is_mapped(one)]
    plain = [one for one in not_automatic if one not in idle]
    unread = partitions.arrays(partitions.feeding_units(connection, graph, keys, idle, now) if now and idle else {})
    row = fetch(connection, keys, above, plain, reading, unread=unread, guarded=guarded, mapped=graph.partitioned)
    found = parse(row, keys)
    if not graph.partitioned:
        return found
    given = [replace(one, state=supposed(one.state)) for one in found.loaded]
    loaded = [_with_present(graph, one, expected.get(one.key), found.now) for one in given]
    flood = guard.guard(graph, partitions.known_keys(connection, graph), row, found.now)
    loaded = [replace(one, state=flood.apply(one.policy, one.state)) for one in loaded]
    moving = [row[name] or () for name in ("motion", "unconsumed", "arriving", "rests")]
    known, newest = partitions.known_keys(connection, graph), StoredNewest(connection, graph, found.now)
    expanding = row["expanding"] or ()
    parts = partitions.moving_parts(graph, *moving, expanding=expanding, known=known, newest=newest)
    edges = graph.latest_edges if parts else ()
    return replace(found, loaded=loaded, parts=parts, newest={edge: newest.values(*edge) for edge in edges})


def _now(connection: Connection) -> datetime:
    """Return the time by which partitions exist. A later one may exist when the state is read: it has a timer."""
    row = connection.execute(SQL["epoch_and_time"]).fetchone()
    assert row is not None  # noqa: S101 - the migration inserted it
    now: datetime = row["now"]
    return now


def _with_present(
    graph: Graph, one: LoadedWorkflow, expected: Sequence[Expected] | None, now: datetime
) -> LoadedWorkflow:
    if expected is None:
        return one
    inputs = one.state.inputs
    found = present_inputs(
        graph, one.key, expected, lambda read: [given for given in inputs if given.asset_id == read.asset_id], now
    )
    return replace(one, state=with_present(one.state, found))


def fetch(
    connection: Connection,
    keys: Mapping[Key, int],
    above: Sequence[int] | None = None,
    not_automatic: Sequence[int] = (),
    reading: Arrays = NOTHING_READ,
    *,
    unread: Arrays = NOTHING_READ,
    guarded: Sequence[int] = (),
    mapped: bool = False,
) -> Row:
    """Return the raw row for `parse`, which can run after the transaction.

    `unread`: what partitions of ancestors read that only users start.
    """
    arrays = {
        "workflows": [workflow for workflow, _ in keys],
        "partitions": [partition for _, partition in keys],
        "above": None if above is None else list(above),
        "not_automatic": list(not_automatic),
        "few": FEW,
        "mapped": mapped,
        "guarded": list(guarded),
        **{f"unread_{name}": values for name, values in unread.items()},
        **reading,
    }
    row = connection.execute(SQL["load_states"], arrays).fetchone()
    assert row is not None  # noqa: S101 - an aggregate always returns a row
    return row


def parse(row: Row, keys: Mapping[Key, int]) -> BatchState:
    """Turn a fetched row into records."""
    known = {_at(at): RecentBackfill(BACKFILL_CLASS + rank, _at(last), end) for at, rank, last, end in row["backfills"]}
    loaded = [_loaded(data, keys, known) for data in row["states"] or ()]
    resting = [[workflow_id, "", "backfill", *more] for workflow_id, _, *more in row["rests"] or ()]
    motion = _motion([*(row["motion"] or ()), *resting])
    groups = {group_id: tuple(members) for group_id, members in row["groups"] or ()}
    return BatchState(row["epoch"], row["now"], motion, loaded, row["calm"], groups=groups)


def _motion(rows: Sequence[Sequence[Any]]) -> dict[int, Moving]:
    """Return the strongest motion of each workflow."""
    motion: dict[int, Moving] = {}
    for workflow_id, _, kind, until, cannot_run, origin, *_ in rows:
        moving = Moving(kind, parsed(until), cannot_run, parsed(origin))
        motion[workflow_id] = strongest(motion.get(workflow_id), moving)
    return motion


def _loaded(data: Row, keys: Mapping[Key, int], recent: Mapping[datetime, RecentBackfill]) -> LoadedWorkflow:
    decision = data["last_decision"]
    return LoadedWorkflow(
        policy=_policy(data["workflow_id"], data["version"], _Frozen(data["policy"])),
        state=_state(data, keys[data["workflow_id"], data["partition_key"]], recent),
        project=data["project"],
        code_hash=data["code_hash"],
        needs_spark=data["needs_spark"],
        retired=data["retired"],
        last_decision=(decision["id"], decision["digest"]) if decision else None,
        waiting_priority=data["waiting"],
        waited_ms=data["waited_ms"],
    )


class _Frozen:
    """Makes a policy cacheable by workflow and version without hashing its JSON."""

    def __init__(self, data: Row) -> None:
        self.data = data

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Frozen) and self.data == other.data


@lru_cache(maxsize=4096)
def _policy(_workflow_id: int, _version: int, policy: _Frozen) -> Policy:
    return Policy.from_json(policy.data)


def _state(data: Row, evaluations: int, recent: Mapping[datetime, RecentBackfill]) -> State:
    partition = data["partition"] or {}
    # The consumed versions describe every output. One that was made from others proves them wrong.
    proven = not any(output["behind"] for output in data["outputs"])
    declined = Staleness.from_json(partition["declined"]) if partition.get("declined") else None
    accepted = declined.inputs if declined else {}
    # Which columns the last success read says nothing about another job.
    same_job = partition.get("job_fingerprint") == data["job_fingerprint"]
    return State(
        workflow_id=data["workflow_id"],
        slug=data["slug"],
        partition_key=data["partition_key"],
        version=data["version"],
        job_fingerprint=data["job_fingerprint"],
        applied_at=_at(data["applied_at"]),
        inputs=tuple(_input(i, i["consumed"] if proven else None, accepted, same_job=same_job) for i in data["inputs"]),
        outputs=tuple(_output(o) for o in data["outputs"]),
        succeeded_fingerprint=partition.get("job_fingerprint"),
        succeeded_at=parsed(partition.get("succeeded_at")),
        started_at=parsed(partition.get("started_at")),
        success_cause=partition.get("success_cause"),
        cause_repeats=partition.get("cause_repeats", 0),
        mixed=partition.get("mixed", False) or data["reshaped"],
        active=_active(data["active"]),
        paused=data["paused_at"] is not None,
        paused_until=parsed(data["paused_until"]),
        failures=_failures(partition),
        canceled=_canceled(partition.get("canceled")),
        evaluations=evaluations,
        waited=timedelta(milliseconds=partition.get("waited_ms", 0) + data["waited_ms"]),
        sources={one: Moved(now, before) for one, (now, before) in (data["sources"] or {}).items()},
        demands=tuple(_demand(one) for one in data["demands"] or ()),
        backfills=recent,
        declined=declined,
    )


def _input(data: Row, consumed: Row | None, accepted: Mapping[str, str], *, same_job: bool) -> Input:
    read = consumed_version(consumed) if consumed else None
    if read is not None and not same_job:
        read = replace(read, columns={})
    concerned = data["last_then"] is None or _concerned(data, read)
    pending = data["pending"] if concerned else None
    found = Input(
        asset_id=data["asset_id"],
        head=head_of(data),
        consumed=read,
        pending=_pending(pending, data, consumed) if pending else None,
        partition_key=data["key"],
        partitions=data["keys"],
        retired_at=parsed(data["retired_at"]),
        concerns=concerned,
    )
    if found.passed_over:
        found = replace(found, pending=None)
    return found.accepting(accepted.get(found.reference)) if accepted else found


def _concerned(data: Row, consumed: Version | None) -> bool:
    """Return whether changes of an input concern the partition (docs/semantics.md#R13.17)."""
    sequence, *rest = data["last_then"]
    last = Produced(sequence, rest[0], _at(rest[1])) if rest else None
    return concerns(consumed, last, Newness(parsed(data["since"])))


def _pending(pending: Row, data: Row, consumed: Row | None) -> Pending:
    last = data["sequence"] if data["last_then"] is None else data["last_then"][0]
    behind = (last or 0) - (consumed["sequence"] if consumed else 0)
    first_at, last_at, origin = (_at(pending[name]) for name in ("first_at", "last_at", "origin"))
    return Pending(first_at, last_at, behind, tuple(pending["event_ids"]), origin)


def _output(data: Row) -> Output:
    expired = data["expired_at"]
    expiry = Expiry(_at(expired), ExpiryReason(data["expired_reason"]), data["event_id"]) if expired else None
    head = head_of(data)
    return Output(data["asset_id"], head, expiry, head is not None and data["foreign"], data["made_by"], data["lost"])


def _active(data: Row | None) -> ActiveRun | None:
    if data is None:
        return None
    pins = {asset_id: version(pin) for asset_id, pin in data["pins"].items()}
    status, trigger = RunStatus(data["status"]), TriggerType(data["trigger_type"])
    quiet = Window(_at(data["quiet_from"]), _at(data["quiet_until"])) if data["quiet_from"] else None
    origin = parsed(data["origin"])
    return ActiveRun(data["id"], status, trigger, data["attempt"], data["version"], pins, data["mixed"], quiet, origin)


def _failures(data: Row) -> Failures:
    return Failures(
        count=data.get("failures", 0),
        last_at=parsed(data.get("failed_at")),
        eligible_at=parsed(data.get("eligible_at")),
        breaker_at=parsed(data.get("breaker_at")),
        probed_versions=data.get("probed_versions"),
    )


def _canceled(data: Row | None) -> Canceled | None:
    if data is None:
        return None
    return Canceled(data["version"], data["pins"], parsed(data["expiredAt"]), data.get("backfillId"))


def _demand(data: Row) -> Demand:
    return Demand(
        backfill_id=data["id"],
        requested_at=_at(data["requested_at"]),
        version=data["version"],
        only=Only(data["only"]),
        priority=data["priority"],
        during_quiet_hours=data["during_quiet_hours"],
        not_before=parsed(data["not_before"]),
        **{name: data[name] for name in ("partial", "satisfied", "paused", "newest_first")},
    )


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)
