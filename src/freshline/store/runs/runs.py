"""The worker's transactions: claim a run, keep its lease, record its steps, publish it or end it otherwise.

Every write begins by locking the run under its attempt number, the fencing token. A worker that lost its lease gets a
`FencedError` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import psycopg
from psycopg.types.json import Jsonb

from freshline.counters import count, observe
from freshline.errors import FencedError, NotFoundError
from freshline.model.deliveries import PAGE, Delivery
from freshline.model.enums import EventType, RunStatus, StepStatus, TriggerType
from freshline.model.json import Json
from freshline.model.run import ClaimedRun, PinnedInput, StagedOutput, staged_json
from freshline.model.state import reference
from freshline.plural import counted
from freshline.settings import Settings
from freshline.store.db.database import Connection, Database, LostConnectionError, Row
from freshline.store.db.queries import load
from freshline.store.runs import batches, publish
from freshline.store.runs.claim import Claimant, claim_run, pinned_input
from freshline.store.runs.events import append_events, breaker_event, run_event
from freshline.store.runs.finish import close_steps, end_canceled, end_run, ended_instead, record_failure
from freshline.store.runs.success import Publishing, Succeeded, succeed

SQL = load("runs")
MOST_LOG_LINES = 10_000
CLAIM_TRIES = 5
MAX_PAGE_BYTES = 2 * 1024 * 1024  # of deliveries in one answer: far below the largest message to a runner


class Runs:
    """Transactions of run workers."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def claim(self, who: Claimant) -> ClaimedRun | None:
        """Claim the most urgent run that this worker may execute, with a lease. Return None if there is none."""
        for _ in range(CLAIM_TRIES):
            try:
                with self._database.transaction("claim_run") as connection:
                    return claim_run(connection, who, self._settings.lease_ms, self._settings.column_sets)
            except psycopg.errors.UniqueViolation:
                # A concurrent claim took the workflow or the slot; the unique index decided.
                continue
        return None

    def renew_leases(self, held: Sequence[Row]) -> dict[tuple[str, int], bool]:
        """Extend leases. Return the attempts (run, number) that still own theirs, and whether each is to be canceled.

        A worker may hold two attempts of one run: a lost one, and the one by which it took the run over.
        """
        with self._database.transaction("renew_leases") as connection:
            parameters = {"held": Jsonb(list(held)), "lease_ms": self._settings.lease_ms}
            rows = connection.execute(SQL["renew_leases"], parameters).fetchall()
        return {(row["id"], row["attempt"]): row["cancel"] for row in rows}

    def begin_step(self, run_id: str, attempt: int, step_id: str, try_: int, *, session: str | None = None) -> None:
        """Record the start of a try. `session` is its Spark Connect session, for a worker that takes the run over."""
        with self._database.transaction("begin_step") as connection:
            _fence(connection, run_id, attempt)
            parameters = {"run": run_id, "attempt": attempt, "step": step_id, "try": try_, "session": session}
            connection.execute(SQL["begin_step"], parameters)

    def finish_step(
        self,
        run_id: str,
        attempt: int,
        step_id: str,
        try_: int,
        *,
        outputs: Iterable[StagedOutput] | None = None,
        metrics: Row | None = None,
        error: Json | None = None,
    ) -> None:
        """Record the staged outputs of a try, or its error."""
        with self._database.transaction("finish_step") as connection:
            _fence(connection, run_id, attempt)
            staged = None if outputs is None else Jsonb([staged_json(output) for output in outputs])
            parameters = {"run": run_id, "attempt": attempt, "step": step_id, "try": try_, "outputs": staged}
            parameters["status"] = StepStatus.FAILED if error else StepStatus.SUCCEEDED
            parameters["error"] = Jsonb(error) if error else None
            parameters["metrics"] = None if metrics is None else Jsonb(dict(metrics))
            connection.execute(SQL["finish_step"], parameters)
        _count_volume(metrics or {})

    def append_logs(self, run_id: str, attempt: int, lines: Sequence[Mapping[str, str]], *, after: int) -> None:
        """Append log lines, up to the limit of the run. `after` is the number of lines that the attempt had before.

        A repetition with the same `after` adds only missing lines.
        """
        with self._database.transaction("append_logs") as connection:
            _fence(connection, run_id, attempt)
            parameters = {"run": run_id, "attempt": attempt, "lines": Jsonb(list(lines)), "most": MOST_LOG_LINES}
            parameters["after"] = after
            connection.execute(SQL["append_logs"], parameters)

    def publish(
        self,
        run: ClaimedRun,
        outputs: Sequence[StagedOutput],
        *,
        metrics: Row | None = None,
        publish_parameters: bool = False,
        damaged: Collection[str] = (),
        internal: Mapping[str, Collection[str]] | None = None,
    ) -> list[str]:
        """Publish all outputs of the run at once, and return their assets. On an error nothing is published.

        `damaged` are directories of heads that differ from what was published; an equal output replaces them.
        `internal` names, by step, the outputs of other steps that it reads.
        """
        one = Publishing(run, outputs, dict(metrics or {}), publish_parameters, damaged, internal or {})
        done = list[Succeeded]()
        with (
            self._commit_resolved(run.id, run.attempt, {RunStatus.SUCCEEDED}),
            self._database.transaction("publish_run") as connection,
        ):
            done = [succeed(connection, one, row) for row in _fence_batch(connection, run.id, run.attempt)]
        if not done:  # the commit of an earlier call has succeeded
            return sorted({output.asset_id for output in outputs})
        for each in done:
            if each.waited is not None:
                observe("event_to_fresh_seconds", max(0.0, each.waited))
        count("runs_ended", len(done), trigger=run.trigger["type"], status=RunStatus.SUCCEEDED)
        count("runs_avoided", sum(each.avoided for each in done))
        return list(dict.fromkeys(name for each in done for name in each.assets))

    def fail(self, run_id: str, attempt: int, error: Json) -> None:
        """End the run as failed. An automatic run counts towards cooldown and breaker (docs/semantics.md#R7.1)."""
        ends = {RunStatus.FAILED}
        with self._commit_resolved(run_id, attempt, ends), self._database.transaction("fail_run") as connection:
            rows = _fence_batch(connection, run_id, attempt)
            if len(rows) > 1:
                ends |= {RunStatus.QUEUED, RunStatus.CANCELED}
            self._fail(connection, rows, error)

    def cancel(self, run_id: str, attempt: int) -> None:
        """End a run that its worker stopped because a user canceled it. Others of its batch are queued again."""
        ends = {RunStatus.CANCELED}
        with self._commit_resolved(run_id, attempt, ends), self._database.transaction("cancel_running") as connection:
            leader, *members = _fence_batch(connection, run_id, attempt)
            if not members:
                end_canceled(connection, leader, attempt, "canceled by a user")
                return
            ends.add(RunStatus.QUEUED)
            self._return(connection, [leader, *members], crashed=False)

    def hand_back(self, run_id: str, attempt: int, *, crashed: bool = False) -> None:
        """Queue the run again, on the same pins, because its worker leaves.

        With `crashed`, Spark or the warehouse was lost, perhaps because of the run.
        """
        ends = {RunStatus.QUEUED, RunStatus.CANCELED, *([RunStatus.FAILED] if crashed else [])}
        with self._commit_resolved(run_id, attempt, ends), self._database.transaction("hand_back") as connection:
            self._return(connection, _fence_batch(connection, run_id, attempt), crashed=crashed)

    def give_up(self, run_id: str, attempt: int) -> None:
        """Queue a run again whose lease ended while its worker lives; it does not count as a crash."""
        with self._database.transaction("give_up") as connection:
            connection.execute(SQL["lock_batch"], {"run": run_id})
            row = connection.execute(SQL["lock_run"], {"run": run_id, "attempt": attempt}).fetchone()
            if row is None:
                connection.execute(SQL["excuse_run"], {"run": run_id, "attempt": attempt})
            else:
                self._return(connection, [row, *batches.members(connection, row)], crashed=False)

    def rescue(self, batch: int) -> int:
        """Queue the runs of lost workers again, and return how many. A run that keeps killing its workers fails."""
        with self._database.transaction("rescue") as connection:
            lost = connection.execute(SQL["lost_runs"], {"batch": batch}).fetchall()
            for one in lost:
                self._return(connection, _fence_batch(connection, one["id"], one["attempt"]), crashed=True)
        count("leases_lost", len(lost))
        return len(lost)

    def engines(self, project: str) -> list[bool]:
        """Return which engines the project's workflows need: False for plain Python, True for Spark."""
        with self._database.connection() as connection:
            rows = connection.execute(SQL["engines"], {"project": project}).fetchall()
        return [row["needs_spark"] for row in rows]

    def secret_names(self) -> list[str]:
        """Return the names of all variables that a workflow declares as a secret, also workflows of other projects."""
        with self._database.connection() as connection:
            return [row["name"] for row in connection.execute(SQL["secret_names"]).fetchall()]

    def spark_waits(self, project: str) -> bool:
        """Return whether a queued run of the project needs Spark."""
        with self._database.connection() as connection:
            return connection.execute(SQL["spark_waits"], {"project": project}).fetchone() is not None

    def table_at(self, asset_id: str, partition_key: str, version: int) -> PinnedInput:
        """Return another version of an input than the pinned one. Raise `NotFoundError` if it is not kept."""
        keys = publish.pinned({reference(asset_id, partition_key): {"sequence": version}})
        with self._database.connection() as connection:
            row = connection.execute(SQL["pinned_inputs"], keys).fetchone()
        if row is None or row["gone_at"] is not None:
            how = "does not exist" if row is None else "is not kept any more"
            raise NotFoundError(f"version {version} of asset {asset_id!r} {how}; `freshline show {asset_id}` shows one")
        return pinned_input(row)

    def deliveries(self, asset_id: str, partition_key: str, first: int, last: int) -> list[Delivery]:
        """Return the deliveries of an append source from one number to another, skipped ones included.

        Return only the first ones if there are many or if they are large.
        """
        numbers = {"first": first, "last": last, "most": PAGE, "bytes": MAX_PAGE_BYTES}
        with self._database.connection() as connection:
            where = {"asset": asset_id, "partition": partition_key}
            rows = connection.execute(SQL["deliveries_between"], {**where, **numbers}).fetchall()
        found = [row["item"] for row in rows]
        return [Delivery(i["number"], i["path"], i["version"], i["payload"], i["reportedAt"]) for i in found]

    def locations(self, run_id: str) -> list[Json]:
        """Return the locations of the data that a run has published."""
        with self._database.connection() as connection:
            rows = connection.execute(SQL["locations"], {"run": run_id}).fetchall()
        return [row["location"] for row in rows]

    def _return(self, connection: Connection, rows: Sequence[Row], *, crashed: bool) -> None:
        """Queue the run again, unless it has to end or has crashed too often (docs/semantics.md#R12.2).

        `rows`: the run, and the others of its batch. They are queued again as well, and only the run has crashed.
        """
        run = rows[0]
        left = [row for row in rows if not ended_instead(connection, row, row["attempt"])]
        _close_steps(connection, rows)
        times = run["crashes"] + crashed
        if crashed and times >= self._settings.max_worker_losses and run in left:
            text = f"its worker, its Spark or the warehouse was lost {counted(times, 'time')} while it ran"
            message = f"{text}; it is not tried again by itself before the cooldown"
            self._fail(connection, left, {"code": "poison", "message": message})
            return
        for row in left:
            values = {"run": row["id"], "crashed": [row["attempt"]] if crashed and row is run else []}
            connection.execute(SQL["return_run"], {**values, **batches.quiet(row)})

    def _fail(self, connection: Connection, rows: Sequence[Row], error: Json) -> None:
        """End a run as failed. Of a batch nothing ends: it is halved (docs/semantics.md#R14.8)."""
        if rows[0]["batch_id"] is not None:
            left = [row for row in rows if not ended_instead(connection, row, row["attempt"])]
            _close_steps(connection, rows)
            batches.halve(connection, left, error, self._settings)
            return
        (row,) = rows
        opened = False
        if TriggerType(row["trigger_type"]).decided:
            opened = record_failure(connection, row, self._settings)
        end_run(connection, row, RunStatus.FAILED, error=error)
        events = [run_event(row, row["attempt"], EventType.RUN_FAILED, error=dict(error))]
        if opened:
            events.append(breaker_event(row, EventType.BREAKER_OPENED))
        append_events(connection, events)
        count("runs_ended", trigger=row["trigger_type"], status=RunStatus.FAILED)

    @contextmanager
    def _commit_resolved(self, run_id: str, attempt: int, ends: Collection[RunStatus]) -> Iterator[None]:
        """Resolve the outcome of a commit that ends an attempt: an apparent failure is looked up in the run.

        A repetition is fenced by its own first try. The status shows that, as only this attempt sets one of `ends`.
        `queued` does not show it: a rescue leaves a run queued too.
        """
        try:
            yield
        except FencedError:
            if self._status(run_id, attempt) not in {*ends} - {RunStatus.QUEUED}:
                raise
        except LostConnectionError:
            if self._status(run_id, attempt) not in ends:
                raise

    def _status(self, run_id: str, attempt: int) -> RunStatus | None:
        with self._database.connection() as connection:
            row = connection.execute(SQL["run_status"], {"run": run_id}).fetchone()
        return RunStatus(row["status"]) if row and row["attempt"] == attempt else None


