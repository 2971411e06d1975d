"""Brings the Delta logs of tables up to what the database says (R9.7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import structlog

from freshline.delta.log import (
    CHECKPOINT_EVERY,
    Action,
    DeltaLog,
    TableVersion,
    commit,
    placeholder,
    unsupported_reason,
)
from freshline.delta.repair import repair
from freshline.storage.base import Storage
from freshline.store.tables.versions import Unlogged

log = structlog.get_logger("freshline.warehouse")
Row = Mapping[str, Any]
Commit = tuple[int, list[Action]]


class DeltaSync:
    """The logs of all tables of a warehouse. Its methods are what `Store.log_table` and `Store.relog_table` call."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def append(self, one: Unlogged) -> None:
        """Add one version. Where what came before is not in the log as it was, the log is written anew."""
        rows = {row["table_version"]: row for row in one.versions(one.number - 1, one.number)}
        now, before = rows.get(one.number), rows.get(one.number - 1)
        if now is None:  # forgotten before it was logged
            return
        target = DeltaLog(self._storage, one.asset_id)
        if why := _refused(now):
            log.info("table_not_in_delta", asset=one.asset_id, version=one.number, why=why)
        if why or (one.number > 0 and not _follows(target, before)):
            self.rebuild(one)
            return
        appended = now["base_version"] < one.number
        replaced = {} if appended or before is None else _chain(one, before)
        version = _version(one.asset_id, now)
        former = _version(one.asset_id, before) if before is not None else None
        target.write(one.number, commit(one.asset_id, former, version, replaced))
        if one.number and one.number % CHECKPOINT_EVERY == 0:
            target.checkpoint()

    def rebuild(self, one: Unlogged) -> None:
        """Have the log say what the database does, from the first version to this one. Others may read it meanwhile."""
        rows = one.versions(0, one.number)
        shown = [row for row in rows if not _refused(row) and row["gone_at"] is None]
        if shown:
            told = {row["table_version"]: row for row in shown}
            repair(DeltaLog(self._storage, one.asset_id), dict(_commits(one, rows, told)), told.keys())


def _commits(one: Unlogged, rows: Iterable[Row], told: Mapping[int, Row]) -> Iterator[Commit]:
    """The commits of all versions; those that are gone, or cannot be in Delta, are empty."""
    known, first = {row["table_version"]: row for row in rows}, _version(one.asset_id, told[min(told)])
    before: TableVersion | None = None
    active: dict[str, int] = {}
    for number in range(one.number + 1):
        row = told.get(number)
        if row is None:
            yield number, placeholder(one.asset_id, number, first)
            before = before or first
            continue
        whole = TableVersion(**{**_fields(one.asset_id, row), "files": _files(one, known, row)})
        yield number, commit(one.asset_id, before, whole, active)
        before, active = whole, dict(whole.files)


def _files(one: Unlogged, known: Mapping[int, Row], row: Row) -> dict[str, int]:
    chain = range(row["base_version"], row["table_version"] + 1)
    return {path: size for n in chain if n in known for path, size in _own(one.asset_id, known[n]).items()}


def _chain(one: Unlogged, row: Row) -> dict[str, int]:
    rows = one.versions(row["base_version"], row["table_version"])
    return {path: size for each in rows for path, size in _own(one.asset_id, each).items()}


def _follows(target: DeltaLog, before: Row | None) -> bool:
    if before is None:
        return False
    number = before["table_version"]
    return target.has(number) and not target.is_empty(number) and not target.is_unfinished()


def _refused(row: Row) -> str | None:
    return unsupported_reason(row["schema"]) if "files" in (row["location"] or {}) else "its files are not ours"


def _version(asset_id: str, row: Row) -> TableVersion:
    return TableVersion(**_fields(asset_id, row))


def _fields(asset_id: str, row: Row) -> dict[str, Any]:
    return {
        "number": row["table_version"],
        "base": row["base_version"],
        "sequence": row["sequence"],
        "produced_at": row["produced_at"],
        "schema": row["schema"],
        "partition_by": tuple(row["location"].get("partitionBy", ())),
        "files": _own(asset_id, row),
    }


def _own(asset_id: str, row: Row) -> dict[str, int]:
    """The files of one version, as seen from the table's directory."""
    files = (row["location"] or {}).get("files", {})
    return {path.removeprefix(f"{asset_id}/"): size for path, size in files.items()}
