"""Writes the decisions of a batch: runs, renewals, next evaluations, decisions and wake-ups, one statement each.

Tables are written in the order of docs/semantics.md#R11.2 and rows in key order, so that two batches cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from psycopg.types.json import Jsonb

from freshline.counters import count, observe
from freshline.decide import Decision, Renewal
from freshline.decide.causes import first_change
from freshline.model.enums import Reason
from freshline.model.json import Json
from freshline.model.state import Window
from freshline.store.db.database import Connection
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.evaluation.load_state import LoadedWorkflow

SQL = load("evaluation")
BACKFILLS = load("backfills")


@dataclass(slots=True)
class DecisionWriter:
    """Collects the decisions of one batch and writes them at once."""

    now: datetime
    epoch: int | None = None  # the definitions epoch of the state from which the decisions follow
    runs: list[Json] = field(default_factory=list)
    renewals: list[Json] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    taken_back: list[str] = field(default_factory=list)
    quiet: list[Json] = field(default_factory=list)
    waits: list[Json] = field(default_factory=list)
    done: list[tuple[int, str]] = field(default_factory=list)
    holds: list[Json] = field(default_factory=list)
    decisions: list[Json] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    settled: list[tuple[int, str]] = field(default_factory=list)
    demands: list[Json] = field(default_factory=list)

    def add(self, loaded: LoadedWorkflow, decision: Decision) -> tuple[str, str | None]:
        """Add a decision. Return its id, and the id of the run that it queues."""
        count("decisions", outcome=decision.outcome, reason=decision.reason)
        decision_id = new_id()
        run_id = self._queue(loaded, decision, decision_id) if decision.run else None
        if decision.renewal:
            self.renewals.append(_renewal(decision.renewal, decision_id))
        if decision.superseded:
            self.superseded.append(decision.superseded)
            if decision.reason is Reason.QUIET_HOURS:
                self.taken_back.append(decision.superseded)
        if decision.quiet_run:
            self.quiet.append({"id": decision.quiet_run.run_id, **_window(decision.quiet_run.quiet)})
        self._next_evaluation(loaded, decision)
        self._keep_wait(loaded, decision)
        decision_id = self._record(loaded, decision, decision_id, run_id)
        if decision.rests:
            self.settled.append(loaded.key)
        workflow_id, partition_key = loaded.key
        for backfill_id, state in decision.demands:
            unit = {"workflow_id": workflow_id, "partition_key": partition_key}
            self.demands.append({"backfill_id": backfill_id, "state": state, **unit})
        return decision_id, run_id

    def _queue(self, loaded: LoadedWorkflow, decision: Decision, decision_id: str) -> str:
        run, state, run_id = decision.run, loaded.state, new_id()
        assert run is not None  # noqa: S101 - the caller checked
        changed = first_change(loaded.policy, state)
        if decision.reason == Reason.UPSTREAM_UPDATE and changed is not None:
            observe("event_to_queued_seconds", max(0.0, (self.now - changed).total_seconds()))
        trigger = {**run.trigger, "decisionId": decision_id}
        event = {
            "workflowSlug": state.slug,
            "workflowId": state.workflow_id,
            "runId": run_id,
            "partitionKey": state.partition_key,
            "trigger": trigger,
        }
        self.runs.append(
            {
                "id": run_id,
                "workflow_id": state.workflow_id,
                "partition_key": state.partition_key,
                "version": state.version,
                "project": loaded.project,
                "code_hash": loaded.code_hash,
                "needs_spark": loaded.needs_spark,
                "trigger": trigger,
                "cause": run.cause,
                "priority": run.priority,
                "inherited": loaded.priority(run.urgency),
                "mixed": run.mixed,
                "mixed_upstream": run.mixed_upstream,
                "round": dict(run.round),
                "origin": _iso(run.origin),
                "counted": None if run.counted is None else True,
                **_window(run.quiet),
                "pins": {asset_id: pin.as_json() for asset_id, pin in run.pins.items()},
                "parameters": dict(run.parameters),
                "decision_id": decision_id,
                "event": event,
            }
        )
        return run_id

    def _next_evaluation(self, loaded: LoadedWorkflow, decision: Decision) -> None:
        if decision.next_evaluation is None:
            self.done.append(loaded.key)
            return
        self.holds.append(
            {
                "workflow_id": loaded.state.workflow_id,
                "partition_key": loaded.state.partition_key,
                "not_before": decision.next_evaluation.isoformat(),
                "hold": decision.hold,
                "blocker_id": decision.blocker_id,
                "blocker_key": decision.blocker_key if decision.blocker_id else None,
                "blocks_until": _iso(decision.blocks_until),
                "origin": _iso(decision.origin),
                "priority": loaded.priority(decision.urgency) if decision.blocker_id else None,
                "counted": decision.counted,
                "staleness": decision.staleness.as_json() if decision.staleness else None,
                "waited_ms": 0 if decision.run else loaded.waited_ms,  # `_keep_wait` has it
            }
        )

    def _keep_wait(self, loaded: LoadedWorkflow, decision: Decision) -> None:
        """Store the time of a wait where the end of the consideration does not erase it (docs/semantics.md#R4.5)."""
        if loaded.state.waited and (decision.run or decision.reason is Reason.UP_TO_DATE):
            waited = loaded.state.waited // timedelta(milliseconds=1) if decision.run else 0
            workflow_id, partition_key = loaded.key
            self.waits.append({"workflow_id": workflow_id, "partition_key": partition_key, "waited_ms": waited})

    def _record(self, loaded: LoadedWorkflow, decision: Decision, decision_id: str, run_id: str | None) -> str:
        digest = decision.digest
        last = loaded.last_decision
        # A decision that a run refers to is always stored as a new row.
        if last and last[1] == digest and run_id is None and decision.renewal is None:
            self.repeated.append(last[0])
            return last[0]
        if decision.reason is Reason.UP_TO_DATE and _is_cut_off(decision):
            count("runs_avoided_by_columns")
        self.decisions.append(
            {
                "id": decision_id,
                "workflow_id": loaded.state.workflow_id,
                "partition_key": loaded.state.partition_key,
                "version": loaded.state.version,
                "outcome": decision.outcome,
                "reason": decision.reason,
                "digest": digest,
                "evidence": decision.evidence,
                "run_id": run_id or (decision.renewal.run_id if decision.renewal else decision.superseded),
            }
        )
        return decision_id

    def write(self, connection: Connection) -> None:
        """Write everything in one pipeline."""
        with connection.pipeline():
            self._each(connection, "queue_runs", self.runs, runs=Jsonb(self.runs), epoch=self.epoch)
            self._each(connection, "renew_runs", self.renewals, renewals=Jsonb(self.renewals), epoch=self.epoch)
            waiting = [hold for hold in self.holds if hold["blocker_id"]]
            self._each(connection, "hurry_runs", waiting, holds=Jsonb(waiting))
            self._each(connection, "supersede_runs", self.superseded, ids=self.superseded, quiet=self.taken_back)
            ids = [one["id"] for one in self.quiet]
            self._each(connection, "set_quiet", self.quiet, quiet=Jsonb(self.quiet), ids=ids)
            self._each(connection, "keep_waits", self.waits, waits=Jsonb(self.waits))
            workflows, partitions = [w for w, _ in self.done], [p for _, p in self.done]
            self._each(connection, "drop_considerations", self.done, workflows=workflows, partitions=partitions)
            self._each(connection, "hold_considerations", self.holds, holds=Jsonb(self.holds), now=self.now)
            blockers, blocker_keys = [w for w, _ in self.settled], [p for _, p in self.settled]
            self._each(connection, "wake_waiting", self.settled, blockers=blockers, blocker_keys=blocker_keys)
            if self.demands:
                connection.execute(BACKFILLS["record_states"], {"ended": Jsonb(self.demands)})
            self._each(connection, "record_decisions", self.decisions, decisions=Jsonb(self.decisions), now=self.now)
            self._each(connection, "count_decisions", self.repeated, ids=self.repeated, now=self.now)

    @staticmethod
    def _each(connection: Connection, name: str, rows: Sequence[object], **parameters: Any) -> None:
        if rows:
            connection.execute(SQL[name], parameters)


def _is_cut_off(decision: Decision) -> bool:
    """Return whether a run was avoided because only columns changed that the workflow does not read."""
    return any(one.get("unread") and one["triggers"] for one in decision.evidence.get("inputs", ()))


def _renewal(renewal: Renewal, decision_id: str) -> Json:
    return {
        "id": renewal.run_id,
        "trigger": {**renewal.trigger, "decisionId": decision_id},
        "pins": {asset_id: pin.as_json() for asset_id, pin in renewal.pins.items()},
        "cause": renewal.cause,
        "mixed": renewal.mixed,
        "mixed_upstream": renewal.mixed_upstream,
        "round": dict(renewal.round),
        "origin": _iso(renewal.origin),
        "urgency": renewal.urgency,
        "decision_id": decision_id,
    }


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _window(window: Window | None) -> Json:
    """Return quiet hours as columns."""
    return {
        "quiet_from": window.begins.isoformat() if window else None,
        "quiet_until": window.ends.isoformat() if window else None,
    }
