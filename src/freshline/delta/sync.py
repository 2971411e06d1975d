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
    """A version in the database. `unsupported`: why it cannot be in a Delta log. `is_first`: of its partition."""

    version: TableVersion
    deleted: bool
    unsupported: str | None
    is_first: bool

    @property
    def is_shown(self) -> bool:
        """Whether the log has to describe it.

        A partition whose files were deleted is described: without it, later versions of other partitions would
        silently lack it. Who reads such a version gets an error.
        """
        return not self.unsupported and (bool(self.version.key) or not self.deleted)


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
        divided = former is not None and bool(former.key or now.version.key)
        if former is not None and divided and former.layout != now.version.layout:
            self.rebuild(one)
            return
        replaced: dict[str, int] = {}
        if former is not None and now.version.base == one.number:
            replaced = _replaced(one, now.version)
        target.write(one.number, commit(one.asset_id, former, now.version, replaced))
        if one.number and one.number % CHECKPOINT_EVERY == 0:
            target.checkpoint()

    def rebuild(self, one: Unlogged) -> None:
        """Make the log describe all versions up to this one. Others may read it meanwhile."""
        stored = _stored(one, 0, one.number)
        first = _first_whole(stored)
        shown = {number: found for number, found in stored.items() if found.is_shown and number >= first}
        if shown:
            commits = dict(_commits(one, stored, shown))
            repair(DeltaLog(self._storage, one.asset_id), commits, required=shown.keys())


def _commits(
    one: Unlogged, stored: Mapping[int, StoredVersion], shown: Mapping[int, StoredVersion]
) -> Iterator[tuple[int, list[Action]]]:
    """Yield the commits of all versions; those that are not shown get placeholders."""
    first = shown[min(shown)].version
    before: TableVersion | None = None
    active: dict[str, Mapping[str, int]] = {}  # by partition
    unwritten = _parts_before(stored, first)
    for number in range(one.number + 1):
        if number not in shown:
            yield number, placeholder(one.asset_id, number, first)
            before = before or first
            continue
        version = shown[number].version
        whole = dataclasses.replace(version, files=_files(stored, version))
        if active and before is not None and before.layout != version.layout:
            replaced = {path: size for files in active.values() for path, size in files.items()}
            active = {}
        else:
            replaced = dict(active.get(version.key, {}))
        active |= {**unwritten, version.key: whole.files}
        added = {path: size for files in unwritten.values() for path, size in files.items()}
        yield number, commit(one.asset_id, before, dataclasses.replace(whole, files={**added, **whole.files}), replaced)
        before, unwritten = whole, {}


def _first_whole(stored: Mapping[int, StoredVersion]) -> int:
    """Return the first version of which every partition is known; the database forgets old ones.

    The first version of a partition has the sequence 1. If a partition begins later, versions before lack it.
    """
    oldest: dict[str, StoredVersion] = {}
    for _, found in sorted(stored.items()):
        oldest.setdefault(found.version.key, found)
    return max((one.version.number for key, one in oldest.items() if key and not one.is_first), default=0)


def _parts_before(stored: Mapping[int, StoredVersion], first: TableVersion) -> dict[str, Mapping[str, int]]:
    """Return the files of the other partitions that the first version that is shown consists of."""
    earlier = (one.version for number, one in sorted(stored.items()) if number < first.number and one.version.key)
    parts = {one.key: _files(stored, one) for one in earlier if one.layout == first.layout}
    return {key: files for key, files in parts.items() if key != first.key}


def _files(stored: Mapping[int, StoredVersion], version: TableVersion) -> dict[str, int]:
    """Return all files of a version of a partition, those of the versions it appends to included."""
    chain = (stored[n].version for n in range(version.base, version.number + 1) if n in stored)
    return {path: size for one in chain if one.key == version.key for path, size in one.files.items()}


def _replaced(one: Unlogged, now: TableVersion) -> dict[str, int]:
    """Return the files of the version before, of the same partition."""
    rows = stored_versions(one.asset_id, one.table_at(one.number - 1, now.key)).values()
    same = (found.version for found in rows if found.version.layout == now.layout or not now.key)
    return {path: size for version in same for path, size in version.files.items()}


def _contains(target: DeltaLog, number: int) -> bool:
    return target.has(number) and not target.is_empty(number) and not target.has_repair_marker()


def _stored(one: Unlogged, first: int, last: int) -> dict[int, StoredVersion]:
    return stored_versions(one.asset_id, one.versions(first, last))


def stored_versions(asset_id: str, rows: Iterable[Json]) -> dict[int, StoredVersion]:
    """Return the versions of a table by number, from their rows in the database."""
    found = {}
    for row in rows:
        location, key = row["location"] or {}, row["partition_key"]
        schema = location.get("tableSchema") or row["schema"] or {}
        columns = (*location.get("partition", {}).get("columns", {}), *location.get("partitionBy", ()))
        files = {path.removeprefix(f"{asset_id}/"): size for path, size in location.get("files", {}).items()}
        version = TableVersion(
            number=row["table_version"],
            base=row["base_version"],
            sequence=row["table_version"] if key else row["sequence"],  # each partition has its own sequence
            produced_at=row["produced_at"],
            schema=schema,
            partition_by=columns,
            files=files,
            key=key,
        )
        unsupported = unsupported_reason(schema) if "files" in location else "its files are outside of the warehouse"
        first = row["sequence"] == 1
        found[version.number] = StoredVersion(version, row["gone_at"] is not None, unsupported, first)
    return found
