"""What became of an event, for each workflow that it concerns (R5.5).

Nothing is kept for this while things happen: the answer is derived when somebody asks, from the sequences of snapshots,
the pins of runs, consumed versions and decisions. It costs two statements, however many workflows there are.
"""

from __future__ import annotations

from typing import Any

from freshline.model.enums import EventOutcome, EventReason, EventType, Outcome, Reason, TriggerType
from freshline.model.json import Json
from freshline.store.db.database import Connection
from freshline.store.db.queries import load
from freshline.store.read.look import plain

SQL = load("read")
NOBODY: Json = {"consumers": 0, "fates": []}


def of_event(connection: Connection, event: Json, limit: int) -> Json:
    """`{consumers, fates}`: how many workflows it concerns, and its fate for the first so many of them, by slug."""
    if event["type"] == EventType.ASSET_PRODUCED:
        return _of_change(connection, event, limit)
    if event["type"] == EventType.ASSET_EXPIRED:
        return _of_expiry(connection, event)
    return NOBODY


def _of_change(connection: Connection, event: Json, limit: int) -> Json:
    change = connection.execute(SQL["event_change"], {"event": event["id"]}).fetchone()
    if change is None:
        return NOBODY
    where = {"asset": change["asset_id"], "partition": change["partition_key"], "limit": limit}
    rows = connection.execute(
        SQL["event_consumers"], {**where, "sequence": change["sequence"], "at": change["at"]}
    ).fetchall()
    return _listed(change["partition_key"], [(row, _change(change, row)) for row in rows])


def _of_expiry(connection: Connection, event: Json) -> Json:
    data = event["data"]
    where = {"asset": data["assetId"], "partition": data["partitionKey"], "event": event["id"], "at": event["time"]}
    found = {"run": data["runId"], "produced": data["producedAt"]}
    rows = connection.execute(SQL["event_producer"], {**where, **found}).fetchall()
    expiry = {"at": event["time"], "event_id": str(event["id"])}
    return _listed(data["partitionKey"], [(row, _expiry({**expiry, **row}, row)) for row in rows])


def _listed(partition_key: str, answers: list[tuple[Json, Json]]) -> Json:
    fates = [
        {"workflowSlug": row["slug"], "partitionKey": partition_key, **{key: plain(one) for key, one in fate.items()}}
        for row, fate in answers
    ]
    return {"consumers": answers[0][0]["consumers"] if answers else 0, "fates": fates}


def _change(change: Json, row: Json) -> Json:
    """Of an asset's production, for one consumer."""
    reads, consumed = row["run_id"] is not None, row["consumed"]
    if not change["changed"]:
        return _unchanged(change, row)
    if reads and row["newest"] == change["sequence"]:
        return _read(change, row)
    if reason := _uncaused(row):
        return _fate(EventOutcome.IGNORED, reason)
    if not reads and consumed and consumed["sequence"] >= change["sequence"]:
        return _fate(EventOutcome.IGNORED, EventReason.BASELINE)
    if row["newest"] > change["sequence"]:
        return _fate(EventOutcome.SUPERSEDED, by=row["newest_event"], run=row)
    if consumed and consumed["dataVersion"] == change["data_version"]:
        return _fate(EventOutcome.IGNORED, Reason.UP_TO_DATE)
    return _waiting(change, row, seen=_saw_change(change, row))


def _unchanged(change: Json, row: Json) -> Json:
    if change["data_version"] != change["current"]:
        return _fate(EventOutcome.IGNORED, EventReason.LATE)
    if row["counts_unchanged"] and row["pin"] == change["sequence"]:
        return _fate(EventOutcome.INCLUDED, _started_for(row), run=row)
    return _fate(EventOutcome.IGNORED, EventReason.UNCHANGED)


def _read(change: Json, row: Json) -> Json:
    """A run reads it; whether that run was started for it makes the difference."""
    if row["trigger_type"] == TriggerType.AUTO and _renewed(change, row):
        return _fate(EventOutcome.INCLUDED, EventReason.RENEWED, run=row)
    upstream = [one["assetId"] for one in row["trigger"].get("upstream") or ()]
    updates = _base(row) in {Reason.UPSTREAM_UPDATE, Reason.RETRY}
    started = updates and change["asset_id"] in upstream
    return _fate(EventOutcome.TRIGGERED if started else EventOutcome.INCLUDED, _started_for(row), run=row)


