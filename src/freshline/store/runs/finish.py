"""How a run ends: its last state, what the workflow's partition remembers of it, and the events that tell it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from psycopg.types.json import Jsonb

from freshline.counters import count
from freshline.model.enums import EventType, RunStatus, TriggerType
from freshline.model.policy import Policy
from freshline.model.run import ClaimedRun
from freshline.settings import Settings
from freshline.store.db.database import Connection
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load

SQL = load("runs")
DB = load("db")
JITTER = 0.1
Row = Mapping[str, Any]


def runs_avoided(connection: Connection, unchanged: Sequence[str]) -> int:
    """How many automatic runs an identical output spares: those who would have followed a change (promise 4)."""
    if not unchanged:
        return 0
    row = connection.execute(SQL["triggered_by"], {"assets": list(unchanged)}).fetchone()
    return int(row["workflows"]) if row else 0


def record_success(connection: Connection, run: ClaimedRun, row: Row, *, avoided: int) -> Row:
    """The inputs count as handled from here on (design 3).

    Returns `closed_breaker`, when it had opened, and `waited`: the age of the first change that it took in, in seconds.
    """
    parameters = {
        "workflow": row["workflow_id"],
        "partition": row["partition_key"],
        "consumed_versions": Jsonb(row["pins"]),
        "fingerprint": run.job_fingerprint,
        "now": row["now"],
        "cause": row["cause"],
        # A manual run waits for nobody, so what it read may be a mix too.
        "mixed": row["mixed"] or row["trigger_type"] != TriggerType.AUTO,
        "runs_avoided": avoided,
    }
    found = connection.execute(SQL["record_success"], parameters).fetchone()
    assert found is not None  # noqa: S101 - an upsert returns its row
    return found


def record_failure(connection: Connection, row: Row, settings: Settings) -> bool:
    """One more failure, and the cooldown that follows (R7.2). Whether the breaker opened."""
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
    """Whether a run that lost its worker ends, because a user wants that or because nobody has its code any more."""
    if row["cancel_at"] is not None:
        end_canceled(connection, row, attempt, "canceled by a user")
    elif row["outdated"]:
        _cancel(connection, row, attempt, "definition-changed")
    else:
        return False
    return True


def end_canceled(connection: Connection, row: Row, attempt: int, reason: str) -> None:
    """A user ended the run: an automatic one is not asked for again with these versions (R5.3)."""
    if row["trigger_type"] == TriggerType.AUTO:
        expiry = row["trigger"].get("expiry")
        canceled = {
            "version": row["version"],
            "pins": {asset_id: pin["dataVersion"] for asset_id, pin in row["pins"].items()},
            "expiredAt": expiry["expiresAt"] if expiry else None,
        }
        parameters = {"workflow": row["workflow_id"], "partition": row["partition_key"], "canceled": Jsonb(canceled)}
        connection.execute(SQL["record_canceled"], parameters)
    _cancel(connection, row, attempt, reason)


def _cancel(connection: Connection, row: Row, attempt: int, reason: str) -> None:
    end_run(connection, row, RunStatus.CANCELED, reason=reason)
    event = run_event(row, attempt, EventType.RUN_CANCELED, reason=reason)
    connection.execute(DB["append_events"], {"events": Jsonb([event])})
    count("runs_ended", trigger=row["trigger_type"], status=RunStatus.CANCELED)


def end_run(
    connection: Connection,
    row: Row,
    status: RunStatus,
    *,
    error: Mapping[str, Any] | None = None,
    result: Mapping[str, Any] | None = None,
    reason: str | None = None,
) -> None:
    """The run's last state."""
    parameters = {
        "run": row["id"],
        "status": status,
        "error": Jsonb(error) if error else None,
        "result": Jsonb(result) if result else None,
        "cancel_reason": reason,
    }
    connection.execute(SQL["end_run"], parameters)


def run_event(row: Row, attempt: int, type_: EventType, **more: Any) -> dict[str, Any]:
    """The end of a run; the absorber has the workflow itself, and who waits for it, looked at."""
    data = {
        "workflowSlug": row["slug"],
        "workflowId": row["workflow_id"],
        "runId": str(row["id"]),
        "partitionKey": row["partition_key"],
        "attempt": attempt,
        "trigger": row["trigger"],
        **more,
    }
    return {
        "id": new_id(),
        "type": type_,
        "subject": row["slug"],
        "data": data,
        "kind": "ended",
        "workflow_id": row["workflow_id"],
        "partition_key": row["partition_key"],
    }


def breaker_event(row: Row, type_: EventType) -> dict[str, Any]:
    """A breaker opened or closed; nobody has to look because of it."""
    data = {"workflowSlug": row["slug"], "workflowId": row["workflow_id"], "partitionKey": row["partition_key"]}
    return {"id": new_id(), "type": type_, "subject": row["slug"], "data": data}
