"""The Delta log of a table: commits beside the data, so that other engines can read every published version.

A commit is a pure function of a table version and the one before it. The database has both, so the log can be written
again at any time with the same bytes, and a commit that exists is left as it is (ADR 0009).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote
from uuid import NAMESPACE_URL, uuid5

from freshline.errors import WarehouseError
from freshline.model.column_names import SHOWN, is_storable
from freshline.model.json import Json
from freshline.storage.base import Storage

APP = "freshline"
LOG = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"
REPAIR_MARKER = ".freshline-relog"  # a repair is under way, or was killed
CHECKPOINT_EVERY = 100
READERS = 8
PLACEHOLDER = "NONE"  # the operation of a commit without files
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_SIMPLE = frozenset(
    "string long integer short byte float double boolean binary date timestamp timestamp_ntz".split()  # noqa: SIM905
)
_NUMBERED = re.compile(r"\d{20}\.")
_COMMIT = re.compile(r"\d{20}\.json")
Action = Json  # of the Delta protocol


class LogConflictError(WarehouseError):
    """The log already has a different commit of this number."""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One version of a table. `files`: the files it added, as paths below the table's directory, with their sizes.

    `base`: the version where its list of files begins; smaller than `number` if rows were appended.
    `key`: the partition that it replaced or added rows to; empty for a table without partitions. `parts`: its files by
    partition, if there are several: those of a batch are one version. `removed`: retention removed these partitions.
    """

    number: int
    base: int
    sequence: int
    produced_at: datetime
    schema: Json
    partition_by: tuple[str, ...]
    files: Mapping[str, int]
    key: str = ""
    parts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    removed: bool = False

    @property
    def by_partition(self) -> Mapping[str, Mapping[str, int]]:
        """The files that it added to each partition."""
        return self.parts or {self.key: self.files}

    @property
    def layout(self) -> tuple[Any, ...]:
        """What all partitions of a table must have in common: the columns that divide it, with their types."""
        types = {field["name"].lower(): field["type"] for field in self.schema.get("fields", ())}
        return bool(self.key), tuple((name, types.get(name.lower())) for name in self.partition_by)


def unsupported_reason(schema: Json) -> str | None:
    """Return why Delta cannot hold a table with this schema; None if it can."""
    if not schema.get("fields"):
        return "it has no columns"
    return next(_unsupported(schema, ""), None)


def _unsupported(kind: Any, where: str) -> Iterator[str]:
    match kind:
        case {"type": "struct", "fields": fields}:
            for field in fields:
                name = f"{where}{field['name']}"
                if not is_storable(field["name"]):
                    yield f"the name of column {name!r} has one of the characters {SHOWN}"
                yield from _unsupported(field["type"], f"{name}.")
        case {"type": "array", "elementType": element}:
            yield from _unsupported(element, where)
        case {"type": "map", "keyType": key, "valueType": value}:
            yield from _unsupported(key, where)
            yield from _unsupported(value, where)
        case str() if kind in _SIMPLE or kind.startswith("decimal("):
            return
        case _:
            shown = kind if isinstance(kind, str) else kind.get("type")
            yield f"column {where.rstrip('.')!r} has the type {shown}"


def commit(table: str, before: TableVersion | None, now: TableVersion, replaced: Mapping[str, int]) -> list[Action]:
    """Return the actions that lead from one version to the next.

    `replaced`: the files of the version before, or of the partition before, if this one does not append to it. Files of
    both versions are left out: a commit must not add and remove the same file.
    """
    at = int(now.produced_at.timestamp() * 1000)
    mode = "Append" if now.base < now.number else "Overwrite"
    info = {"timestamp": at, "operation": "WRITE", "operationParameters": {"mode": mode}, "engineInfo": APP}
    if now.removed:
        info |= {"operation": "DELETE", "operationParameters": {"predicate": "[]"}}
    actions: list[Action] = [{"commitInfo": info}]
    if before is None or (_has_timestamps_without_zone(now.schema) and not _has_timestamps_without_zone(before.schema)):
        actions.append({"protocol": _protocol(now.schema)})
    if before is None or (before.schema, before.partition_by) != (now.schema, now.partition_by):
        actions.append({"metaData": _metadata(table, now, at)})
    gone = {path: size for path, size in replaced.items() if path not in now.files}
    new = {path: size for path, size in now.files.items() if path not in replaced}
    split_by = before.partition_by if before else ()
    actions += [{"remove": _remove(path, size, at, split_by)} for path, size in sorted(gone.items())]
    actions += [{"add": _add(path, size, at, now.partition_by)} for path, size in sorted(new.items())]
    return [*actions, {"txn": {"appId": APP, "version": now.sequence}}]


def placeholder(table: str, number: int, now: TableVersion) -> list[Action]:
    """Return a commit without files, for a version that was deleted or that Delta cannot hold."""
    at = int(now.produced_at.timestamp() * 1000)
    actions: list[Action] = [{"commitInfo": {"timestamp": at, "operation": PLACEHOLDER, "engineInfo": APP}}]
    if number == 0:
        actions += [{"protocol": _protocol(now.schema)}, {"metaData": _metadata(table, now, at)}]
    return actions


def _protocol(schema: Json) -> Action:
    """Return the protocol versions. Timestamps without a time zone need the newer ones, also of readers."""
    if not _has_timestamps_without_zone(schema):
        return {"minReaderVersion": 1, "minWriterVersion": 2}
    feature = ["timestampNtz"]
    return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": feature, "writerFeatures": feature}


