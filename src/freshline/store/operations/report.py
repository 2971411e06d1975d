"""Writes a report about a source asset: the snapshot, the head and the event."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypedDict, TypeVar

import psycopg
from psycopg.types.json import Jsonb

from freshline.errors import ConflictError, KeyReusedError, UsageError
from freshline.model.allowed_paths import AllowedPaths
from freshline.model.documents.asset import StoredDelivery
from freshline.model.enums import EventType
from freshline.model.file_patterns import PARTITION
from freshline.model.json import Json
from freshline.partitions.keys import encode_for_path
from freshline.store import source_warnings
from freshline.store.db.database import Connection, Row
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.operations import audit, deliveries
from freshline.store.operations.targets import TargetAsset, find_asset, reported_partition
from freshline.store.runs.events import asset_event, produced_data
from freshline.store.runs.publish import Published, append

SQL = load("operations")
DB = load("db")
MOST_PAYLOAD = 256 * 1024
TRIES = 5
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Report:
    """A report as it came in."""

    asset_id: str
    partition_key: str
    version: str | None
    key: str | None
    sequence: int | None
    payload: Any
    event_id: str
    root: str | None = None  # the directory of this process's project, for declarations of 0.1
    group: Json | None = None  # the sources that are reported with it, for its event


def first_report(asset_id: str) -> Report:
    """Return a report that names nothing but the source."""
    return Report(asset_id, "", version=None, key=None, sequence=None, payload=None, event_id=new_id())


class Reported(TypedDict):
    """The answer to a report, as JSON."""

    assetId: str
    partitionKey: str
    version: int
    dataVersion: str
    changed: bool
    duplicate: bool
    movedHead: bool
    delivery: int | None  # the number of the delivery that an append source got
    eventId: str
    warnings: list[str]  # what this report loses


def record(connection: Connection, report: Report, *, again: bool) -> Reported:
    """Append the snapshot and its event, and move the head.

    With `again` it first searches for what an earlier try with an unknown commit outcome has written.
    """
    asset = _source(connection, report.asset_id)
    report = replace(report, partition_key=reported_partition(connection, asset, report.partition_key))
    where = {"asset": report.asset_id, "partition": report.partition_key}
    head = connection.execute(SQL["lock_head"], where).fetchone()
    known = _known(connection, asset, report, where, again=again)
    if known:
        return _reported(report, known, duplicate=known["event_id"] != report.event_id)
    number = _next_delivery(connection, asset, report)
    row = _snapshot_row(asset, report, head, number, _now(connection))
    lost = [] if row["late"] else source_warnings.of_report(connection, asset, head, _path(report))
    if number is not None:
        delivery = _delivery(report, row)
        lost = source_warnings.of_delivery(connection, report.asset_id, number, delivery["path"])
        deliveries.add(connection, report.asset_id, report.partition_key, [delivery])
    with audit.changing(connection, "report", report.asset_id, "head_state", report.asset_id):
        append(connection, [_published(row)], late=row["late"])
    return _reported(report, row, duplicate=False, warnings=lost)


def record_all(connection: Connection, reports: Sequence[Report]) -> list[Reported]:
    """Write reports about one source, in their order. Deliveries with keys take few statements, however many."""
    if len(reports) > 1 and all(one.key is not None for one in reports):
        asset = _source(connection, reports[0].asset_id)
        if deliveries.is_append(asset["declaration"]):
            return _record_deliveries(connection, asset, reports)
    return [record(connection, one, again=False) for one in reports]


def _record_deliveries(connection: Connection, asset: Row, reports: Sequence[Report]) -> list[Reported]:
    asset_id, partition_key = reports[0].asset_id, reports[0].partition_key
    head = connection.execute(SQL["lock_head"], {"asset": asset_id, "partition": partition_key}).fetchone()
    known = deliveries.find_all(connection, asset_id, partition_key, [one.key or "" for one in reports])
    number = deliveries.next_number(connection, asset_id, partition_key)
    now = _now(connection)
    added: list[Json] = []
    results: list[Reported] = []
    for one in reports:
        before = known.get(one.key or "")
        if before is not None:
            _refuse_other(one, before["sequence"], _same_delivery(one, before))
            results.append(_reported(one, _as_row(before), duplicate=True))
            continue
        deliveries.require_path(asset_id, asset["declaration"], one.payload)
        row = _snapshot_row(asset, one, head, number + len(added), now)
        head = {**row, "last_sequence": row["sequence"]}
        known[one.key or ""] = _delivery(one, row)
        added.append(row)
        results.append(_reported(one, row, duplicate=False))
    if added:
        new = [known[row["report_key"]] for row in added]
        deliveries.add(connection, asset_id, partition_key, new)
        with audit.changing(connection, "report", asset_id, "head_state", asset_id):
            append(connection, [_published(row) for row in added])
    return results


def _published(row: Json) -> Published:
    """Add the event. A late report does not move the head, so no workflow needs an evaluation."""
    kind = None if row["late"] else ("changed" if row["changed"] else "unchanged")
    data = produced_data(row, None, None, None)
    return Published(row, asset_event(row["event_id"], EventType.ASSET_PRODUCED, data, kind))


def _now(connection: Connection) -> str:
    moment = connection.execute(DB["now"]).fetchone()
    assert moment is not None  # noqa: S101 - it is one value
    return str(moment["now"].isoformat())


def _known(connection: Connection, asset: Row, report: Report, where: Row, *, again: bool) -> Row | None:
    """Return what an earlier report with the same key wrote, or an earlier try of this one."""
    if deliveries.is_append(asset["declaration"]) and report.key is not None:
        earlier = deliveries.find(connection, report.asset_id, report.partition_key, report.key)
        if earlier is not None:
            _refuse_other(report, earlier["sequence"], _same_delivery(report, earlier))
            return _as_row(earlier)
    if report.key is None and not again:
        return None
    query = SQL["reported_again" if again else "reported"]
    payload = None if report.payload is None else Jsonb(report.payload)
    keys = {"key": report.key, "event": report.event_id, "payload": payload}
    known = connection.execute(query, {**where, **keys}).fetchone()
    if known and known["event_id"] != report.event_id:
        _refuse_other(report, known["sequence"], _same_snapshot(report, known))
    return known


def _same_snapshot(report: Report, known: Row) -> dict[str, bool]:
    version = report.version or f"seq:{known['sequence']}"  # as stored for a report without a version
    return {
        "version": version == known["data_version"],
        "sequence": report.sequence == known["report_sequence"],
        "payload": known["same_payload"],
    }


def _same_delivery(report: Report, known: StoredDelivery) -> dict[str, bool]:
    return {
        "version": report.version == known["version"],
        "sequence": report.sequence == known.get("reportSequence"),
        "payload": report.payload == known["payload"],
    }


def _refuse_other(report: Report, sequence: int, same: Mapping[str, bool]) -> None:
    """Raise an error if the key belongs to a report with other data: ignoring this one would lose an update."""
    differs = [name for name, equal in same.items() if not equal]
    if differs:
        raise KeyReusedError(
            f"the key {report.key!r} was used for version {sequence} of '{report.asset_id}' with another"
            f" {' and '.join(differs)}",
            hint="a repeated report must be equal to the first; give a new report another key",
        )


def _as_row(known: StoredDelivery) -> Row:
    """Return the columns of the snapshot that the delivery got, which may be forgotten."""
    return {
        "sequence": known["sequence"],
        "data_version": deliveries.data_version(known["number"]),
        "delivery": known["number"],
        "changed": True,
        "late": False,
        "event_id": known["eventId"],
    }


def _source(connection: Connection, asset_id: str) -> TargetAsset:
    asset = find_asset(connection, asset_id)
    if asset["producer_id"] is not None:
        raise ConflictError(
            f"asset '{asset_id}' is produced by workflow '{asset['slug']}'; only sources are reported",
            hint=f"run it with `freshline run {asset['slug']}`",
        )
    return asset


def _next_delivery(connection: Connection, asset: Row, report: Report) -> int | None:
    if not deliveries.is_append(asset["declaration"]):
        return None
    deliveries.require_path(report.asset_id, asset["declaration"], report.payload)
    return deliveries.next_number(connection, report.asset_id, report.partition_key)


def _delivery(report: Report, row: Json) -> StoredDelivery:
    return {
        "number": row["delivery"],
        "path": (row["location"] or {}).get("path"),
        "version": report.version,
        "payload": report.payload,
        "sequence": row["sequence"],
        "reportSequence": report.sequence,
        "key": report.key,
        "reportedAt": row["produced_at"],
        "eventId": row["event_id"],
    }


def _snapshot_row(asset: Row, report: Report, head: Row | None, delivery: int | None, now: str) -> Json:
    sequence = (head["last_sequence"] if head else 0) + 1
    data_version = report.version or f"seq:{sequence}"
    if delivery is not None:
        data_version = deliveries.data_version(delivery)
    given, last = report.sequence, head["report_sequence"] if head else None
    # A delivery adds to the others, in whatever order they come.
    late = delivery is None and given is not None and last is not None and given < last
    return {
        "asset_id": asset["id"],
        "partition_key": report.partition_key,
        "sequence": sequence,
        "data_version": data_version,
        # A late report is not a pending change (docs/semantics.md#R4.5, docs/semantics.md#R5.4).
        "changed": not late and (head is None or head["data_version"] != data_version),
        "late": late,
        "location": _location(asset, report),
        "produced_at": now,
        "payload": report.payload,
        "event_id": report.event_id,
        "report_key": report.key,
        "report_sequence": given,
        "delivery": delivery,
        "group": report.group,
    }


def _location(asset: Row, report: Report) -> Json | None:
    """Return the location of this version: `payload.path` overrides the declared path (docs/semantics.md#R3.1)."""
    declaration = asset["declaration"]
    declared = declaration.get("location") or {}
    path = _path(report)
    if path is None or path == "":
        return _of_partition(declared, report.partition_key) or None
    if asset["source_project"] is None:
        raise UsageError(
            f"asset '{asset['id']}' is not a declared source, so its report cannot name a payload.path",
            hint=f"declare it in sources/ with `assetId: {asset['id']}`, and 'path' or 'allow' for where its data is",
        )
    named = AllowedPaths.of(declaration, root=report.root).resolve(path)
    return {"format": "parquet", **declared, "path": str(named)}


def _of_partition(declared: Json, key: str) -> Json:
    """Return the declared location of a partition: `{partitionKey}` in its path is the key, percent-encoded."""
    if not key or "path" not in declared:
        return dict(declared)
    return {**declared, "path": declared["path"].replace(PARTITION, encode_for_path(key))}


def _path(report: Report) -> str | None:
    """Return the path that the report names, as it was sent."""
    return report.payload.get("path") if isinstance(report.payload, dict) else None


def retried(write: Callable[[], T]) -> T:
    """Call `write` again when a concurrent write of the same rows or of the same key was faster."""
    for _ in range(TRIES):
        # Two first reports of an asset at once, or two requests with one key: the second try finds the first.
        with suppress(psycopg.errors.UniqueViolation):
            return write()
    return write()


def check_payload(payload: Any) -> None:
    """Raise an error if the payload is too large."""
    size = len(json.dumps(payload))
    if size > MOST_PAYLOAD:
        raise UsageError(f"the payload has {size} bytes; allowed are {MOST_PAYLOAD}; put the data into a file")


def _reported(report: Report, row: Row, *, duplicate: bool, warnings: Sequence[str] = ()) -> Reported:
    return {
        "assetId": report.asset_id,
        "partitionKey": report.partition_key,
        "version": row["sequence"],
        "dataVersion": row["data_version"],
        "changed": row["changed"],
        "duplicate": duplicate,
        "movedHead": not duplicate and not row["late"],
        "delivery": row["delivery"],
        "eventId": row["event_id"],
        "warnings": list(warnings),
    }
