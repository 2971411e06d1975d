"""The Delta log of a table: commits beside the data, so that other engines read every version that was published.

A commit is a pure function of a table version and the one before it. The database has both, so the log can be written
again at any time and comes out the same, byte by byte; and a commit that is there already is simply left (ADR 0009).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote
from uuid import NAMESPACE_URL, uuid5

from freshline.errors import WarehouseError
from freshline.storage.base import Storage

APP = "freshline"
LOG = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"
UNFINISHED = ".freshline-relog"  # the log is being put right, or whoever did so was killed
CHECKPOINT_EVERY = 100
READERS = 8
NOTHING = "NONE"
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_SIMPLE = frozenset(
    "string long integer short byte float double boolean binary date timestamp timestamp_ntz".split()  # noqa: SIM905
)
_FORBIDDEN = re.compile(r"[ ,;{}()\n\t=]")
_NUMBERED = re.compile(r"\d{20}\.")
_COMMIT = re.compile(r"\d{20}\.json")
Action = dict[str, Any]


class LogConflictError(WarehouseError):
    """The log has another commit where ours belongs."""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One version of a table. `files`: what this version added, as paths below the table's directory with their sizes.

    `base`: the version at which its list of files begins; smaller than `number` if rows were appended.
    """

    number: int
    base: int
    sequence: int
    produced_at: datetime
    schema: Mapping[str, Any]
    partition_by: tuple[str, ...]
    files: Mapping[str, int]


def unsupported_reason(schema: Any) -> str | None:
    """Why Delta's format cannot hold such a table, if it cannot."""
    if not isinstance(schema, Mapping) or not schema.get("fields"):
        return "it has no columns"
    return next(_refused(schema, ""), None)


def _refused(kind: Any, where: str) -> Iterator[str]:
    match kind:
        case {"type": "struct", "fields": fields}:
            for field in fields:
                name = f"{where}{field['name']}"
                if _FORBIDDEN.search(field["name"]):
                    yield f"the name of column {name!r} has one of the characters ' ,;{{}}()=' or a line break"
                yield from _refused(field["type"], f"{name}.")
        case {"type": "array", "elementType": element}:
            yield from _refused(element, where)
        case {"type": "map", "keyType": key, "valueType": value}:
            yield from _refused(key, where)
            yield from _refused(value, where)
        case str() if kind in _SIMPLE or kind.startswith("decimal("):
            return
        case _:
            shown = kind if isinstance(kind, str) else kind.get("type")
            yield f"column {where.rstrip('.')!r} has the type {shown}"


def commit(table: str, before: TableVersion | None, now: TableVersion, replaced: Mapping[str, int]) -> list[Action]:
    """The actions that lead from one version to the next.

    `replaced`: the files of the version before, where this one does not append to it. What both have stays untouched:
    a commit must not add and remove the same file.
    """
    at = int(now.produced_at.timestamp() * 1000)
    mode = "Append" if now.base < now.number else "Overwrite"
    info = {"timestamp": at, "operation": "WRITE", "operationParameters": {"mode": mode}, "engineInfo": APP}
    actions: list[Action] = [{"commitInfo": info}]
    if before is None or (_has_bare_times(now.schema) and not _has_bare_times(before.schema)):
        actions.append({"protocol": _protocol(now.schema)})
    if before is None or _described(before) != _described(now):
        actions.append({"metaData": _metadata(table, now, at)})
    gone = {path: size for path, size in replaced.items() if path not in now.files}
    new = {path: size for path, size in now.files.items() if path not in replaced}
    split_by = before.partition_by if before else ()
    actions += [{"remove": _remove(path, size, at, split_by)} for path, size in sorted(gone.items())]
    actions += [{"add": _add(path, size, at, now.partition_by)} for path, size in sorted(new.items())]
    return [*actions, {"txn": {"appId": APP, "version": now.sequence}}]


def placeholder(table: str, number: int, now: TableVersion) -> list[Action]:
    """A commit for a version whose files are gone, or that Delta cannot hold: the numbers stay those of the table."""
    at = int(now.produced_at.timestamp() * 1000)
    actions: list[Action] = [{"commitInfo": {"timestamp": at, "operation": NOTHING, "engineInfo": APP}}]
    if number == 0:
        actions += [{"protocol": _protocol(now.schema)}, {"metaData": _metadata(table, now, at)}]
    return actions


