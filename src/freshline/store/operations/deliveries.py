"""Deliveries of append sources: each report adds one, and a snapshot includes all up to a number.

See docs/semantics.md#R3.4.

The number is the position that consumers pin and remember. It is part of the data version, so a position never depends
on whether an old snapshot was forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from psycopg.types.json import Jsonb

from freshline.errors import NotFoundError, UsageError
from freshline.model.documents.asset import StoredDelivery
from freshline.model.json import Json
from freshline.store.db.database import Connection
from freshline.store.db.queries import load
from freshline.store.operations import audit

SQL = load("operations")
VERSION = "delivery:{}"


def is_append(declaration: Json) -> bool:
    """Return whether each report of the source adds a delivery."""
    return bool(declaration.get("mode") == "append")


def data_version(number: int) -> str:
    """Return the data version of a source whose newest delivery has this number."""
    return VERSION.format(number)


def find(connection: Connection, asset_id: str, partition_key: str, key: str) -> StoredDelivery | None:
    """Return the delivery that was reported with this key, however long ago."""
    where = {"asset": asset_id, "partition": partition_key, "key": key}
    row = connection.execute(SQL["delivered"], where).fetchone()
    return cast("StoredDelivery", row["item"]) if row else None


def next_number(connection: Connection, asset_id: str, partition_key: str) -> int:
    """Return the number of the next delivery. The head must be locked."""
    row = connection.execute(SQL["last_delivery"], {"asset": asset_id, "partition": partition_key}).fetchone()
    return 1 + (row["last_number"] if row else 0)


def find_all(
    connection: Connection, asset_id: str, partition_key: str, keys: Sequence[str]
) -> dict[str, StoredDelivery]:
    """Return the deliveries that were reported with these keys, however long ago, by key."""
    where = {"asset": asset_id, "partition": partition_key, "keys": list(keys)}
    rows = connection.execute(SQL["delivered_all"], where).fetchall()
    return {row["item"]["key"]: cast("StoredDelivery", row["item"]) for row in rows}


def add(connection: Connection, asset_id: str, partition_key: str, new: Sequence[StoredDelivery]) -> None:
    """Store deliveries, each in a row of its own: compaction joins them later."""
    where = {"asset": asset_id, "partition": partition_key}
    connection.execute(SQL["add_deliveries"], {**where, "items": Jsonb(list(new))})


def locked(connection: Connection, asset_id: str, partition_key: str, number: int) -> StoredDelivery:
    """Return a delivery, locked. The lock of the head makes sure that compaction does not move it meanwhile."""
    connection.execute(SQL["lock_head"], {"asset": asset_id, "partition": partition_key})
    where = {"asset": asset_id, "partition": partition_key, "number": number}
    row = connection.execute(SQL["lock_delivery"], where).fetchone()
    if row is None:
        raise NotFoundError(
            f"source '{asset_id}' has no delivery {number}", hint=f"`freshline delivery list {asset_id}` lists them"
        )
    return cast("StoredDelivery", row["item"])


def skip(connection: Connection, asset_id: str, partition_key: str, number: int, reason: str) -> None:
    """Leave a locked delivery out for the consumers that have not read it."""
    where = {"asset": asset_id, "partition": partition_key, "number": number}
    with audit.changing(connection, "skip_delivery", asset_id, "delivery_state", asset_id) as facts:
        connection.execute(SQL["skip_delivery"], {**where, "by": audit.actor_name(), "reason": reason})
        facts |= {"number": number, "reason": reason}


def require_path(asset_id: str, declaration: Json, payload: object) -> None:
    """Raise an error if the source has files, and the report does not say which one it adds."""
    named = payload.get("path") if isinstance(payload, dict) else None
    if declaration.get("location") and not named:
        raise UsageError(
            f"the report of '{asset_id}' names no file; each report of a source with 'mode: append' adds one",
            hint=f'name it: `freshline report {asset_id} --payload \'{{"path": "..."}}\'`',
        )