def _has_timestamps_without_zone(schema: Json) -> bool:
    return "timestamp_ntz" in json.dumps(schema)


def _metadata(table: str, version: TableVersion, at: int) -> Action:
    return {
        "id": str(uuid5(NAMESPACE_URL, f"{APP}:{table}")),
        "name": table,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(_nullable(version.schema), separators=(",", ":")),
        "partitionColumns": list(version.partition_by),
        "configuration": {},
        "createdTime": at,
    }


def _nullable(kind: Any) -> Any:
    """Return the type with nulls allowed everywhere: rows that are appended later may contain them."""
    match kind:
        case {"type": "struct", "fields": fields}:
            return {**kind, "fields": [{**one, "type": _nullable(one["type"]), "nullable": True} for one in fields]}
        case {"type": "array", "elementType": element}:
            return {**kind, "elementType": _nullable(element), "containsNull": True}
        case {"type": "map", "keyType": key, "valueType": value}:
            return {**kind, "keyType": _nullable(key), "valueType": _nullable(value), "valueContainsNull": True}
    return kind


def _add(path: str, size: int, at: int, columns: tuple[str, ...]) -> Action:
    return {**_file(path, size, columns), "modificationTime": at}


def _remove(path: str, size: int, at: int, columns: tuple[str, ...]) -> Action:
    return {**_file(path, size, columns), "deletionTimestamp": at, "extendedFileMetadata": True}


def _file(path: str, size: int, columns: tuple[str, ...]) -> Action:
    values = _partition_values(path, columns)
    return {"path": quote(path, safe="/=:"), "partitionValues": values, "size": size, "dataChange": True}


def _partition_values(path: str, columns: tuple[str, ...]) -> dict[str, str | None]:
    """Read the partition values from directory names, as Spark writes them."""
    found = dict(piece.split("=", 1) for piece in path.split("/")[:-1] if "=" in piece)
    values = {unquote(name): None if value == NULL_PARTITION else unquote(value) for name, value in found.items()}
    by_name = {name.lower(): value for name, value in values.items()}
    return {column: by_name[column.lower()] for column in columns}


class DeltaLog:
    """The log of one table."""

    def __init__(self, storage: Storage, table: str) -> None:
        self.storage = storage
        self.table = table
        self.directory = f"{table}/{LOG}"

    @property
    def root(self) -> str:
        """The address of the table, as other readers take it."""
        return self.storage.at(self.table)

    def path(self, number: int) -> str:
        """Return the name of the commit of a version."""
        return f"{self.directory}/{number:020}.json"

    def has(self, number: int) -> bool:
        """Return whether the log contains a version, as a commit or in a later checkpoint."""
        return self.text(number) is not None or self.checkpointed() >= number

    def numbers(self) -> list[int]:
        """Return the versions that have commits."""
        return sorted(int(name[:20]) for name in self.storage.children(self.directory) if _COMMIT.fullmatch(name))

    def write(self, number: int, actions: list[Action]) -> bool:
        """Write a commit atomically and return whether it is new. A different one of this number is a conflict."""
        text = serialize(actions)
        if self.storage.create(self.path(number), text.encode()):
            return True
        if self.text(number) == text:
            return False
        raise LogConflictError(
            f"{self.storage.at(self.path(number))} is not the commit that belongs there",
            hint="after a restore of the database: `freshline table repair --all`; if no other writer is meant to "
            f"write to the table: `freshline table repair {self.table}`. Commits that the database does not know are "
            "kept beside the log",
        )

    def text(self, number: int) -> str | None:
        """Return the text of the commit of a version; None if there is none."""
        try:
            return self.storage.read(self.path(number)).decode(errors="replace")
        except FileNotFoundError:
            return None

    def texts(self) -> dict[int, str]:
        """Return the texts of all commits, read in parallel: an object store takes a round trip for each."""
        with ThreadPoolExecutor(READERS) as pool:
            found = pool.map(lambda number: (number, self.text(number)), self.numbers())
            return {number: text for number, text in found if text is not None}

    def is_empty(self, number: int) -> bool:
        """Return whether the commit of a version is a placeholder."""
        text = self.text(number)
        return text is not None and f'"operation":"{PLACEHOLDER}"' in text

    def has_repair_marker(self) -> bool:
        """Return whether a repair has started and not completed."""
        try:
            self.storage.read(f"{self.directory}/{REPAIR_MARKER}")
        except FileNotFoundError:
            return False
        return True

    def checkpoint(self) -> None:
        """Write a checkpoint, so that readers need not read all commits, and delete commits older than 30 days."""
        from deltalake import DeltaTable  # noqa: PLC0415 - 40 ms that one commit in a hundred needs

        table = DeltaTable(self.root)
        table.create_checkpoint()
        table.cleanup_metadata()

    def files(self) -> dict[str, int]:
        """Return the names of commits, checkpoints and other files of versions, each with its number."""
        return {name: int(name[:20]) for name in self.storage.children(self.directory) if _NUMBERED.match(name)}

    def checkpointed(self) -> int:
        """Return the version of the last checkpoint; -1 if there is none."""
        try:
            return int(json.loads(self.storage.read(f"{self.directory}/{LAST_CHECKPOINT}"))["version"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return -1


def serialize(actions: list[Action]) -> str:
    """Return the text of a commit."""
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