def _renewed(change: Json, row: Json) -> bool:
    """Whether the run was queued for something older and moved to it (R6.3)."""
    first = _evidence_of(row["origin"], change["asset_id"])
    return row["queued_at"] < change["at"] or (first is not None and first["to"] != change["data_version"])


def _expiry(expiry: Json, row: Json) -> Json:
    """Of an asset's expiry, for the workflow that makes it."""
    if _triggered(expiry, row):
        return _fate(EventOutcome.TRIGGERED, _started_for(row), run=row)
    exact = row["answered"] and row["run_id"] is not None and row["later_event"] is None
    if not exact and (reason := _uncaused(row)):
        return _fate(EventOutcome.IGNORED, reason)
    if row["later_event"] is not None:
        return _fate(EventOutcome.SUPERSEDED, by=row["later_event"], run=row)
    if row["run_id"] is not None:
        return _fate(EventOutcome.INCLUDED, _started_for(row), run=row)
    if not row["expired"]:
        return _fate(EventOutcome.IGNORED, EventReason.CLOCK_RESET)
    return _waiting(expiry, row, seen=_saw_expiry(expiry, row))


def _triggered(expiry: Json, row: Json) -> bool:
    trigger = row["trigger"] or {}
    return _base(row) in {Reason.EXPIRED, Reason.RETRY} and expiry["event_id"] in trigger.get("eventIds", ())


def _uncaused(row: Json) -> str | None:
    """Why no event of this kind makes the workflow run."""
    if not row["declared"]:
        return Reason.NOT_AUTO
    if not row["automatic"]:
        return Reason.POLICY_OFF
    return None if row["triggers"] else EventReason.DOES_NOT_TRIGGER


def _started_for(row: Json) -> str:
    """The reason in the run's trigger; those that people start have none."""
    return str(row["trigger"].get("reason") or EventReason.MANUAL)


def _base(row: Json) -> str | None:
    """The cause of the run; what lies under a retry is known as long as its decision is kept."""
    if row["run_id"] is None:
        return None
    return (row["origin"] or {}).get("cause") or _started_for(row)


def _waiting(what: Json, row: Json, *, seen: bool) -> Json:
    """Nobody reads it yet: the last decision says why, if it knew of it."""
    if seen and row["outcome"] in {Outcome.HOLD, Outcome.ERROR}:
        return _held(row)
    return _fate(EventOutcome.PENDING, EventReason.UNABSORBED if what["unabsorbed"] else EventReason.DUE)


def _held(row: Json) -> Json:
    evidence: Json = row["evidence"]
    until = evidence.get("until") or evidence.get("deadline") or evidence.get("nextProbeAt")
    run_id, status = evidence.get("runId") or row["tried"], evidence.get("runStatus") or row["tried_status"]
    held = {"until": until, "runId": run_id, "runStatus": status, "decisionId": row["decision"], "evidence": evidence}
    return _fate(EventOutcome.HELD, row["reason"]) | held


def _saw_change(change: Json, row: Json) -> bool:
    seen = _evidence_of(row["evidence"], change["asset_id"])
    return _looked(change, row) and (seen["to"] == change["data_version"] if seen else _rests(change, row))


def _saw_expiry(expiry: Json, row: Json) -> bool:
    return _looked(expiry, row) and ("expiry" in row["evidence"] or _rests(expiry, row))


def _looked(what: Json, row: Json) -> bool:
    return row["decision"] is not None and row["last_at"] >= what["at"]


def _rests(what: Json, row: Json) -> bool:
    """For decisions that do not tell what they saw: nothing has happened since."""
    return "inputs" not in row["evidence"] and not what["unabsorbed"] and not row["due"]


def _evidence_of(evidence: Json | None, asset_id: str) -> Json | None:
    inputs: list[Json] = (evidence or {}).get("inputs", [])
    return next((one for one in inputs if one["assetId"] == asset_id), None)


def _fate(fate: EventOutcome, reason: str | None = None, *, run: Json | None = None, by: Any = None) -> Json:
    return {
        "fate": fate,
        "reason": reason,
        "until": None,
        "runId": run["run_id"] if run else None,
        "runStatus": run["status"] if run else None,
        "supersededBy": by,
        "decisionId": run["decision_id"] if run else None,
        "evidence": {},
    }