def _fence(connection: Connection, run_id: str, attempt: int) -> Row:
    row = connection.execute(SQL["lock_run"], {"run": run_id, "attempt": attempt}).fetchone()
    if row is None:
        count("fenced")
        raise FencedError(f"attempt {attempt} no longer owns run {run_id}; another worker has taken it over")
    return row


def _fence_batch(connection: Connection, run_id: str, attempt: int) -> list[Row]:
    """Lock a run and the others of its batch, and return them, the run first."""
    connection.execute(SQL["lock_batch"], {"run": run_id})
    row = _fence(connection, run_id, attempt)
    return [row, *batches.members(connection, row)]


def _close_steps(connection: Connection, rows: Sequence[Row]) -> None:
    """End the tries of a run that is queued again. A batch loses what its steps have finished: it may not come back."""
    if len(rows) > 1:
        connection.execute(SQL["drop_steps"], {"run": rows[0]["id"]})
    else:
        close_steps(connection, rows[0]["id"], StepStatus.LOST)


def _count_volume(metrics: Row) -> None:
    """Count the rows and bytes of a try, where its engine reports them."""
    for what in ("rows", "bytes"):
        for direction in ("In", "Out"):
            count(f"step_{what}", int(metrics.get(what + direction) or 0), direction=direction.lower())
