"""Due timers become events, and fixed schedules get their next point."""

from __future__ import annotations

import structlog
from psycopg.types.json import Jsonb

from freshline.decide.times import next_point
from freshline.model.enums import EventType
from freshline.model.json import Json
from freshline.model.moment import iso
from freshline.model.policy import Freshness, Policy
from freshline.partitions import document
from freshline.store import partition_timers
from freshline.store.db.database import Connection, Row
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.runs.events import EventRow, append_events, asset_event, produced_data

log = structlog.get_logger("freshline.store")
SQL = load("evaluation")


def fire(connection: Connection, batch: int) -> int:
    """Fire up to `batch` due timers and return how many."""
    due = connection.execute(SQL["fire_timers"], {"batch": batch}).fetchall()
    if not due:
        return 0
    arriving = [row for row in due if row["kind"] == partition_timers.NEXT_KEY]
    fired = [_fire(row, clocked=_is_clocked(connection, row)) for row in due if row not in arriving]
    if fired:
        connection.execute(SQL["expire_timers"], {"timers": Jsonb([timer for timer, _ in fired])})
    if arriving:
        policies = {row["asset_id"]: policy for row in arriving if (policy := _policy(row))}
        partition_timers.fire(connection, arriving, policies)
    append_events(connection, [*(event for _, event in fired), *map(_arrived, arriving)])
    return len(due)


def _arrived(row: Row) -> EventRow:
    """Return an inbox row about the partitions that came to exist since the timer was due."""
    return {
        "id": new_id(),
        "type": None,
        "subject": row["asset_id"],
        "data": {},
        "kind": "arrived",
        "asset_id": row["asset_id"],
        "partition_key": "",
        "since": row["due_at"].isoformat(),
    }


def _is_clocked(connection: Connection, row: Row) -> bool:
    """Return whether the clock of an asset runs on: of its partitions, only those of the newest ones do."""
    if not row["partition_key"]:
        return True
    partitioning = document.from_json(row["partitioning"])
    clocks = partition_timers.clocked(connection, row["asset_id"], partitioning, _freshness(row), row["now"])
    return row["partition_key"] in clocks.keys


def _fire(row: Row, *, clocked: bool) -> tuple[Json, EventRow]:
    """Return the row of the fired timer with its next time, and the event."""
    event_id = new_id()
    freshness = _freshness(row)
    overdue = row["kind"] == "overdue"
    # Missed points collapse into one: the next one counts from now (docs/semantics.md#R8.1).
    following = None if overdue or not clocked else next_point(freshness, row["now"])
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
    data = produced_data(produced, row["slug"], row["declaration"].get("freshness"), None)
    if row["produced_at"] is None:
        data["producedAt"] = None
    data |= {"expiresAt": iso(row["due_at"]), "reason": row["reason"]}
    type_ = EventType.ASSET_OVERDUE if overdue else EventType.ASSET_EXPIRED
    return timer, asset_event(event_id, type_, data, None if overdue else "expired")


def _freshness(row: Row) -> Freshness:
    policy = _policy(row)
    outputs = policy.outputs if policy else ()
    return next((o.freshness for o in outputs if o.asset_id == row["asset_id"]), Freshness())


def _policy(row: Row) -> Policy | None:
    if row["policy"] is None:
        return None
    try:
        return Policy.from_json(row["policy"])
    except Exception:
        # Other workflows' timers must fire. This workflow's error shows when it is evaluated.
        log.exception("policy_unreadable", workflow=row["slug"])
        return None
