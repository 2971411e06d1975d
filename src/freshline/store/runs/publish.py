"""Publishing: the rows that make all outputs of a run current at once (R9), and a source's report (R3.3).

It only appends and updates its own rows: snapshots, heads, events, timers, vector, run; never considerations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from freshline.decide.times import expires_at, milliseconds
from freshline.definitions.policy import compile_freshness
from freshline.definitions.schema.workflow import Freshness as DeclaredFreshness
from freshline.errors import ConflictError
from freshline.model.enums import EventType
from freshline.model.moment import iso
from freshline.model.policy import Freshness, Policy
from freshline.model.run import StagedOutput
from freshline.store.db.database import Connection
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.tables.difference import difference

SQL = load("runs")
DB = load("db")
MOST_SOURCES = 200
MOST_CHECKS = 50  # in an event or in the error of a run
TOLD = ("check", "severity", "passed", "observed")  # of a check, in an event


@dataclass(frozen=True, slots=True)
class Publisher:
    """Who publishes: one attempt of a run."""

    run_id: str
    attempt: int
    workflow_id: int
    slug: str
    partition_key: str
    pins: Mapping[str, Mapping[str, Any]]
    parameters: Mapping[str, Any] | None
    now: datetime
    damaged: Collection[str] = ()  # directories of heads that are no longer what was published
    internal: Mapping[str, Collection[str]] = field(default_factory=dict)  # by step, the other steps' outputs it reads


@dataclass(frozen=True, slots=True)
class Published:
    """One output as it was published."""

    row: dict[str, Any]
    event: dict[str, Any]
    timers: tuple[dict[str, Any], ...]
    recovered: dict[str, Any] | None


def append_event(connection: Connection, type_: EventType, subject: str, data: Mapping[str, Any]) -> None:
    """Append one event that is not about an asset."""
    event = {"id": new_id(), "type": type_, "subject": subject, "data": dict(data)}
    connection.execute(DB["append_events"], {"events": Jsonb([event])})


def publish(connection: Connection, who: Publisher, outputs: Iterable[StagedOutput]) -> list[Published]:
    """Append snapshots and move the heads of what the workflow still owns (R10.2)."""
    own = {"workflow": who.workflow_id, "partition": who.partition_key}
    connection.execute(SQL["lock_outputs"], own)
    owned = {row["id"]: row for row in connection.execute(SQL["owned_outputs"], own)}
    kept = sorted((output for output in outputs if output.asset_id in owned), key=lambda output: output.asset_id)
    names = [output.asset_id for output in kept]
    sources = _sources(connection, who)
    policy = _policy(connection, who.workflow_id)
    declared = {output.asset_id: output.freshness for output in policy.outputs}
    for output in kept:
        _refuse_moved(output, owned[output.asset_id]["sequence"] or 0)
    published = [_output(who, one, owned[one.asset_id], declared, sources) for one in kept]
    left_out = {output.asset_id for output in policy.outputs if output.optional} & owned.keys() - set(names)
    rows = {one.row["asset_id"]: one.row for one in published}
    for output in kept:
        rows[output.asset_id]["inputs"] |= _internal(who, output, owned[output.asset_id], rows, left_out)
    append(connection, published)
    arm(connection, [*(timer for one in published for timer in one.timers), *_restarted(who, declared, left_out)])
    return published


def _internal(
    who: Publisher, output: StagedOutput, before: Mapping[str, Any], rows: Mapping[str, Any], left_out: Collection[str]
) -> dict[str, Any]:
    """What the output has read of the run's other outputs: positions of increments, and no part of the vector (R1.3).

    In one that the run left out, rows that are added to others stand where those stood.
    """
    read = who.internal.get(output.step_id, ())
    made = {one: rows[one] for one in read if one in rows}
    stood = (before["inputs"] or {}) if output.appended else {}
    return {
        **{one: {"sequence": row["sequence"], "dataVersion": row["data_version"]} for one, row in made.items()},
        **{one: stood[one] for one in read if one in left_out and one in stood},
    }


def _refuse_moved(output: StagedOutput, head: int) -> None:
    """What was added to a head, or merged with it, is nothing without that head."""
    if output.based_on is not None and output.based_on != head:
        raise ConflictError(
            f"asset {output.asset_id!r} was moved to version {head} while the run worked on version {output.based_on}; "
            "nothing was published",
            hint="the run is repeated after its cooldown, or at once by `freshline run`",
        )


def _policy(connection: Connection, workflow_id: int) -> Policy:
    row = connection.execute(SQL["policy"], {"workflow": workflow_id}).fetchone()
    assert row is not None  # noqa: S101 - the run refers to it
    return Policy.from_json(row["policy"])


def _restarted(who: Publisher, declared: Mapping[str, Freshness], left_out: Iterable[str]) -> Iterator[dict[str, Any]]:
    """An optional output that the job left out is as fresh as one that it made (R7.4)."""
    for asset_id in sorted(left_out):
        freshness = declared[asset_id]
        key = {"asset_id": asset_id, "partition_key": who.partition_key}
        yield from timers(key, freshness, who.now, expires_at(freshness, who.now))


def append(connection: Connection, published: Sequence[Published], *, late: bool = False) -> None:
    """Snapshots, heads, events and inbox rows. `late`: recorded, and the head stays (R3.3)."""
    rows = Jsonb([one.row for one in published])
    events = [event for one in published for event in (one.event, one.recovered) if event is not None]
    connection.execute(SQL["insert_snapshots"], {"rows": rows})
    connection.execute(SQL["move_heads"], {"rows": rows, "late": late})
    if any(one.row.get("table_version") is not None for one in published):
        connection.execute(SQL["note_commits"], {"rows": rows})
    connection.execute(DB["append_events"], {"events": Jsonb(events)})


def arm(connection: Connection, timers: Sequence[dict[str, Any]]) -> None:
    """Set timers, and remove those that have no time."""
    set_ = [timer for timer in timers if timer["due_at"] is not None]
    gone = [timer for timer in timers if timer["due_at"] is None]
    if set_:
        connection.execute(SQL["arm_timers"], {"timers": Jsonb(set_)})
    if gone:
        connection.execute(SQL["disarm_timers"], {"timers": Jsonb(gone)})


def _output(
    who: Publisher,
    output: StagedOutput,
    before: Mapping[str, Any],
    declared: Mapping[str, Freshness],
    sources: Mapping[str, Any],
) -> Published:
    event_id = new_id()
    data_version = output.data_version or f"run:{who.run_id}"
    changed = before["data_version"] != data_version
    # An equal output keeps the head's directory: the new one holds the same rows and is collected later (R9.3).
    # Unless that one is damaged: then nothing but a whole copy can heal it (ADR 0008).
    same = before if not changed and not _damaged(who, output, before) else None
    freshness = _freshness(output, declared)
    expiry = expires_at(freshness, who.now)
    row = {
        "asset_id": output.asset_id,
        "partition_key": who.partition_key,
        "sequence": (before["last_sequence"] or 0) + 1,
        "data_version": data_version,
        "changed": changed,
        **_versions(output, before, moved=same is None),
        "location": same["location"] if same else output.location,
        "schema": same["schema"] if same else output.schema,
        "rows": output.rows,
        "bytes": same["bytes"] if same else output.bytes,
        "checks": output.checks,
        "difference": difference(before, output) if changed and before["sequence"] else None,
        "workflow_id": who.workflow_id,
        "run_id": who.run_id,
        "attempt": who.attempt,
        "step_id": output.step_id,
        "produced_at": who.now.isoformat(),
        "expires_at": expiry[0].isoformat() if expiry else None,
        "inputs": dict(who.pins),
        "sources": dict(sources),
        "payload": output.payload,
        "event_id": event_id,
    }
    data = produced_data(row, who.slug, output.freshness or before["declaration"].get("freshness"), who.parameters)
    kind = "changed" if changed else "unchanged"
    event = asset_event(event_id, EventType.ASSET_PRODUCED, data, kind)
    recovered = _recovered(data) if before["overdue_at"] else None
    return Published(row, event, tuple(timers(row, freshness, who.now, expiry)), recovered)


def _damaged(who: Publisher, output: StagedOutput, before: Mapping[str, Any]) -> bool:
    paths = (before["location"] or {}).get("paths", ())
    whole = output.location is not None and not output.appended  # a part cannot heal the rest
    return whole and any(path in who.damaged for path in paths)


def _versions(output: StagedOutput, before: Mapping[str, Any], *, moved: bool) -> dict[str, int | None]:
    """The number of the table's version, and the one at which its list of directories begins."""
    if not moved or output.location is None:
        return {"table_version": before["table_version"], "base_version": before["base_version"]}
    number = 0 if before["last_version"] is None else before["last_version"] + 1
    return {"table_version": number, "base_version": before["base_version"] if output.appended else number}


