"""Brings the Delta logs of tables up to what the database says (docs/semantics.md#R9.7)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

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
from freshline.model.json import Json
from freshline.storage.base import Storage
from freshline.store.tables.versions import Unlogged

log = structlog.get_logger("freshline.warehouse")


class StoredVersion(NamedTuple):
    """A version in the database. `unsupported`: why it cannot be in a Delta log."""

    version: TableVersion
    deleted: bool
    unsupported: str | None

    @property
    def is_shown(self) -> bool:
        """Whether the log has to describe it."""
        return not self.unsupported and not self.deleted


class DeltaSync:
    """The logs of all tables of a warehouse. `Store.log_table` and `Store.relog_table` call its methods."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def append(self, one: Unlogged) -> None:
        """Add one version to the log. If the version before is missing there, write the whole log."""
        stored = _stored(one, one.number - 1, one.number)
        now, before = stored.get(one.number), stored.get(one.number - 1)
        if now is None:  # pruned before it was logged
            return
        target = DeltaLog(self._storage, one.asset_id)
        if now.unsupported:
            log.info("table_not_in_delta", asset=one.asset_id, version=one.number, why=now.unsupported)
        if now.unsupported or (one.number > 0 and not (before and _contains(target, one.number - 1))):
            self.rebuild(one)
            return
        former = before.version if before else None
        replaced: dict[str, int] = {}
        if former is not None and now.version.base == one.number:
            replaced = _files(_stored(one, former.base, former.number), former)
        target.write(one.number, commit(one.asset_id, former, now.version, replaced))
        if one.number and one.number % CHECKPOINT_EVERY == 0:
            target.checkpoint()

    def rebuild(self, one: Unlogged) -> None:
        """Make the log describe all versions up to this one. Others may read it meanwhile."""
        stored = _stored(one, 0, one.number)
        shown = {number: found for number, found in stored.items() if found.is_shown}
        if shown:
            commits = dict(_commits(one, stored, shown))
            repair(DeltaLog(self._storage, one.asset_id), commits, required=shown.keys())


def _commits(
    one: Unlogged, stored: Mapping[int, StoredVersion], shown: Mapping[int, StoredVersion]
) -> Iterator[tuple[int, list[Action]]]:
    """Yield the commits of all versions; those that are not shown get placeholders."""
    first = shown[min(shown)].version
    before: TableVersion | None = None
    active: Mapping[str, int] = {}
    for number in range(one.number + 1):
        if number not in shown:
            yield number, placeholder(one.asset_id, number, first)
            before = before or first
            continue
        version = shown[number].version
        whole = dataclasses.replace(version, files=_files(stored, version))
        yield number, commit(one.asset_id, before, whole, active)
        before, active = whole, whole.files


def _files(stored: Mapping[int, StoredVersion], version: TableVersion) -> dict[str, int]:
    """Return all files of a version, those of the versions it appends to included."""
    chain = range(version.base, version.number + 1)
    return {path: size for n in chain if n in stored for path, size in stored[n].version.files.items()}


def _contains(target: DeltaLog, number: int) -> bool:
    return target.has(number) and not target.is_empty(number) and not target.has_repair_marker()


def _stored(one: Unlogged, first: int, last: int) -> dict[int, StoredVersion]:
    return stored_versions(one.asset_id, one.versions(first, last))


def stored_versions(asset_id: str, rows: Iterable[Json]) -> dict[int, StoredVersion]:
    """Return the versions of a table by number, from their rows in the database."""
    found = {}
    for row in rows:
        location, schema = row["location"] or {}, row["schema"] or {}
        files = {path.removeprefix(f"{asset_id}/"): size for path, size in location.get("files", {}).items()}
        version = TableVersion(
            number=row["table_version"],
            base=row["base_version"],
            sequence=row["sequence"],
            produced_at=row["produced_at"],
            schema=schema,
            partition_by=tuple(location.get("partitionBy", ())),
            files=files,
        )
        unsupported = unsupported_reason(schema) if "files" in location else "its files are outside of the warehouse"
        found[version.number] = StoredVersion(version, row["gone_at"] is not None, unsupported)
    return found
