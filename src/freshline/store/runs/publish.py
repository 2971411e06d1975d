"""Makes all outputs of a run current at once (docs/semantics.md#R9.1).

It only appends and updates its own rows: snapshots, heads, events and timers. It never touches considerations.
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
from freshline.model.documents.asset import CodePart
from freshline.model.enums import EventType
from freshline.model.json import Json
from freshline.model.policy import Freshness, Policy
from freshline.model.run import StagedOutput
from freshline.model.state import is_whole, reference, split_reference
from freshline.partitions import document
from freshline.reading import earlier
from freshline.store import partition_timers
from freshline.store.db.database import Connection, Row
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.retention.retirement import is_ended
from freshline.store.runs.code_parts import Before, Code, made
from freshline.store.runs.events import EventRow, append_events, asset_event, produced_data
from freshline.store.runs.timers import TimerRow, set_timers, timers
from freshline.store.tables.difference import difference
from freshline.store.tables.schemas import table_schema

SQL = load("runs")
MOST_SOURCES = 200
MOST_MIXES = 20


@dataclass(frozen=True, slots=True)
class Publisher:
    """The attempt of a run that publishes."""

    run_id: str
    attempt: int
    workflow_id: int
    version: int
    slug: str
    partition_key: str
    pins: Mapping[str, Json]
    parameters: Json | None
    now: datetime
    mixed: bool = False  # it may have read a mix of generations
    origin: datetime | None = None  # when the root of what it computes happened
    declared: Collection[str] = ()  # the outputs of the run's definition
    damaged: Collection[str] = ()  # directories of heads that differ from what was published
    internal: Mapping[str, Collection[str]] = field(default_factory=dict)  # by step: other steps' outputs that it reads
    table_versions: dict[str, int] = field(default_factory=dict)  # those that its batch has given out, by asset


@dataclass(frozen=True, slots=True)
class Published:
    """One output: its row in `snapshots`, and its events."""

    row: Json
    event: EventRow
    recovered: EventRow | None = None


@dataclass(frozen=True, slots=True)
class Publication:
    """The published outputs, and the heads of the optional outputs that the job left out, by sequence."""

    outputs: list[Published]
    left_out: dict[str, int]


def publish(connection: Connection, who: Publisher, outputs: Iterable[StagedOutput]) -> Publication:
    """Append snapshots and move the heads of the outputs that the workflow still owns (docs/semantics.md#R10.2)."""
    own = {"workflow": who.workflow_id, "partition": who.partition_key, "version": who.version}
    connection.execute(SQL["lock_outputs"], own)
    owned = {row["id"]: row for row in connection.execute(SQL["owned_outputs"], own)}
    kept = sorted((output for output in outputs if output.asset_id in owned), key=lambda output: output.asset_id)
    origin = _origin(connection, who)
    policy = _policy(connection, who.workflow_id)
    if _is_retired(policy, who):
        return Publication([], {})
    declared = {output.asset_id: output.freshness for output in policy.outputs}
    for output in kept:
        _refuse_moved(output, owned[output.asset_id]["sequence"] or 0)
    freshness = {output.asset_id: _freshness(output, declared) for output in kept}
    freshness = partition_timers.running(connection, policy, who.partition_key, freshness, who.now)
    rows = {
        output.asset_id: _snapshot(who, output, owned[output.asset_id], freshness[output.asset_id], origin)
        for output in kept
    }
    optional = {output.asset_id for output in policy.outputs if output.optional}
    left_out = optional & owned.keys() & {*who.declared} - rows.keys()
    for output in kept:
        rows[output.asset_id]["inputs"] |= _internal(who, output, owned[output.asset_id], rows, left_out)
    published = [_published(who, output, rows[output.asset_id], owned[output.asset_id]) for output in kept]
    append(connection, published)
    # An optional output that the job left out counts as produced: its freshness restarts (docs/semantics.md#R7.4).
    unmade = {asset_id: declared[asset_id] for asset_id in sorted(left_out)}
    restarted = freshness | partition_timers.running(connection, policy, who.partition_key, unmade, who.now)
    set_timers(connection, list(_timers(who, restarted)))
    return Publication(published, {one: owned[one]["sequence"] for one in left_out if owned[one]["sequence"]})


def _is_retired(policy: Policy, who: Publisher) -> bool:
    """Return whether retention removes the partition: its run publishes nothing (docs/semantics.md#R13.14)."""
    if policy.retain_ms is None or not who.partition_key:
        return False
    horizon = earlier(who.now, milliseconds(policy.retain_ms))
    return is_ended(document.from_json(policy.partitioning), who.partition_key, horizon)


def append(connection: Connection, published: Sequence[Published], *, late: bool = False) -> None:
    """Write snapshots, heads, events and inbox rows. A `late` report does not move the head.

    Of several snapshots of one asset, in their order, the last one becomes the head.
    """
    last = {(one.row["asset_id"], one.row["partition_key"]): one.row for one in published}
    if not late:
        _number(connection, [row for (_, key), row in last.items() if key])
    rows = Jsonb([one.row for one in published])
    connection.execute(SQL["insert_snapshots"], {"rows": rows})
    connection.execute(SQL["move_heads"], {"rows": Jsonb(list(last.values())), "late": late})
    if any(one.row.get("table_version") is not None for one in published):
        connection.execute(SQL["note_commits"], {"rows": rows})
    append_events(connection, [event for one in published for event in (one.event, one.recovered) if event is not None])


def _number(connection: Connection, heads: Sequence[Json]) -> None:
    """Give the new heads of partitions the number of their change (docs/semantics.md#R13.4)."""
    if heads:
        numbers = connection.execute(SQL["number_changes"], {"rows": Jsonb(heads)}).fetchall()
        changes = {row["asset_id"]: row["change"] for row in numbers}
        for row in heads:
            row["change"] = changes[row["asset_id"]]


def _snapshot(who: Publisher, output: StagedOutput, before: Row, freshness: Freshness, origin: _Origin) -> Json:
    """Return the row of `snapshots`. `before` is the current head."""
    data_version = output.data_version or f"run:{who.run_id}"
    changed = before["data_version"] != data_version
    # An equal output keeps the head's directory; the new directory is collected later (docs/semantics.md#R9.3).
    # A damaged head is replaced by the whole copy (docs/adr/0008).
    same = before if not changed and not _damaged(who, output, before) else None
    expiry = expires_at(freshness, who.now)
    return {
        "asset_id": output.asset_id,
        "partition_key": who.partition_key,
        "sequence": (before["last_sequence"] or 0) + 1,
        "data_version": data_version,
        "changed": changed,
        **_table_versions(who, output, before, moved=same is None),
        "location": same["location"] if same else _with_table_schema(who, output, before),
        "schema": same["schema"] if same else output.schema,
        "rows": output.rows,
        "bytes": same["bytes"] if same else output.bytes,
        "checks": output.checks,
        "code": _code(who, output, before, changed=changed),
        "difference": difference(before, output) if changed and before["sequence"] else None,
        "workflow_id": who.workflow_id,
        "run_id": who.run_id,
        "attempt": who.attempt,
        "step_id": output.step_id,
        "produced_at": who.now.isoformat(),
        "expires_at": expiry[0].isoformat() if expiry else None,
        "inputs": dict(who.pins),
        "sources": dict(origin.sources),
        "mixed": who.mixed,
        "mixed_from": dict(origin.mixed_from),
        "origin": who.origin.isoformat() if who.origin else None,
        "payload": output.payload,
        "event_id": new_id(),
        # They include the schema, which is that of the directory that is kept.
        "column_versions": (dict(output.column_versions) or None)
        if not same or same["schema"] == output.schema
        else None,
    }


def _code(who: Publisher, output: StagedOutput, before: Row, *, changed: bool) -> list[CodePart]:
    """Return which code made the rows. What the owner says now decides whether older rows are accepted."""
    keep = (before["declaration"].get("table") or {}).get("onCodeChange") == "keep"
    by = Code(who.workflow_id, before["code_version"])
    return made(by, output, Before(before["rows"], before["code"]), changed=changed, keep=keep)


def _published(who: Publisher, output: StagedOutput, row: Json, before: Row) -> Published:
    """Add the events: `asset.produced`, and `asset.recovered` if the asset was overdue."""
    data = produced_data(row, who.slug, output.freshness or before["declaration"].get("freshness"), who.parameters)
    event = asset_event(row["event_id"], EventType.ASSET_PRODUCED, data, "changed" if row["changed"] else "unchanged")
    recovered = asset_event(new_id(), EventType.ASSET_RECOVERED, data, None) if before["overdue_at"] else None
    return Published(row, event, recovered)


def _timers(who: Publisher, freshness: Mapping[str, Freshness]) -> Iterator[TimerRow]:
    for asset_id, one in freshness.items():
        yield from timers(asset_id, who.partition_key, one, who.now)


def _internal(
    who: Publisher, output: StagedOutput, before: Row, rows: Mapping[str, Json], left_out: Collection[str]
) -> Json:
    """Return the versions of the run's other outputs that this output was computed from (docs/semantics.md#R1.3).

    They are positions of increments, not consumed versions of the workflow. An appended output that reads an output
    which the run left out keeps its earlier position there.
    """
    read = who.internal.get(output.step_id, ())
    made = {one: rows[one] for one in read if one in rows}
    earlier = (before["inputs"] or {}) if output.appended else {}
    return {
        **{one: {"sequence": row["sequence"], "dataVersion": row["data_version"]} for one, row in made.items()},
        **{one: earlier[one] for one in read if one in left_out and one in earlier},
    }


def _refuse_moved(output: StagedOutput, head: int) -> None:
    """Raise an error if appended or merged rows are based on a head that is no longer current."""
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


def _damaged(who: Publisher, output: StagedOutput, before: Row) -> bool:
    paths = (before["location"] or {}).get("paths", ())
    whole = output.location is not None and not output.appended  # appended rows cannot replace the others
    return whole and any(path in who.damaged for path in paths)


def _table_versions(who: Publisher, output: StagedOutput, before: Row, *, moved: bool) -> dict[str, int | None]:
    """Return the version of the table, and the version at which its list of directories begins.

    All partitions of a batch get one version: it is one commit of the table.
    """
    if not moved or output.location is None:
        return {"table_version": before["table_version"], "base_version": before["base_version"]}
    following = 0 if before["last_version"] is None else before["last_version"] + 1
    number = who.table_versions.setdefault(output.asset_id, following)
    return {"table_version": number, "base_version": before["base_version"] if output.appended else number}


def _with_table_schema(who: Publisher, output: StagedOutput, before: Row) -> Json | None:
    """Return the location of a partition, with the columns of the whole table if it does not have all of them.

    Other partitions may have columns that this one lacks: then they are null here.
    """
    location = None if output.location is None else dict(output.location)
    if not who.partition_key or location is None or before["last_schema"] is None or not output.schema:
        return location
    whole = table_schema(before["last_schema"], output.schema)
    return location if whole == output.schema else {**location, "tableSchema": whole}


def _freshness(output: StagedOutput, declared: Mapping[str, Freshness]) -> Freshness:
    """Return the freshness that the job returned with the asset, else the declared one."""
    if output.freshness is not None:
        return compile_freshness(DeclaredFreshness.model_validate(output.freshness))
    return declared.get(output.asset_id, Freshness())


def pinned(pins: Mapping[str, Json]) -> dict[str, list[Any]]:
    """Return pins as arrays, in the order of their references."""
    ordered = sorted((*split_reference(name), pin["sequence"]) for name, pin in pins.items() if not is_whole(name))
    wholes = sorted((split_reference(name)[0], pin["sequence"]) for name, pin in pins.items() if is_whole(name))
    return {
        "assets": [asset_id for asset_id, _, _ in ordered],
        "keys": [key for _, key, _ in ordered],
        "sequences": [sequence for _, _, sequence in ordered],
        "wholes": [asset_id for asset_id, _ in wholes],
        "changes": [change for _, change in wholes],
    }


@dataclass(frozen=True, slots=True)
class _Origin:
    """What a run's outputs descend from: versions of sources, and data that was made from a mix, both capped."""

    sources: Json
    mixed_from: dict[str, str]


def _origin(connection: Connection, who: Publisher) -> _Origin:
    """Return the origin of everything that the run read (docs/semantics.md#R4.6)."""
    found = connection.execute(SQL["pinned_inputs"], pinned(who.pins))
    merged: dict[str, Any] = {}
    mixed_from: dict[str, str] = {}
    for row in found:
        merged |= row["sources"]
        mixed_from |= row["mixed_from"]
        name = reference(row["asset_id"], row["partition_key"])
        if row["is_source"]:
            merged[name] = {"sequence": row["sequence"], "dataVersion": row["data_version"]}
        if row["mixed"]:
            mixed_from[name] = row["data_version"]
    return _Origin(dict(sorted(merged.items())[:MOST_SOURCES]), dict(sorted(mixed_from.items())[:MOST_MIXES]))
