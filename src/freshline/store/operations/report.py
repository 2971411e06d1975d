"""What the outside says about assets: report and expire."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import psycopg

from freshline.errors import ConflictError, UsageError
from freshline.model.enums import EventType
from freshline.model.moment import iso
from freshline.store.db.commit_outcome import certain
from freshline.store.db.database import Connection, Database
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.operations import audit
from freshline.store.read.resolve import find_asset, refuse_partition
from freshline.store.runs import publish

SQL = load("operations")
DB = load("db")
MOST_PAYLOAD = 256 * 1024
TRIES = 5
T = TypeVar("T")


class Reporting:
    """What is said about assets from outside."""

    database: Database

    def report(
        self,
        asset_id: str,
        *,
        version: str | None = None,
        key: str | None = None,
        sequence: int | None = None,
        payload: Any = None,
        partition_key: str = "",
    ) -> dict[str, Any]:
        """The outside changed a source asset (R3.3). A duplicate `key` changes nothing."""
        refuse_partition(partition_key)
        _check_payload(payload)
        report = {"version": version, "key": key, "sequence": sequence, "payload": payload, "event_id": new_id()}

        def write(again: bool) -> dict[str, Any]:
            with self.database.transaction("report") as connection:
                return _report(connection, asset_id, partition_key, {**report, "again": again})

        result = certain(lambda again: _repeated(lambda: write(again)))
        if not result["duplicate"]:
            self.database.ring("events")
        return result

    def expire(self, asset_id: str, partition_key: str = "") -> dict[str, Any]:
        """As if the asset's freshness had run out."""
        refuse_partition(partition_key)
        with self.database.transaction("expire") as connection:
            asset = find_asset(connection, asset_id)
            if asset["producer_id"] is None:
                raise ConflictError(f"asset '{asset_id}' is a source and has no freshness; report it instead")
            with audit.changing(connection, "expire", asset_id, "timer_state", asset_id):
                row = connection.execute(SQL["expire_now"], {"asset": asset_id, "partition": partition_key}).fetchone()
        self.database.ring("timers")
        return {"assetId": asset_id, "partitionKey": partition_key, "expiresAt": iso(row["due_at"] if row else None)}


def _report(connection: Connection, asset_id: str, partition_key: str, report: Mapping[str, Any]) -> dict[str, Any]:
    asset = _source(connection, asset_id)
    where = {"asset": asset_id, "partition": partition_key}
    head = connection.execute(SQL["lock_head"], where).fetchone()
    if report["key"] is not None or report["again"]:
        query = SQL["reported_again" if report["again"] else "reported"]
        keys = {"key": report["key"], "event": report["event_id"]}
        known = connection.execute(query, {**where, **keys}).fetchone()
        if known:
            return _reported(asset_id, known, duplicate=known["event_id"] != report["event_id"])
    row = _report_row(connection, asset, partition_key, report, head)
    data = publish.produced_data(row, None, None, None)
    # A late report moves nothing, so nobody has to look.
    kind = None if row["late"] else ("changed" if row["changed"] else "unchanged")
    event = publish.asset_event(row["event_id"], EventType.ASSET_PRODUCED, data, kind)
    published = publish.Published(row, event, (), None)
    with audit.changing(connection, "report", asset_id, "head_state", asset_id):
        publish.append(connection, [published], late=row["late"])
    return _reported(asset_id, row, duplicate=False)


def _source(connection: Connection, asset_id: str) -> dict[str, Any]:
    asset = find_asset(connection, asset_id)
    if asset["producer_id"] is not None:
        raise ConflictError(
            f"asset '{asset_id}' is produced by workflow '{asset['slug']}'; only sources are reported",
            hint=f"run it with `freshline run {asset['slug']}`",
        )
    return asset


def _report_row(
    connection: Connection,
    asset: Mapping[str, Any],
    partition_key: str,
    report: Mapping[str, Any],
    head: Mapping[str, Any] | None,
) -> dict[str, Any]:
    moment = connection.execute(DB["now"]).fetchone()
    assert moment is not None  # noqa: S101 - it is one value
    sequence = (head["last_sequence"] if head else 0) + 1
    data_version = report["version"] or f"seq:{sequence}"
    given, last = report["sequence"], head["report_sequence"] if head else None
    late = given is not None and last is not None and given < last
    return {
        "asset_id": asset["id"],
        "partition_key": partition_key,
        "sequence": sequence,
        "data_version": data_version,
        # A late report moves no head: it must not count as a change that is pending (R4.5, R5.4).
        "changed": not late and (head is None or head["data_version"] != data_version),
        "late": late,
        "location": _location(asset["declaration"].get("location"), report["payload"]),
        "produced_at": moment["now"].isoformat(),
        "payload": report["payload"],
        "event_id": report["event_id"],
        "report_key": report["key"],
        "report_sequence": given,
    }


def _location(declared: Mapping[str, Any] | None, payload: Any) -> dict[str, Any] | None:
    """Where the data of this version is: `payload.path` wins over the declared path (R3.1)."""
    path = payload.get("path") if isinstance(payload, dict) else None
    if not path:
        return dict(declared) if declared else None
    return {"format": "parquet", **(declared or {}), "path": str(path)}


def _repeated(write: Callable[[], T]) -> T:
    for _ in range(TRIES):
        # Two first reports at once: the second one finds the first one's rows when it looks again.
        with suppress(psycopg.errors.UniqueViolation):
            return write()
    return write()


def _check_payload(payload: Any) -> None:
    size = len(json.dumps(payload))
    if size > MOST_PAYLOAD:
        raise UsageError(f"the payload has {size} bytes; allowed are {MOST_PAYLOAD}; put the data into a file")


def _reported(asset_id: str, row: Mapping[str, Any], *, duplicate: bool) -> dict[str, Any]:
    return {
        "assetId": asset_id,
        "sequence": row["sequence"],
        "dataVersion": row["data_version"],
        "changed": row["changed"],
        "duplicate": duplicate,
        "movedHead": not duplicate and not row["late"],
        "eventId": row["event_id"],
    }