def _protocol(schema: Mapping[str, Any]) -> Action:
    """Timestamps without a time zone need the newer protocol, and whoever reads the table needs to know it."""
    if not _has_bare_times(schema):
        return {"minReaderVersion": 1, "minWriterVersion": 2}
    feature = ["timestampNtz"]
    return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": feature, "writerFeatures": feature}


def _has_bare_times(schema: Mapping[str, Any]) -> bool:
    return "timestamp_ntz" in json.dumps(schema)


def _described(version: TableVersion) -> tuple[Any, ...]:
    return version.schema, version.partition_by


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
    """The type with nulls allowed everywhere: what one version never had, rows that are appended later may have."""
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
    """What the names of the directories say, as Spark writes them."""
    found = dict(piece.split("=", 1) for piece in path.split("/")[:-1] if "=" in piece)
    said = {unquote(name): None if value == NULL_PARTITION else unquote(value) for name, value in found.items()}
    by_name = {name.lower(): value for name, value in said.items()}
    return {column: by_name[column.lower()] for column in columns}


class DeltaLog:
    """The log of one table, beside its data."""

    def __init__(self, storage: Storage, table: str) -> None:
        self.storage = storage
        self.table = table
        self.directory = f"{table}/{LOG}"

    @property
    def root(self) -> str:
        """The table, as other readers name it."""
        return self.storage.at(self.table)

    def path(self, number: int) -> str:
        """Where the commit of a version is."""
        return f"{self.directory}/{number:020}.json"

    def has(self, number: int) -> bool:
        """Whether the version is in the log, as a commit or under a checkpoint that came later."""
        return self.text(number) is not None or self.checkpointed() >= number

    def numbers(self) -> list[int]:
        """The versions whose commits are there."""
        return sorted(int(name[:20]) for name in self.storage.children(self.directory) if _COMMIT.fullmatch(name))

    def write(self, number: int, actions: list[Action]) -> bool:
        """Write a commit in one step; whether it is new. One that says something else is a conflict."""
        text = written(actions)
        if self.storage.create(self.path(number), text.encode()):
            return True
        if self.text(number) == text:
            return False
        raise LogConflictError(
            f"{self.storage.at(self.path(number))} is not the commit that belongs there",
            hint=f"if nobody else is to write to the table: `freshline table repair {self.table}`",
        )

    def text(self, number: int) -> str | None:
        """What the commit of a version says; None: there is none."""
        try:
            return self.storage.read(self.path(number)).decode(errors="replace")
        except FileNotFoundError:
            return None

    def texts(self) -> dict[int, str]:
        """All commits. Several are read at a time: a store takes its time for each."""
        with ThreadPoolExecutor(READERS) as pool:
            found = pool.map(lambda number: (number, self.text(number)), self.numbers())
            return {number: text for number, text in found if text is not None}

    def is_empty(self, number: int) -> bool:
        """Whether the commit of a version only holds its place."""
        text = self.text(number)
        return text is not None and f'"operation":"{NOTHING}"' in text

    def is_unfinished(self) -> bool:
        """Whether the log was to be put right and is not."""
        try:
            self.storage.read(f"{self.directory}/{UNFINISHED}")
        except FileNotFoundError:
            return False
        return True

    def checkpoint(self) -> None:
        """Sum the log up, so that readers need not read all commits, and forget commits older than 30 days."""
        from deltalake import DeltaTable  # noqa: PLC0415 - 40 ms that only a hundredth of the commits needs

        table = DeltaTable(self.root)
        table.create_checkpoint()
        table.cleanup_metadata()

    def files(self) -> dict[str, int]:
        """The names of commits, checkpoints and what else there is about versions, each with its number."""
        return {name: int(name[:20]) for name in self.storage.children(self.directory) if _NUMBERED.match(name)}

    def checkpointed(self) -> int:
        """The version up to which the last checkpoint sums up; -1: there is none."""
        try:
            return int(json.loads(self.storage.read(f"{self.directory}/{LAST_CHECKPOINT}"))["version"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return -1


def written(actions: list[Action]) -> str:
    """A commit as it is in its file."""
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
