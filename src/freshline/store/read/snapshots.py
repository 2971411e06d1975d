"""Reads the snapshots of assets: of one partition, or of all partitions of a table as one."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Any

from freshline.errors import NotFoundError, UsageError
from freshline.model.documents.asset import Location, Snapshot
from freshline.model.json import Json
from freshline.model.state import reference
from freshline.plural import counted
from freshline.storage.layout import rows_at
from freshline.store.read import resolve
from freshline.store.read.resolve import PartitionKey
from freshline.store.read.session import ReadSession

MOST_PARTITIONS = 10_000
"""How many partitions of a table are read as one."""


def listed(
    session: ReadSession,
    asset: str,
    limit: int,
    *,
    before: int | None,
    partition: PartitionKey | None,
    changed: bool = False,
) -> list[Snapshot]:
    """List the snapshots of an asset, of all its partitions or of one.

    `before`: only versions lower than this one. `changed`: only those with other data than the one before.
    """
    key = resolve.partition_key(session, partition, resolve.asset(session, asset)["assetId"], None)
    return _read(session, asset, limit=limit, before=before, partition=key, changed=changed)


def found(session: ReadSession, asset: str, version: int | None, *, partition: PartitionKey | None) -> Snapshot:
    """Return a snapshot of an asset: the given version, or the current one.

    Versions of an asset with partitions are those of its table. Without a key all partitions are one snapshot.
    """
    partitioning = resolve.asset(session, asset)["partitioning"]
    if partitioning is not None and not partition:
        return _whole(session, asset, version)
    key = resolve.partition_key(session, partition or "", asset, None) or ""
    where: Json = {"partition": key, "head": version is None}
    where["table_version" if key else "version"] = version
    name, rows = reference(asset, key), _read(session, asset, **where)
    if rows and not (key and rows[0]["location"] is None and rows[0]["tableVersion"] is not None):
        return rows[0]
    newest = _read(session, asset, partition=key)
    if not newest:
        raise NotFoundError(f"asset {name!r} was never produced", hint=f"`freshline why {asset}` says why")
    if rows or version is None:
        raise NotFoundError(f"partition {name!r} was removed by retention", hint="name an earlier version of the table")
    if key and newest[0]["tableVersion"] is None:
        raise UsageError(
            f"partition {name!r} has no table, so it has no version {version}", hint="leave the version out"
        )
    number = newest[0]["tableVersion"] if key else newest[0]["version"]
    raise NotFoundError(f"asset {name!r} has no version {version}; the newest is {number}")


def _read(session: ReadSession, asset: str, **filters: Any) -> list[Snapshot]:
    unfiltered = {
        "version": None,
        "head": False,
        "before": None,
        "limit": 1,
        "partition": None,
        "table_version": None,
        "changed": False,
    }
    return session.documents(Snapshot, "snapshots", asset=asset, **{**unfiltered, **filters})


def _whole(session: ReadSession, asset: str, version: int | None) -> Snapshot:
    """Return all partitions of a table as one snapshot, at a version of the table or now."""
    rows = session.rows("table_parts", asset=asset, version=version, limit=MOST_PARTITIONS + 1)
    if not rows:
        if not _read(session, asset):
            raise NotFoundError(f"asset {asset!r} was never produced", hint=f"`freshline why {asset}` says why")
        raise NotFoundError(f"asset {asset!r} has no version {version}; `freshline table versions {asset}` lists them")
    if len(rows) > MOST_PARTITIONS:
        raise UsageError(
            f"asset {asset!r} has more than {counted(MOST_PARTITIONS, 'partition')} with data; at most so many are read"
            " as one",
            hint="name one: --partition KEY",
        )
    last = max(rows, key=lambda row: (row["produced_at"], row["partition_key"]))
    if any("paths" not in (row["location"] or {}) for row in rows):
        raise UsageError(
            f"each partition of asset {asset!r} has data of its own, and no table has all of them",
            hint=f"name one: --partition {quote(last['partition_key'])}",
        )
    gone = [row["partition_key"] for row in rows if row["gone_at"] is not None]
    if gone:
        raise NotFoundError(f"version {version} of {asset!r} is not kept any more: partition {gone[0]!r} was collected")
    [newest] = _read(session, asset, partition=last["partition_key"], version=last["sequence"])
    number = max(row["table_version"] or 0 for row in rows) if version is None else version
    return {
        **newest,
        "partitionKey": "",
        "version": number,
        "tableVersion": number,
        "location": _merged(rows, newest),
        "rows": _sum(rows, "rows"),
        "bytes": _sum(rows, "bytes"),
        "checks": None,
        "difference": None,
        "parts": None,
        "inputs": {},
        "sources": {},
        "payload": None,
        "head": version is None,
    }


def _sum(rows: Sequence[Json], name: str) -> int | None:
    """Return the sum over all partitions; None if one does not know it."""
    values = [row[name] for row in rows]
    return None if None in values else sum(values)


def _merged(rows: Sequence[Json], newest: Snapshot) -> Location:
    """Return the location of all partitions: their directories, and the columns that name them."""
    location: Any = newest["location"]
    paths = [rows_at(row["location"], path) for row in rows for path in _directories(row)]
    merged = {name: value for name, value in location.items() if name in {"format", "partitionBy", "parquet"}}
    if "partition" in location:
        merged["partition"] = {**location["partition"], "directory": ""}  # the paths have it
    merged["paths"] = paths
    whole: Location = merged  # type: ignore[assignment] # a location without what belongs to one partition
    return whole


def _directories(row: Json) -> Sequence[str]:
    return [path for _, path in row["parts"]] if row["parts"] else row["location"]["paths"]
