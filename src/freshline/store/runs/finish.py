"""Writes the end of a run: its final state, the state of the workflow partition, and the events."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from psycopg.types.json import Jsonb

from freshline.counters import count
from freshline.model.enums import EventType, RunStatus, StepStatus, TriggerType
from freshline.model.json import Json
from freshline.model.policy import Policy
from freshline.model.run import ClaimedRun
from freshline.settings import Settings
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.runs.events import append_events, run_event

SQL = load("runs")
JITTER = 0.1


def runs_avoided(connection: Connection, unchanged: Sequence[str]) -> int:
    """Count the automatic runs that unchanged outputs avoid: one per workflow that a change would have triggered."""
    if not unchanged:
        return 0
    row = connection.execute(SQL["triggered_by"], {"assets": list(unchanged)}).fetchone()
    return int(row["workflows"]) if row else 0


def record_dropped(connection: Connection, row: Row) -> None:
    """Record the success of a run whose outputs the workflow no longer owns: what it read is not consumed."""
    connection.execute(SQL["record_dropped"], {"workflow": row["workflow_id"], "partition": row["partition_key"]})


def record_success(
    connection: Connection, run: ClaimedRun, row: Row, *, avoided: int, left_out: Mapping[str, int]
) -> Row:
    """Store the consumed versions: from here on the inputs count as handled.

    `left_out`: the heads of optional outputs that the job did not make; they count as made from these versions.
    Return `closed_breaker`, if the breaker was open, and `waited`, the age in seconds of the first change included.
    """
    parameters = {
        "workflow": row["workflow_id"],
        "partition": row["partition_key"],
        "consumed_versions": Jsonb(row["pins"]),
        "version": run.version,
        "now": row["now"],
        "cause": row["cause"],
        "mixed": row["mixed"],
        "runs_avoided": avoided,
        "accepted": Jsonb(dict(left_out)),
        "round": Jsonb(row["round"]),
        "epoch": row["epoch"],
    }
    found = connection.execute(SQL["record_success"], parameters).fetchone()
    assert found is not None  # noqa: S101 - an upsert returns its row
    return found


def record_failure(connection: Connection, row: Row, settings: Settings) -> bool:
    """Count a failure and set the cooldown (docs/semantics.md#R7.2). Return whether the breaker opened."""
    backoff = Policy.from_json(row["policy"]).backoff
    parameters = {
        "workflow": row["workflow_id"],
        "partition": row["partition_key"],
        "now": row["now"],
        "base_ms": backoff.base_ms or settings.base_backoff_ms,
        "max_ms": backoff.max_ms or settings.max_backoff_ms,
        "budget": backoff.budget,
        "jitter": 1 + random.random() * JITTER,  # noqa: S311 - spreads load, guards nothing
        "probed_versions": Jsonb({asset_id: pin["dataVersion"] for asset_id, pin in row["pins"].items()}),
    }
    found = connection.execute(SQL["record_failure"], parameters).fetchone()
    return bool(found and found["opened"])


def ended_instead(connection: Connection, row: Row, attempt: int) -> bool:
    """End a run that lost its worker if it was canceled or its code is outdated. Return whether it ended."""
    if row["cancel_at"] is not None:
        end_canceled(connection, row, attempt, "canceled by a user")
    elif row["outdated"]:
        _cancel(connection, row, attempt, "definition-changed")
    else:
        return False
    return True


def end_canceled(connection: Connection, row: Row, attempt: int, reason: str) -> None:
    """Cancel a run. An automatic one is not queued again for these versions (docs/semantics.md#R5.3)."""
    if TriggerType(row["trigger_type"]).decided:
        expiry = row["trigger"].get("expiry")
        canceled = {
            "version": row["version"],
            "pins": {asset_id: pin["dataVersion"] for asset_id, pin in row["pins"].items()},
            "expiredAt": expiry["expiresAt"] if expiry else None,
            **({"backfillId": row["trigger"]["backfillId"]} if "backfillId" in row["trigger"] else {}),
        }
        parameters = {"workflow": row["workflow_id"], "partition": row["partition_key"], "canceled": Jsonb(canceled)}
        connection.execute(SQL["record_canceled"], parameters)
    _cancel(connection, row, attempt, reason)


def close_steps(connection: Connection, run_id: str, status: StepStatus) -> None:
    """End the tries of steps that nobody will finish."""
    connection.execute(SQL["close_steps"], {"run": run_id, "status": status})


def _cancel(connection: Connection, row: Row, attempt: int, reason: str) -> None:
    close_steps(connection, row["id"], StepStatus.CANCELED)
    end_run(connection, row, RunStatus.CANCELED, reason=reason)
    event = run_event(row, attempt, EventType.RUN_CANCELED, reason=reason)
    append_events(connection, [event])
    count("runs_ended", trigger=row["trigger_type"], status=RunStatus.CANCELED)


def end_run(
    connection: Connection,
    row: Row,
    status: RunStatus,
    *,
    error: Json | None = None,
    result: Json | None = None,
    reason: str | None = None,
) -> None:
    """Write the final state of the run."""
    parameters = {
        "run": row["id"],
        "status": status,
        "error": Jsonb(error) if error else None,
        "result": Jsonb(result) if result else None,
        "cancel_reason": reason,
    }
    connection.execute(SQL["end_run"], parameters)
