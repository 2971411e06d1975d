"""The materializer's transactions: consume the inbox, evaluate a batch, fire timers, sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

import psycopg
from psycopg.types.json import Jsonb

from freshline.counters import count
from freshline.decide.decision import Decision
from freshline.decide.holds import FIRST_RECHECK, LONGEST_RECHECK, doubling
from freshline.decide.report_groups import Settling
from freshline.graph import Graph
from freshline.model.enums import Outcome, Reason
from freshline.store.apply.stored_graph import read_graph
from freshline.store.db.database import Connection, Database, Row
from freshline.store.db.queries import load
from freshline.store.evaluation import bare_state, load_state, notes, report_groups, sweep, timers
from freshline.store.evaluation.load_state import BatchState, Key
from freshline.store.evaluation.partitions import NOBODY, Concerned, concerned, known_keys, see
from freshline.store.evaluation.write_decisions import DecisionWriter

SQL = load("evaluation")
# A batch with more ancestors than this reads all that is in motion: that is less work than a search per ancestor.
MOST_ANCESTORS = 2_000


class BatchError(Exception):
    """A batch could not be evaluated or written; the service halves it (docs/semantics.md#R11.3)."""

    def __init__(self, keys: Sequence[Key], cause: Exception | str) -> None:
        super().__init__(str(cause))
        self.keys = keys


class _OutdatedGraphError(Exception):
    """Definitions were applied since the graph was read (docs/semantics.md#R6.2)."""


class Summary(TypedDict):
    """What a materializer works with, for `doctor` to compare between processes."""

    epoch: int
    graph: str
    heads: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Claimed considerations with their state. `write` stores decisions in the transaction of the claim."""

    settling: Settling
    state: BatchState
    connection: Connection

    @property
    def graph(self) -> Graph:
        """The graph of the definitions of the state."""
        return self.settling.graph

    def write(self, decisions: DecisionWriter) -> None:
        """Write all decisions of the batch, and end the groups of reports that have settled."""
        decisions.write(self.connection)
        report_groups.settle(self.connection, self.settling, self.state.groups)


class Evaluation:
    """Turns events into considerations, and lets a reconciler turn considerations into decisions."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._graph: Graph | None = None
        self._settling: Settling | None = None
        self._calm = False  # little was in motion at the last read; it affects only the cost of the next one

    def consume_inbox(self, batch: int) -> int:
        """Turn inbox rows into considerations, in one transaction, and return how many rows."""
        while True:
            try:
                events = self._consume_inbox(batch)
                break
            except _OutdatedGraphError:
                self._reload()
        for event in events:
            count("events_absorbed", kind=event["kind"])
        return len(events)

    def _consume_inbox(self, batch: int) -> Sequence[Row]:
        with self._database.transaction("absorb") as connection:
            events = connection.execute(SQL["claim_inbox"], {"batch": batch}).fetchall()
            if not events:
                return []
            found = self._concerned(connection, [event for event in events if event["mapped"]])
            arrays = {
                "workflows": [workflow_id for workflow_id, _ in found.changed],
                "partitions": [key for _, key in found.changed],
                "origins": [found.came.get(unit) for unit in found.changed],
                "unchanged": [workflow_id for workflow_id, _ in found.unchanged],
                "unchanged_keys": [key for _, key in found.unchanged],
                "unchanged_notes": [one for one, key in found.unchanged if not key],
                "counts": [None if key else found.counts.get(one) for one, key in found.changed],
            }
            connection.execute(SQL["note_considerations"], {"events": Jsonb(events), **arrays})
        return events

    def _concerned(self, connection: Connection, events: Sequence[Row]) -> Concerned:
        """Return the partitions that events concern."""
        if not events:
            return NOBODY
        row = connection.execute(SQL["epoch_and_time"]).fetchone()
        graph = self._graph
        if row is None or graph is None or graph.epoch != row["epoch"]:
            raise _OutdatedGraphError
        see(connection, graph, events)
        return concerned(connection, graph, events, row["now"], known_keys(connection, graph))

    @contextmanager
    def batch(self, size: int, *, only: Sequence[Key] | None = None) -> Iterator[Batch | None]:
        """Claim due considerations, load their state in a later statement, and commit what the block writes.

        Yield None if nothing is due. `only` claims just these keys, for a batch that is being halved.
        """
        keys: dict[Key, int] = {}
        outdated = True
        while outdated:
            try:
                with self._database.transaction("reconcile") as connection:
                    keys = _claim(connection, size, only)
                    with _batch_errors(keys):
                        yield self._load(connection, keys, size) if keys else None
                outdated = False
            except _OutdatedGraphError:
                self._reload()
            except psycopg.errors.QueryCanceled as error:  # the batch was too large for the statement timeout
                raise BatchError(list(keys), error) from error
            except (psycopg.OperationalError, psycopg.InterfaceError):
                raise  # the connection or a lock: the whole batch is tried again
            except psycopg.Error as error:
                raise BatchError(list(keys), error) from error

    def _load(self, connection: Connection, keys: Mapping[Key, int], size: int) -> Batch:
        """Return the graph and a state of the same epoch."""
        graph = self._graph
        if graph is None:
            raise _OutdatedGraphError
        keys = self._expand(connection, graph, _defined(connection, graph, keys), size)
        # When little is in motion, read all of it: there may be a thousand times as many ancestors.
        above = None if self._calm else graph.ancestors((workflow_id for workflow_id, _ in keys), MOST_ANCESTORS)
        not_automatic = graph.not_automatic_above(workflow_id for workflow_id, _ in keys)
        state = load_state.read(connection, graph, keys, None if above is None else sorted(above), not_automatic)
        self._calm = state.calm
        if graph.epoch != state.epoch:
            raise _OutdatedGraphError
        return Batch(self._settling_in(graph), state, connection)

    def _settling_in(self, graph: Graph) -> Settling:
        if self._settling is None or self._settling.graph is not graph:
            self._settling = Settling(graph)
        return self._settling

    def _expand(self, connection: Connection, graph: Graph, keys: Mapping[Key, int], most: int) -> Mapping[Key, int]:
        """Replace a chunk of each note about all partitions of a workflow by these partitions, evaluated next."""
        found = [key for key in keys if not key[1] and graph.partitioning_of(key[0]).columns]
        if not found:
            return keys
        row = connection.execute(SQL["epoch_and_time"]).fetchone()
        if row is None or graph.epoch != row["epoch"]:
            raise _OutdatedGraphError
        notes.expand(connection, graph, [workflow_id for workflow_id, _ in found], row["now"], most)
        return {key: evaluations for key, evaluations in keys.items() if key not in found}

    def _current(self, connection: Connection) -> Graph:
        """Return the graph of the applied definitions. Raise `_OutdatedGraphError` if it has to be read again."""
        row = connection.execute(SQL["epoch_and_time"]).fetchone()
        graph = self._graph
        if row is None or graph is None or graph.epoch != row["epoch"]:
            raise _OutdatedGraphError
        return graph

    def _reload(self) -> Graph:
        """Read the graph in its own transaction: a large one takes longer than claimed rows may be idle."""
        with self._database.reading() as connection:
            graph = self._graph = read_graph(connection)
        return graph

    def summary(self) -> Summary:
        """Return the epoch, the digest of the graph and the number of heads that this process sees.

        An outdated graph is reloaded, as the next evaluation would do.
        """
        with self._database.reading() as connection:
            row = connection.execute(SQL["outline"]).fetchone()
            assert row is not None  # noqa: S101 - the migration inserted it
        graph = self._graph
        if graph is None or graph.epoch != row["epoch"]:
            graph = self._reload()
        return {"epoch": graph.epoch, "graph": graph.digest, "heads": row["heads"]}

    def mark_failed(self, key: Key, error: str) -> None:
        """Record a failed decision, with its own backoff, for a consideration that fails alone."""
        with self._database.transaction("mark_failed") as connection:
            keys = _claim(connection, 1, [key])
            if not keys:
                return
            now, bare = bare_state.read(connection, keys)
            decisions = DecisionWriter(now)
            for loaded in bare:
                decisions.add(loaded, failed_evaluation(error, loaded.state.evaluations, now))
            decisions.write(connection)

    def fire_timers(self, batch: int) -> int:
        """Turn due timers into events and return how many."""
        with self._database.transaction("fire_timers") as connection:
            fired = timers.fire(connection, batch)
        count("timers_fired", fired)
        return fired

    def until_timer(self) -> float | None:
        """Return the seconds until the next timer is due, negative if one is overdue; None without timers."""
        return self._until("next_timer")

    def until_evaluation(self) -> float | None:
        """Return the seconds until the next consideration is due, negative if one is; None without considerations."""
        return self._until("next_evaluation")

    def _until(self, query: str) -> float | None:
        """Compute in the database: the clock of this process may differ."""
        clock = self._database.clock
        with self._database.connection() as connection:
            row = connection.execute(SQL[query], {"now": clock() if clock else None}).fetchone()
        return None if row is None or row["seconds"] is None else float(row["seconds"])

    def sweep(self) -> int:
        """Add considerations for what is stale without one: a safety net that finds nothing in a healthy system.

        It looks at all workflows without partitions, and at a slice of the partitions (docs/semantics.md#R11.5).
        """
        while True:
            try:
                return self._sweep()
            except _OutdatedGraphError:
                self._reload()

    def _sweep(self) -> int:
        with self._database.transaction("sweep", whole=True) as connection:
            self._end_groups(connection)
            rows = connection.execute(SQL["forgotten"], {"limit": None}).fetchall()
            found = [(row["workflow_id"], "") for row in rows]
            partitioned = connection.execute(SQL["has_partitions"]).fetchone()
            if partitioned:
                found += sweep.forgotten(connection, self._current(connection), partitioned["now"])
            if not found:
                return 0
            # A change between the two statements costs a needless evaluation at worst.
            arrays = {"workflows": [one for one, _ in found], "partitions": [key for _, key in found]}
            connection.execute(SQL["note_forgotten"], arrays)
        count("sweep_found", len(found))
        return len(found)

    def _end_groups(self, connection: Connection) -> None:
        """End the groups of reports that came to rest without a batch after it: two at once, or nobody reads them."""
        groups = report_groups.read(connection)
        if groups:
            report_groups.settle(connection, self._settling_in(self._current(connection)), groups)


def _defined(connection: Connection, graph: Graph, keys: Mapping[Key, int]) -> Mapping[Key, int]:
    """Return the partitions that the definitions still have. The considerations of others end."""
    gone = [key for key in keys if not graph.has_unit(*key)]
    if gone:
        both = {"workflows": [one for one, _ in gone], "partitions": [key for _, key in gone]}
        connection.execute(SQL["drop_considerations"], both)
    return {key: evaluations for key, evaluations in keys.items() if key not in gone} if gone else keys


def failed_evaluation(error: str, evaluations: int, now: datetime) -> Decision:
    """Return the decision about a workflow that cannot be evaluated."""
    look = now + doubling(FIRST_RECHECK, LONGEST_RECHECK, evaluations)
    return Decision(Outcome.ERROR, Reason.EVALUATION_FAILED, {"error": error[:2000]}, next_evaluation=look)


def _claim(connection: Connection, batch: int, only: Sequence[Key] | None) -> dict[Key, int]:
    if only is None:
        rows = connection.execute(SQL["claim_considerations"], {"batch": batch}).fetchall()
    else:
        arrays = {"workflows": [workflow for workflow, _ in only], "partitions": [partition for _, partition in only]}
        rows = connection.execute(SQL["lock_consideration"], arrays).fetchall()
    return {(row["workflow_id"], row["partition_key"]): row["evaluations"] for row in rows}


@contextmanager
def _batch_errors(keys: Mapping[Key, int]) -> Iterator[None]:
    """Name the batch in errors of a state that cannot be read or evaluated, so that the service can halve it."""
    try:
        yield
    except (psycopg.Error, _OutdatedGraphError):
        raise
    except Exception as error:
        raise BatchError(list(keys), f"{type(error).__name__}: {error}") from error
