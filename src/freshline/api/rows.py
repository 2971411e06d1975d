"""`/assets/{assetId}/rows`: the first rows of a table, for callers with the scope `data`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import structlog
from fastapi import APIRouter, Query

from freshline.api import models
from freshline.api.assets import AssetId, Version
from freshline.api.auth import RequireData
from freshline.api.pagination import Partition, UnvalidatedRoute
from freshline.api.problems import RequestError
from freshline.api.workflows import StoreDep
from freshline.errors import UsageError, WarehouseError
from freshline.model.documents.asset import Rows, Snapshot
from freshline.storage.preview import preview

MOST_ROWS = 100
AT_ONCE = 2
WAIT_S = 5.0
log = structlog.get_logger("freshline.api")
router = APIRouter(tags=["assets"], route_class=UnvalidatedRoute)
_slots = threading.BoundedSemaphore(AT_ONCE)
MostRows = Annotated[int, Query(ge=1, le=MOST_ROWS, description="Maximum number of rows.")]


@router.get("/assets/{assetId}/rows", response_model=models.Rows)
def list_rows(
    _: RequireData,
    store: StoreDep,
    assetId: AssetId,
    version: Version = None,
    partitionKey: Partition = None,
    limit: MostRows = MOST_ROWS,
) -> Rows:
    """Return the first rows of the table of an asset, as texts of up to 500 characters, and up to 100 columns.

    Of an asset with partitions `version` is one of its table. Without `partitionKey` the first partitions are read.
    """
    snapshot = store.reader.snapshot(assetId, version, partition=partitionKey)
    _check_table(snapshot)
    with _slot():
        try:
            found = preview(store.settings.warehouse_at, snapshot, limit)
        except (WarehouseError, UsageError, OSError) as error:
            # The text of the error may contain values, and names of other places.
            log.warning("rows_unreadable", asset=assetId, version=snapshot["version"], error=str(error))
            named = f"version {snapshot['version']} of '{assetId}'"
            text = f"the rows of {named} cannot be read; the log of the API says why"
            raise RequestError(503, "rows-unreadable", text) from None
    return {
        "assetId": assetId,
        "partitionKey": snapshot["partitionKey"],
        "version": snapshot["version"],
        "tableVersion": snapshot["tableVersion"],
        "columns": [{"name": name, "type": kind} for name, kind in found.columns],
        "rows": found.rows,
        "truncated": found.truncated,
        "cut": found.cut,
    }


def _check_table(snapshot: Snapshot) -> None:
    """Raise a problem unless the rows are in a table of the warehouse."""
    location, named = snapshot["location"], f"version {snapshot['version']} of '{snapshot['assetId']}'"
    if location is None:
        raise RequestError(409, "no-table", f"{named} has no table, only a payload")
    if "paths" not in location or snapshot["tableVersion"] is None:
        raise RequestError(409, "no-table", f"{named} is outside the warehouse; its files are not read")


@contextmanager
def _slot() -> Iterator[None]:
    """Let only a few requests read at once."""
    if not _slots.acquire(timeout=WAIT_S):
        raise RequestError(429, "rows-busy", f"{AT_ONCE} other requests read rows; try again")
    try:
        yield
    finally:
        _slots.release()
