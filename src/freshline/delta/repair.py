"""Repairs the Delta log of a table while others read it (ADR 0017).

The caller holds the table's lock, which excludes other writers, but not readers. A commit only says what differs
from the one before it, so a log that is half old and half new describes no version. Therefore:

- A log that describes each required version correctly is left as it is; missing commits are appended.
- Otherwise a checkpoint of the newest version is written first. It is one file, and from then on readers of the newest
  version read no older commit. Then wrong commits and old checkpoints are removed, and the right commits are written.
  Older versions cannot be read in between, but they are never read wrongly.
- A marker file exists until the repair is complete. If a repair is killed, the next writer finds it and starts again.
- Commits that the database does not know, such as those of a time that a restore has lost, are copied to
  `<table>/_delta_log_lost` before they are removed. Data files are never touched.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from freshline.delta.log import APP, LAST_CHECKPOINT, REPAIR_MARKER, Action, DeltaLog, serialize
from freshline.model.json import Json
from freshline.storage.base import TEMPORARY_PREFIX, StorageError
from freshline.storage.local import LocalStorage

CHECKPOINT = ".checkpoint."
LOST = "_delta_log_lost"  # beside the log; readers of Delta ignore names that begin with an underscore
READER_GRACE_S = 0.5  # time for readers that listed the log before the checkpoint existed to read the old commits


def repair(log: DeltaLog, wanted: Mapping[int, list[Action]], required: Collection[int]) -> None:
    """Make the log equivalent to the commits `wanted`, from version 0 on. `required`: versions it must describe."""
    _remove_newer(log, wanted)
    last, texts = max(wanted), log.texts()
    if not _is_correct(log, texts, wanted, required):
        _set_aside(log, texts, wanted)
        _rewrite(log, texts, {number: serialize(actions) for number, actions in wanted.items()})
        return
    for number in range(len(texts), last + 1):
        log.write(number, wanted[number])


def clear(log: DeltaLog) -> None:
    """Remove the log of a table of which the database has no version, newest first. Its commits are kept beside it."""
    files = log.files()
    _set_aside(log, files.values(), {})
    log.storage.remove([f"{log.directory}/{LAST_CHECKPOINT}"])
    log.storage.remove(f"{log.directory}/{name}" for name in sorted(files, reverse=True))
    log.storage.remove([f"{log.directory}/{REPAIR_MARKER}"])


def _remove_newer(log: DeltaLog, wanted: Mapping[int, list[Action]]) -> None:
    """Remove commits after the newest version, so that a whole version remains at any moment.

    Normally they are removed newest first. A checkpoint among them may be all that is left of the commits before it,
    so then a checkpoint of the version that remains is written first, and commits that the other one covers go first.
    """
    last, files = max(wanted), log.files()
    newer = {name: number for name, number in files.items() if number > last}
    _set_aside(log, newer.values(), wanted)
    covered = max((number for name, number in newer.items() if CHECKPOINT in name), default=-1)
    if covered > last:
        log.storage.replace(f"{log.directory}/{REPAIR_MARKER}", b"")
        _write_checkpoint(log, {number: serialize(actions) for number, actions in wanted.items()}, last)
        time.sleep(READER_GRACE_S)
    elif log.checkpointed() not in {n for name, n in files.items() if CHECKPOINT in name}:
        log.storage.remove([f"{log.directory}/{LAST_CHECKPOINT}"])
    hidden = sorted(name for name, number in newer.items() if number < covered)
    log.storage.remove(f"{log.directory}/{name}" for name in hidden)
    log.storage.remove(f"{log.directory}/{name}" for name in sorted(newer.keys() - set(hidden), reverse=True))


def _set_aside(log: DeltaLog, numbers: Iterable[int], wanted: Mapping[int, list[Action]]) -> None:
    """Copy commits that the database does not know. The name has a digest, so that no copy replaces another."""
    for number in sorted(set(numbers)):
        text = log.text(number)
        if text is not None and (number not in wanted or text != serialize(wanted[number])):
            digest = hashlib.sha256(text.encode()).hexdigest()[:8]
            log.storage.create(f"{log.table}/{LOST}/{number:020}-{digest}.json", text.encode())


@dataclass(slots=True)
class _State:
    """What a log says about a version: its files with their sizes, its schema, and Freshline's sequence number."""

    files: dict[str, int] = field(default_factory=dict)
    schema: tuple[Json, list[str]] | None = None
    sequence: int | None = None

    def apply(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case {"add": {"path": path, "size": size}}:
                    self.files[path] = size
                case {"remove": {"path": path}}:
                    self.files.pop(path, None)
                case {"metaData": {"schemaString": schema, "partitionColumns": columns}}:
                    self.schema = (json.loads(schema), columns)
                case {"txn": {"appId": app, "version": version}} if app == APP:
                    self.sequence = version


def _is_correct(
    log: DeltaLog, texts: Mapping[int, str], wanted: Mapping[int, list[Action]], required: Collection[int]
) -> bool:
    """Return whether the log describes the required versions, and its last one so that the next commit fits."""
    numbers = sorted(texts)
    if log.has_repair_marker() or not numbers or numbers != list(range(len(numbers))):
        return False
    checkpoints = {number for name, number in log.files().items() if CHECKPOINT in name}
    found, expected = _State(), _State()
    try:
        for number in numbers:
            found.apply([json.loads(line) for line in texts[number].splitlines()])
            expected.apply(wanted[number])
            if (number in required or number == numbers[-1]) and found != expected:
                return False
            if (number in checkpoints or number == numbers[-1]) and _read_files(log, number) != set(found.files):
                return False
    except StorageError:
        raise
    except Exception:  # noqa: BLE001 - if we cannot read it, others cannot either
        return False
    return max(checkpoints, default=0) <= numbers[-1]


def _read_files(log: DeltaLog, number: int) -> set[str]:
    """Return the files of a version as another reader finds them, through a checkpoint if there is one."""
    from deltalake import DeltaTable  # noqa: PLC0415 - 40 ms that few commands need

    actions = DeltaTable(log.root, version=number).get_add_actions(flatten=True)
    return set(actions["path"].to_pylist())


def _rewrite(log: DeltaLog, texts: Mapping[int, str], wanted: Mapping[int, str]) -> None:
    last, files = max(wanted), log.files()
    wrong = [number for number, text in wanted.items() if texts.get(number) != text]
    log.storage.replace(f"{log.directory}/{REPAIR_MARKER}", b"")
    _write_checkpoint(log, wanted, last)
    if files:
        time.sleep(READER_GRACE_S)
    right = {f"{number:020}.json" for number in wanted if number not in wrong}
    kept = {*right, f"{last:020}.json", f"{last:020}{CHECKPOINT}parquet"}
    # In ascending order: a checkpoint may hide wrong commits before it, so these are removed first.
    log.storage.remove(f"{log.directory}/{name}" for name in sorted(files.keys() - kept))
    # In descending order: no older version can be read until all its commits are written.
    for number in sorted(wrong, reverse=True):
        log.storage.replace(log.path(number), wanted[number].encode())
    _remove_temporary(log)


def _write_checkpoint(log: DeltaLog, wanted: Mapping[int, str], last: int) -> None:
    """Write a checkpoint of the newest version, made from the right commits, and then the hint that names it."""
    from deltalake import DeltaTable  # noqa: PLC0415 - 40 ms that few commands need

    with tempfile.TemporaryDirectory(prefix="freshline-log-") as place:
        copy = DeltaLog(LocalStorage(Path(place)), log.table)
        directory = Path(place, copy.directory)
        directory.mkdir(parents=True)
        for number, text in wanted.items():
            Path(place, copy.path(number)).write_text(text)
        DeltaTable(copy.root).create_checkpoint()
        for name in (f"{last:020}{CHECKPOINT}parquet", LAST_CHECKPOINT):
            log.storage.replace(f"{log.directory}/{name}", (directory / name).read_bytes())


def _remove_temporary(log: DeltaLog) -> None:
    """Remove the temporary files of killed writers, and the marker last."""
    names = {name for name in log.storage.children(log.directory) if name.startswith(TEMPORARY_PREFIX)}
    log.storage.remove(f"{log.directory}/{name}" for name in (*sorted(names - {REPAIR_MARKER}), REPAIR_MARKER))