def _freshness(output: StagedOutput, declared: Mapping[str, Freshness]) -> Freshness:
    """What the job returned with the asset wins over the declaration, as in the seeds' `result.assets`."""
    if output.freshness is not None:
        return compile_freshness(DeclaredFreshness.model_validate(output.freshness))
    return declared.get(output.asset_id, Freshness())


def timers(
    row: Mapping[str, Any], freshness: Freshness, since: datetime, expiry: tuple[datetime, str] | None
) -> Iterable[dict[str, Any]]:
    """The expiry and overdue timers of an asset produced then."""
    key = {"asset_id": row["asset_id"], "partition_key": row["partition_key"]}
    due, reason = expiry or (None, None)
    yield {**key, "kind": "expiry", "due_at": due.isoformat() if due else None, "reason": reason}
    overdue = since + milliseconds(freshness.max_age_ms) if freshness.max_age_ms is not None else None
    reason = "max-age" if overdue else None
    yield {**key, "kind": "overdue", "due_at": overdue.isoformat() if overdue else None, "reason": reason}


def produced_data(
    row: Mapping[str, Any], slug: str | None, freshness: Any, parameters: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The data of `asset.produced`, as design 6 writes it."""
    data = {
        "assetId": row["asset_id"],
        "partitionKey": row["partition_key"],
        "workflowSlug": slug,
        "workflowId": row.get("workflow_id"),
        "runId": row.get("run_id"),
        "stepId": row.get("step_id"),
        "producedAt": iso(datetime.fromisoformat(row["produced_at"])),
        "freshness": freshness,
        "dataVersion": row["data_version"],
        "changed": row["changed"],
        "rows": row.get("rows"),
        "bytes": row.get("bytes"),
        "payload": row.get("payload"),
    }
    if row.get("checks") is not None:
        data["checks"] = [{name: one.get(name) for name in TOLD} for one in told_checks(row["checks"])]
    return data if parameters is None else {**data, "parameters": dict(parameters)}


def told_checks(results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The results of checks that are told in events and errors: the failed ones first, and not too many."""
    return sorted(results, key=lambda one: bool(one["passed"]))[:MOST_CHECKS]


def asset_event(event_id: str, type_: EventType, data: Mapping[str, Any], kind: str | None) -> dict[str, Any]:
    """An event about an asset; `kind` says what the absorber has to do with it."""
    return {
        "id": event_id,
        "type": type_,
        "subject": data["assetId"],
        "data": dict(data),
        "kind": kind,
        "asset_id": data["assetId"],
        "partition_key": data["partitionKey"],
    }


def _recovered(data: Mapping[str, Any]) -> dict[str, Any]:
    return asset_event(new_id(), EventType.ASSET_RECOVERED, data, None)


def _sources(connection: Connection, who: Publisher) -> dict[str, Any]:
    """The versions of the sources that the run's inputs stem from, capped (R4.6)."""
    pins = sorted(who.pins.items())
    found = connection.execute(
        SQL["pinned_inputs"],
        {
            "assets": [asset_id for asset_id, _ in pins],
            "sequences": [pin["sequence"] for _, pin in pins],
            "partition": who.partition_key,
        },
    )
    merged: dict[str, Any] = {}
    for row in found:
        merged |= row["sources"]
        if row["is_source"]:
            merged[row["asset_id"]] = {"sequence": row["sequence"], "dataVersion": row["data_version"]}
    return dict(sorted(merged.items())[:MOST_SOURCES])
