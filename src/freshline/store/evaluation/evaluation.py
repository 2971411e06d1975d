"""The materializer's transactions: absorb, reconcile, fire_timers, sweep, stamp_positions, publish_events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg
import structlog
from psycopg.types.json import Jsonb

from freshline.counters import count
from freshline.decide.decision import Decision
from freshline.decide.holds import FIRST_RECHECK, LONGEST_RECHECK, doubling
from freshline.decide.times import next_point
from freshline.graph import Graph
from freshline.model.enums import EventType, Outcome, Reason
from freshline.model.moment import iso
from freshline.model.policy import Freshness, Policy
from freshline.store.apply import write as catalogue
from freshline.store.db import locks
from freshline.store.db.database import Connection, Database
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.evaluation import load_state
from freshline.store.evaluation.load_state import Key, Moment
from freshline.store.evaluation.write_decisions import Verdicts
from freshline.store.runs import publish

log = structlog.get_logger("freshline.store")
SQL = load("evaluation")
DB = load("db")
# A batch with more ancestors than this asks for whatever moves: less work than to look at each.
MOST_ABOVE = 2_000
Judge = Callable[[Graph, Moment], Verdicts]


class BatchError(Exception):
    """A batch of considerations could not be decided or written; the service halves it (R11.3)."""

    def __init__(self, keys: Sequence[Key], cause: Exception | str) -> None:
        super().__init__(str(cause))
        self.keys = keys


class _OutdatedGraphError(Exception):
    """Definitions were applied since the graph was read: nothing is decided before it is read anew (R6.2)."""


class Materializing:
    """What the services of a materializer do to the store."""

    database: Database
    _graph: Graph | None = None
    _calm: bool = False  # at the last look; only what a look costs depends on it

    def absorb(self, batch: int) -> int:
        """Turn unabsorbed events into considerations, in one transaction. Returns how many events."""
        with self.database.transaction("absorb") as connection:
            events = connection.execute(SQL["claim_inbox"], {"batch": batch}).fetchall()
            if not events:
                return 0
            connection.execute(SQL["note_considerations"], {"events": Jsonb(events)})
        for event in events:
            count("events_absorbed", kind=event["kind"])
        return len(events)

    def reconcile(self, judge: Judge, *, batch: int, only: Sequence[Key] | None = None) -> Verdicts | None:
        """Claim due considerations, read their state in a later statement, let `judge` decide, write, commit.

        None: nothing is due. `only`: just these, for a batch that is being halved.
        """
        while True:
            try:
                return self._reconcile(judge, batch, only)
            except _OutdatedGraphError:
                self._reload()

    def _reconcile(self, judge: Judge, batch: int, only: Sequence[Key] | None) -> Verdicts | None:
        keys: dict[Key, int] = {}
        try:
            with self.database.transaction("reconcile") as connection:
                keys = _claim(connection, batch, only)
                if not keys:
                    return None
                verdicts = self._judge(connection, judge, keys)
                verdicts.write(connection)
                return verdicts
        except psycopg.errors.QueryCanceled as error:  # too much at once, so less of it
            raise BatchError(list(keys), error) from error
        except (psycopg.OperationalError, psycopg.InterfaceError):
            raise  # the connection or a lock: the whole batch is tried again
        except psycopg.Error as error:
            raise BatchError(list(keys), error) from error

    def _judge(self, connection: Connection, judge: Judge, keys: Mapping[Key, int]) -> Verdicts:
        """A stored state that cannot be read, or not be decided, must not hold up the rest of the batch (R11.3)."""
        try:
            return judge(*self._look(connection, keys))
        except (psycopg.Error, _OutdatedGraphError):
            raise
        except Exception as error:
            raise BatchError(list(keys), f"{type(error).__name__}: {error}") from error

    def _look(self, connection: Connection, keys: Mapping[Key, int]) -> tuple[Graph, Moment]:
        """The graph and a state of the same epoch."""
        graph = self._graph
        if graph is None:
            raise _OutdatedGraphError
        # Where little moves, whatever moves is asked for: ancestors may be a thousand times as many.
        above = None if self._calm else graph.ancestors((workflow_id for workflow_id, _ in keys), MOST_ABOVE)
        moment = load_state.read(connection, keys, None if above is None else sorted(above))
        self._calm = moment.calm
        if graph.epoch != moment.epoch:
            raise _OutdatedGraphError
        return graph, moment

    def _reload(self) -> Graph:
        """In a transaction of its own: a large graph takes longer to read than claimed rows may be idle (R11.3)."""
        with self.database.reading() as connection:
            graph = self._graph = catalogue.read_graph(connection)
        return graph

    def outline(self) -> dict[str, Any]:
        """What this process works with, for `doctor` to compare: the epoch, the graph's digest, how many heads it sees.

        A graph that is out of date is read anew, which the next decision would do anyway.
        """
        with self.database.reading() as connection:
            row = connection.execute(SQL["outline"]).fetchone()
            assert row is not None  # noqa: S101 - the migration inserted it
        graph = self._graph
        if graph is None or graph.epoch != row["epoch"]:
            graph = self._reload()
        return {"epoch": graph.epoch, "graph": graph.digest, "heads": row["heads"]}

    def mark_failed(self, key: Key, error: str) -> None:
        """A consideration that fails alone becomes a visible failed decision with its own backoff (promise 10)."""
        with self.database.transaction("mark_failed") as connection:
            keys = _claim(connection, 1, [key])
            if not keys:
                return
            now, bare = load_state.read_bare(connection, keys)
            verdicts = Verdicts(now)
            for loaded in bare:
                verdicts.add(loaded, failed_evaluation(error, loaded.state.evaluations, now))
            verdicts.write(connection)

    def fire_timers(self, batch: int) -> int:
        """Turn due timers into events (promise 8), and arm the next point of fixed schedules."""
        with self.database.transaction("fire_timers") as connection:
            due = connection.execute(SQL["fire_timers"], {"batch": batch}).fetchall()
            if not due:
                return 0
            fired = [_fire(row) for row in due]
            connection.execute(SQL["expire_timers"], {"timers": Jsonb([timer for timer, _ in fired])})
            events = [event for _, event in fired]
            connection.execute(DB["append_events"], {"events": Jsonb(events)})
        count("timers_fired", len(due))
        return len(due)

    def sweep(self) -> int:
        """Note what is stale and forgotten: a safety net that finds nothing in a healthy system."""
        with self.database.transaction("sweep", whole=True) as connection:
            found = connection.execute(SQL["forgotten"], {"limit": None}).fetchall()
            if not found:
                return 0
            # What happened between the two statements makes a needless look at worst.
            connection.execute(SQL["note_forgotten"], {"workflows": [row["workflow_id"] for row in found]})
        count("sweep_found", len(found))
        return len(found)

    def stamp_positions(self, batch: int) -> int:
        """Give committed events their positions; only one process at a time does, the others do nothing."""
        with self.database.transaction("stamp_positions") as connection:
            # In a statement of its own: what the last holder stamped must be visible to the next one.
            mine = connection.execute(DB["try_lock"], {"key": locks.SEQUENCER}).fetchone()
            if not mine or not mine["locked"]:
                return 0
            return connection.execute(SQL["stamp_positions"], {"batch": batch}).rowcount

    def publish_events(
        self, send: Callable[[Sequence[Mapping[str, Any]]], None], *, batch: int, most_bytes: int
    ) -> int:
        """Let `send` put the next events on the bus, in the order of positions; returns how many it were.

        The cursor moves only when `send` returned: a crash publishes a batch again and leaves none out. Its row is held
        meanwhile; a holder that sleeps loses its session, and what it still sends are repetitions.
        """
        with self.database.transaction("publish_events") as connection:
            cursor = connection.execute(SQL["lock_cursor"]).fetchone()
            if cursor is None:
                return 0
            limits = {"after": cursor["position"], "batch": batch, "most_bytes": most_bytes}
            events = connection.execute(SQL["unpublished"], limits).fetchall()
            if not events:
                return 0
            send(events)
            connection.execute(SQL["move_cursor"], {"position": events[-1]["position"]})
        count("events_published", len(events))
        return len(events)

    @contextmanager
    def taking(self) -> Iterator[bool]:
        """Whether this process is the one that takes messages from the bus now. Saves work; no promise rests on it."""
        with self.database.reading() as connection:
            mine = connection.execute(DB["try_lock"], {"key": locks.REDIS_CONSUMER}).fetchone()
            yield bool(mine and mine["locked"])


def failed_evaluation(error: str, evaluations: int, now: datetime) -> Decision:
    """The decision about a workflow that cannot be evaluated."""
    look = now + doubling(FIRST_RECHECK, LONGEST_RECHECK, evaluations)
    return Decision(Outcome.ERROR, Reason.EVALUATION_FAILED, {"error": error[:2000]}, next_evaluation=look)


def _claim(connection: Connection, batch: int, only: Sequence[Key] | None) -> dict[Key, int]:
    if only is None:
        rows = connection.execute(SQL["claim_considerations"], {"batch": batch}).fetchall()
    else:
        arrays = {"workflows": [workflow for workflow, _ in only], "partitions": [partition for _, partition in only]}
        rows = connection.execute(SQL["lock_consideration"], arrays).fetchall()
    return {(row["workflow_id"], row["partition_key"]): row["looks"] for row in rows}


def _fire(row: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    event_id = new_id()
    freshness = _freshness(row)
    overdue = row["kind"] == "overdue"
    # Missed points collapse into one: the next one is counted from now, not from the missed one (R8.1).
    following = None if overdue else next_point(freshness, row["now"])
    timer = {
        "asset_id": row["asset_id"],
        "partition_key": row["partition_key"],
        "kind": row["kind"],
        "expired_at": row["due_at"].isoformat(),
        "expired_reason": row["reason"],
        "event_id": event_id,
        "due_at": following[0].isoformat() if following else None,
        "reason": following[1] if following else None,
    }
    produced = {**row, "produced_at": (row["produced_at"] or row["due_at"]).isoformat(), "changed": False}
    produced |= {"run_id": str(row["run_id"]) if row["run_id"] else None, "workflow_id": row["producer_id"]}
    data = publish.produced_data(produced, row["slug"], row["declaration"].get("freshness"), None)
    if row["produced_at"] is None:
        data["producedAt"] = None
    data |= {"expiresAt": iso(row["due_at"]), "reason": row["reason"]}
    type_ = EventType.ASSET_OVERDUE if overdue else EventType.ASSET_EXPIRED
    return timer, publish.asset_event(event_id, type_, data, None if overdue else "expired")


def _freshness(row: Mapping[str, Any]) -> Freshness:
    if row["policy"] is None:
        return Freshness()
    try:
        outputs = Policy.from_json(row["policy"]).outputs
    except Exception:
        # The timers of others must fire; this workflow's own error shows when it is decided (promise 10).
        log.exception("policy_unreadable", workflow=row["slug"])
        return Freshness()
    return next((o.freshness for o in outputs if o.asset_id == row["asset_id"]), Freshness())
