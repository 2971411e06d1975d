"""The workflows that an event affects, with the runs and decisions that say how they reacted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict
from uuid import UUID

from freshline.model.documents.decision import Evidence, StoredTrigger
from freshline.model.enums import EventReason, Reason
from freshline.model.state import Version, reference
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.evaluation.versions import consumed_version

SQL = load("read")
Unit = tuple[int, str]
"""A workflow and a partition key."""


@dataclass(frozen=True, slots=True)
class Change:
    """The snapshot of an `asset.produced` event. `current_version`: the data version that was current after it."""

    asset_id: str
    partition_key: str
    sequence: int
    data_version: str
    delivery: int | None  # its number, if the source is appended to
    changed: bool
    current_version: str | None
    at: datetime
    in_inbox: bool
    mapped: bool  # some consumers read partitions of it, or have partitions themselves
    column_versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def version(self) -> Version:
        """The snapshot as a version that a consumer may have read."""
        return Version(self.sequence, self.data_version, columns=self.column_versions)

    @property
    def reference(self) -> str:
        """The text that identifies the changed partition in pins and consumed versions."""
        return reference(self.asset_id, self.partition_key)


@dataclass(frozen=True, slots=True)
class Expiry:
    """An `asset.expired` event."""

    event_id: str
    partition_key: str
    at: datetime
    in_inbox: bool


@dataclass(frozen=True, slots=True)
class Run:
    """A run that reads the change, or that follows the expiry. `evidence` is None if its decision was pruned."""

    id: UUID
    status: str
    trigger: StoredTrigger
    trigger_type: str
    decision_id: UUID | None
    evidence: Evidence | None

    @property
    def reason(self) -> str:
        """The reason in the trigger. Manual runs have none."""
        return str(self.trigger.get("reason") or EventReason.MANUAL)

    @property
    def cause(self) -> str:
        """The cause of the run. The cause behind a retry is only in the decision."""
        return str((self.evidence or {}).get("cause") or self.reason)


@dataclass(frozen=True, slots=True)
class Decision:
    """The last decision about a workflow."""

    id: UUID
    outcome: str
    reason: str
    evidence: Evidence
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A partition of a workflow that an event affects. `due`: its next evaluation is due."""

    slug: str
    partition_key: str
    declared: bool
    automatic: bool
    triggers: bool
    run: Run | None
    decision: Decision | None
    due: bool

    @property
    def ignores(self) -> str | None:
        """Why such an event never starts a run of this workflow; None if it can."""
        if not self.declared:
            return Reason.NOT_AUTO
        if not self.automatic:
            return Reason.POLICY_OFF
        return None if self.triggers else EventReason.DOES_NOT_TRIGGER


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer(Workflow):
    """A workflow that consumes a changed asset. `consumed`: the version that its last success read.

    `newest`: the sequence of the newest change that the run reads; without a run, of the newest change.
    `ended_run_id`: without a run that reads the change, the last failed or canceled run that had pinned it.
    """

    consumed: Version | None
    counts_unchanged: bool
    pinned: int | None
    run_queued_at: datetime | None
    newest: int
    newest_event: UUID
    ended_run_id: UUID | None
    ended_run_status: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer(Workflow):
    """The workflow that produces an expired asset.

    `expired`: the asset is still expired by this event. `produced_again`: it has a later snapshot. `later_event`: it
    expired again before that snapshot.
    """

    expired: bool
    produced_again: bool
    later_event: UUID | None


class _Common(TypedDict):
    """The columns that consumers and producers have in common."""

    slug: str
    partition_key: str
    declared: bool
    automatic: bool
    triggers: bool
    run: Run | None
    decision: Decision | None
    due: bool


def read_change(connection: Connection, event_id: UUID) -> Change | None:
    """Return the snapshot of an event; None if it was pruned."""
    row = connection.execute(SQL["event_change"], {"event": event_id}).fetchone()
    if row is None:
        return None
    return Change(
        asset_id=row["asset_id"],
        partition_key=row["partition_key"],
        sequence=row["sequence"],
        data_version=row["data_version"],
        delivery=row["delivery"],
        changed=row["changed"],
        current_version=row["current"],
        at=row["at"],
        in_inbox=row["unabsorbed"],
        mapped=row["mapped"],
        column_versions=row["column_versions"] or {},
    )


def read_consumers(
    connection: Connection, change: Change, limit: int, units: Sequence[Unit]
) -> tuple[int, list[Consumer]]:
    """Return the number of consumers of a changed asset, and the first of them by slug.

    `units`: the partitions that read it, of consumers for which a mapping says so.
    """
    where = {"asset": change.asset_id, "partition": change.partition_key, "limit": limit}
    names = {"reference": change.reference, "whole": f"{change.asset_id}@"}
    mapped = {"workflows": [unit[0] for unit in units], "keys": [unit[1] for unit in units]}
    since = {"sequence": change.sequence, "at": change.at}
    rows = connection.execute(SQL["event_consumers"], {**where, **names, **mapped, **since}).fetchall()
    return (rows[0]["consumers"] if rows else 0), [_consumer(row) for row in rows]


def read_producer(connection: Connection, event: Row) -> tuple[Expiry, Producer] | None:
    """Return the expiry of an event and the producer of its asset; None if no workflow produces the asset."""
    data = event["data"]
    where = {"asset": data["assetId"], "partition": data["partitionKey"], "event": event["id"], "at": event["time"]}
    expired = {"run": data["runId"], "produced": data["producedAt"]}
    row = connection.execute(SQL["event_producer"], {**where, **expired}).fetchone()
    if row is None:
        return None
    expiry = Expiry(str(event["id"]), data["partitionKey"], event["time"], row["unabsorbed"])
    producer = Producer(
        **_common(row), expired=row["expired"], produced_again=row["answered"], later_event=row["later_event"]
    )
    return expiry, producer


def _consumer(row: Row) -> Consumer:
    consumed = row["consumed"]
    return Consumer(
        **_common(row),
        consumed=consumed_version(consumed) if consumed else None,
        counts_unchanged=row["counts_unchanged"],
        pinned=row["pin"],
        run_queued_at=row["queued_at"],
        newest=row["newest"],
        newest_event=row["newest_event"],
        ended_run_id=row["tried"],
        ended_run_status=row["tried_status"],
    )


def _common(row: Row) -> _Common:
    return {
        "slug": row["slug"],
        "partition_key": row["partition_key"],
        "declared": row["declared"],
        "automatic": row["automatic"],
        "triggers": row["triggers"],
        "run": _run(row),
        "decision": _decision(row),
        "due": bool(row["due"]),
    }


def _run(row: Row) -> Run | None:
    if row["run_id"] is None:
        return None
    return Run(
        row["run_id"], row["status"], row["trigger"], row["trigger_type"], row["decision_id"], evidence=row["origin"]
    )


def _decision(row: Row) -> Decision | None:
    if row["decision"] is None:
        return None
    return Decision(row["decision"], row["outcome"], row["reason"], row["evidence"], row["last_at"])
