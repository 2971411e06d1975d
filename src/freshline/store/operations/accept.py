"""Accepts rows that older code made as they are (docs/semantics.md#R9.9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from freshline.errors import ConflictError
from freshline.model.json import Json
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.operations.targets import TargetAsset

SQL = load("operations")


class Accepted(TypedDict):
    """What was accepted: rows of older code, in so many partitions; 0 of an asset without partitions."""

    assetId: str
    rows: int | None
    partitions: int


def accept(connection: Connection, asset: TargetAsset) -> Accepted:
    """Accept the rows of older code of an asset, in all partitions. Raise ConflictError if nothing needs an answer."""
    name = asset["id"]
    if asset["producer_id"] is None:
        raise ConflictError(
            f"asset '{name}' is a source, and no code of Freshline made its rows; nothing needs to be accepted",
            hint=f"`freshline why {name}` shows its state",
        )
    mode = (asset["declaration"].get("table") or {}).get("mode", "overwrite")
    if mode == "overwrite":
        raise ConflictError(
            f"asset '{name}' has table mode 'overwrite': every run computes all rows, so nothing needs to be accepted",
            hint=f"`freshline why {name}` shows its state",
        )
    found = connection.execute(SQL["accept_code"], {"assets": [name]}).fetchall()
    if not any(row["rows"] != 0 for row in found):
        raise ConflictError(
            f"asset '{name}' needs no decision: no rows of older code wait for an answer",
            hint=f"`freshline why {name}` shows its state",
        )
    return {"assetId": name, "rows": _rows(found), "partitions": sum(row["partition_key"] != "" for row in found)}


def event_data(asset: TargetAsset, accepted: Accepted) -> Json:
    """Return the data of the event."""
    return {**accepted, "workflowSlug": asset["slug"], "workflowId": asset["producer_id"]}


def _rows(found: Sequence[Row]) -> int | None:
    rows = [row["rows"] for row in found]
    return None if None in rows else sum(rows)
