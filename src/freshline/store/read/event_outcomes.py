"""The outcome of an event for each workflow that it affects (docs/semantics.md#R5.5).

Outcomes are not stored. They are derived when they are read, from the sequences of snapshots, the pins of runs, the
consumed versions and the decisions. This takes two statements, regardless of the number of workflows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from freshline.model.deliveries import position_of
from freshline.model.documents.decision import Evidence, InputEvidence
from freshline.model.documents.event import EventOutcomes, WorkflowOutcome
from freshline.model.enums import EventOutcome, EventReason, EventType, Outcome, Reason, TriggerType
from freshline.model.state import reference
from freshline.store.db.database import Connection, Row
from freshline.store.read import affected
from freshline.store.read.affected import Change, Consumer, Decision, Expiry, Producer, Run, Unit, Workflow
from freshline.store.read.session import json_value

Readers = Callable[[Change], Sequence[Unit]]
NO_OUTCOMES: EventOutcomes = {"consumers": 0, "fates": []}


@dataclass(frozen=True, slots=True)
class _Result:
    """An outcome before it is attributed to a workflow. `until` is the end of a hold, from its evidence."""

    outcome: EventOutcome
    reason: str | None = None
    until: str | None = None
    run_id: UUID | str | None = None
    run_status: str | None = None
    superseded_by: UUID | None = None
    decision_id: UUID | None = None
    evidence: Evidence = field(default_factory=Evidence)


def of_event(connection: Connection, event: Row, limit: int, readers: Readers) -> EventOutcomes:
    """Return the outcomes of an event for the first `limit` affected workflows, or partitions of workflows.

    `readers` returns the partitions that a change concerns.
    """
    if event["type"] == EventType.ASSET_PRODUCED:
        return _outcomes_of_change(connection, event, limit, readers)
    if event["type"] == EventType.ASSET_EXPIRED:
        return _outcomes_of_expiry(connection, event)
    return NO_OUTCOMES


def _outcomes_of_change(connection: Connection, event: Row, limit: int, readers: Readers) -> EventOutcomes:
    change = affected.read_change(connection, event["id"])
    if change is None:
        return NO_OUTCOMES
    units = readers(change) if change.mapped else ()
    count, consumers = affected.read_consumers(connection, change, limit, units)
    outcomes = [_as_json(one.partition_key, one.slug, _change_result(change, one)) for one in consumers]
    return {"consumers": count, "fates": outcomes}


def _outcomes_of_expiry(connection: Connection, event: Row) -> EventOutcomes:
    found = affected.read_producer(connection, event)
    if found is None:
        return NO_OUTCOMES
    expiry, producer = found
    return {"consumers": 1, "fates": [_as_json(expiry.partition_key, producer.slug, _expiry_result(expiry, producer))]}


def _as_json(partition_key: str, slug: str, result: _Result) -> WorkflowOutcome:
    return {
        "workflowSlug": slug,
        "partitionKey": partition_key,
        "fate": result.outcome,
        "reason": result.reason,
        "until": result.until,
        "runId": json_value(result.run_id),
        "runStatus": result.run_status,
        "supersededBy": json_value(result.superseded_by),
        "decisionId": json_value(result.decision_id),
        "evidence": result.evidence,
    }


# --- changes ----------------------------------------------------------------------------------------------------------


def _change_result(change: Change, consumer: Consumer) -> _Result:
    """Return the outcome of a change for one consumer of the asset."""
    run, consumed = consumer.run, consumer.consumed
    if not change.changed:
        return _unchanged_result(change, consumer)
    if run and consumer.newest == change.sequence:
        return _read_result(change, consumer, run)
    if reason := consumer.ignores:
        return _Result(EventOutcome.IGNORED, reason)
    if not run and consumed and consumed.sequence >= change.sequence:
        return _Result(EventOutcome.IGNORED, EventReason.BASELINE)
    if consumer.newest > change.sequence:
        # A delivery is read with the later ones, not replaced by them.
        if change.delivery is None:
            return _superseded(consumer.newest_event, run)
        if run:
            return _in_run(EventOutcome.INCLUDED, run)
    if consumed and consumed.read_all_of(change.version):
        return _Result(EventOutcome.IGNORED, Reason.UP_TO_DATE)
    if (hold := _last_hold(consumer)) and _hold_knows_change(hold, change, consumer):
        return _held(hold, consumer.ended_run_id, consumer.ended_run_status)
    return _pending(change)


def _unchanged_result(change: Change, consumer: Consumer) -> _Result:
    if change.data_version != change.current_version:
        return _Result(EventOutcome.IGNORED, EventReason.LATE)
    if consumer.run and consumer.counts_unchanged and consumer.pinned == change.sequence:
        return _in_run(EventOutcome.INCLUDED, consumer.run)
    return _Result(EventOutcome.IGNORED, EventReason.UNCHANGED)


def _read_result(change: Change, consumer: Consumer, run: Run) -> _Result:
    """Return whether the change triggered the run that reads it, or is only included in it."""
    if TriggerType(run.trigger_type).decided and _was_repinned(change, consumer, run):
        return _in_run(EventOutcome.INCLUDED, run, EventReason.RENEWED)
    upstream = [reference(one["assetId"], one["partitionKey"]) for one in run.trigger.get("upstream") or ()]
    named = change.reference in upstream or change.asset_id in upstream  # all partitions may be read as one
    started = run.cause in {Reason.UPSTREAM_UPDATE, Reason.RETRY} and named
    return _in_run(EventOutcome.TRIGGERED if started else EventOutcome.INCLUDED, run)


def _was_repinned(change: Change, consumer: Consumer, run: Run) -> bool:
    """Return whether the run was queued for an older version and then moved to this one (docs/semantics.md#R6.3)."""
    first = _evidence_of(run.evidence, change)
    queued_before = consumer.run_queued_at is not None and consumer.run_queued_at < change.at
    return queued_before or (first is not None and first["to"] != change.data_version)


# --- expiries ---------------------------------------------------------------------------------------------------------


def _expiry_result(expiry: Expiry, producer: Producer) -> _Result:
    """Return the outcome of an expiry for the workflow that produces the asset."""
    run, later = producer.run, producer.later_event
    if run and _was_triggered_by(expiry, run):
        return _in_run(EventOutcome.TRIGGERED, run)
    produced_next = producer.produced_again and run is not None and later is None
    if not produced_next and (reason := producer.ignores):
        return _Result(EventOutcome.IGNORED, reason)
    if later is not None:
        return _superseded(later, run)
    if run:
        return _in_run(EventOutcome.INCLUDED, run)
    if not producer.expired:
        return _Result(EventOutcome.IGNORED, EventReason.CLOCK_RESET)
    if (hold := _last_hold(producer)) and _hold_knows_expiry(hold, expiry, producer):
        return _held(hold)
    return _pending(expiry)


def _was_triggered_by(expiry: Expiry, run: Run) -> bool:
    return run.cause in {Reason.EXPIRED, Reason.RETRY} and expiry.event_id in run.trigger.get("eventIds", ())


# --- holds ------------------------------------------------------------------------------------------------------------


def _last_hold(workflow: Workflow) -> Decision | None:
    decision = workflow.decision
    return decision if decision and decision.outcome in {Outcome.HOLD, Outcome.ERROR} else None


def _hold_knows_change(hold: Decision, change: Change, consumer: Consumer) -> bool:
    if hold.last_at < change.at:
        return False
    seen = _evidence_of(hold.evidence, change)
    if seen is None and _reads_whole(hold.evidence, change):
        return not change.in_inbox and not consumer.due
    if seen and change.delivery is not None:
        return (position_of(seen["to"] or "") or 0) >= change.delivery
    return seen["to"] == change.data_version if seen else _is_settled(hold, change, consumer)


def _hold_knows_expiry(hold: Decision, expiry: Expiry, producer: Producer) -> bool:
    return hold.last_at >= expiry.at and ("expiry" in hold.evidence or _is_settled(hold, expiry, producer))


def _is_settled(hold: Decision, event: Change | Expiry, workflow: Workflow) -> bool:
    """Return whether a hold without inputs in its evidence came after the event: no evaluation is outstanding."""
    return "inputs" not in hold.evidence and not event.in_inbox and not workflow.due


def _reads_whole(evidence: Evidence, change: Change) -> bool:
    """Return whether a consumer reads all partitions of the changed asset as one: its evidence has no keys."""
    inputs = evidence.get("inputs", [])
    return any(one["assetId"] == change.asset_id and "partitionKey" not in one for one in inputs)


def _evidence_of(evidence: Evidence | None, change: Change) -> InputEvidence | None:
    inputs = (evidence or {}).get("inputs", [])
    changed = (change.asset_id, change.partition_key)
    return next((one for one in inputs if (one["assetId"], one.get("partitionKey", "")) == changed), None)


# --- results ----------------------------------------------------------------------------------------------------------


def _in_run(outcome: EventOutcome, run: Run, reason: str | None = None) -> _Result:
    return _Result(outcome, reason or run.reason, run_id=run.id, run_status=run.status, decision_id=run.decision_id)


def _superseded(by: UUID, run: Run | None) -> _Result:
    if run is None:
        return _Result(EventOutcome.SUPERSEDED, superseded_by=by)
    return _Result(
        EventOutcome.SUPERSEDED, superseded_by=by, run_id=run.id, run_status=run.status, decision_id=run.decision_id
    )


def _held(hold: Decision, run_id: UUID | None = None, run_status: str | None = None) -> _Result:
    evidence = hold.evidence
    return _Result(
        EventOutcome.HELD,
        hold.reason,
        until=evidence.get("until") or evidence.get("deadline") or evidence.get("nextProbeAt"),
        run_id=evidence.get("runId") or run_id,
        run_status=evidence.get("runStatus") or run_status,
        decision_id=hold.id,
        evidence=evidence,
    )


def _pending(event: Change | Expiry) -> _Result:
    return _Result(EventOutcome.PENDING, EventReason.UNABSORBED if event.in_inbox else EventReason.DUE)
