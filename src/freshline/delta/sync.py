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
    """A version in the database.

    `unsupported`: why it cannot be in a Delta log. `first_of`: the partitions of which it is the first version.
    """

    version: TableVersion
    deleted: bool
    unsupported: str | None
    first_of: frozenset[str]

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
        parts = {key: _files(stored, version, key) for key in version.by_partition}
        whole = dataclasses.replace(version, files=_joined(parts.values()), parts=parts)
        if active and before is not None and before.layout != version.layout:
            replaced = _joined(active.values())
            active = {}
        else:
            replaced = _joined(active.get(key, {}) for key in parts)
        active |= {**unwritten, **parts}
        added = _joined(unwritten.values())
        yield number, commit(one.asset_id, before, dataclasses.replace(whole, files={**added, **whole.files}), replaced)
        before, unwritten = whole, {}


def _first_whole(stored: Mapping[int, StoredVersion]) -> int:
    """Return the first version of which every partition is known; the database forgets old ones.

    The first version of a partition has the sequence 1. If a partition begins later, versions before lack it.
    """
    oldest: dict[str, StoredVersion] = {}
    for _, found in sorted(stored.items()):
        for key in found.version.by_partition:
            oldest.setdefault(key, found)
    return max((one.version.number for key, one in oldest.items() if key and key not in one.first_of), default=0)


def _parts_before(stored: Mapping[int, StoredVersion], first: TableVersion) -> dict[str, Mapping[str, int]]:
    """Return the files of the other partitions that the first version that is shown consists of."""
    earlier = (one.version for number, one in sorted(stored.items()) if number < first.number and one.version.key)
    parts = {key: _files(stored, one, key) for one in earlier if one.layout == first.layout for key in one.by_partition}
    return {key: files for key, files in parts.items() if key not in first.by_partition}


def _files(stored: Mapping[int, StoredVersion], version: TableVersion, key: str) -> dict[str, int]:
    """Return all files of a partition in a version of it, those of the versions it appends to included."""
    chain = (stored[n].version for n in range(version.base, version.number + 1) if n in stored)
    return _joined(one.by_partition.get(key, {}) for one in chain)


def _joined(files: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return {path: size for some in files for path, size in some.items()}


def _replaced(one: Unlogged, now: TableVersion) -> dict[str, int]:
    """Return the files that the same partitions had in the version before."""
    found = [stored_versions(one.asset_id, one.table_at(one.number - 1, key)).values() for key in now.by_partition]
    same = (each.version for rows in found for each in rows if each.version.layout == now.layout or not now.key)
    return _joined(version.files for version in same)


def _contains(target: DeltaLog, number: int) -> bool:
    return target.has(number) and not target.is_empty(number) and not target.has_repair_marker()


def _stored(one: Unlogged, first: int, last: int) -> dict[int, StoredVersion]:
    return stored_versions(one.asset_id, one.versions(first, last))


def stored_versions(asset_id: str, rows: Iterable[Json]) -> dict[int, StoredVersion]:
    """Return the versions of a table by number, from their rows: of one version, one row for each partition."""
    found: dict[int, StoredVersion] = {}
    for row in rows:
        one = _stored_version(asset_id, row)
        before = found.get(one.version.number)
        found[one.version.number] = one if before is None else _together(before, one)
    return found


def _stored_version(asset_id: str, row: Json) -> StoredVersion:
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
        removed=row["retired"],
    )
    unsupported = unsupported_reason(schema) if "files" in location else "its files are outside of the warehouse"
    first = frozenset({key}) if row["sequence"] == 1 else frozenset[str]()
    return StoredVersion(version, row["gone_at"] is not None, unsupported, first)


def _together(some: StoredVersion, more: StoredVersion) -> StoredVersion:
    """Return a version of several partitions: a batch is published as one."""
    parts = {**some.version.by_partition, **more.version.by_partition}
    version = dataclasses.replace(some.version, files=_joined(parts.values()), parts=parts)
    return StoredVersion(
        version, some.deleted or more.deleted, some.unsupported or more.unsupported, some.first_of | more.first_of
    )
