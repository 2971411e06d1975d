"""Puts the log of a table right while others read it: the newest version is whole for them at any moment (promise 7).

A commit only says what differs from the one before it, so a log that is half old and half new says nothing true. Hence:

- A log that tells every version as it is stays as it is, whatever its commits look like; what is missing is added.
- Another one gets a checkpoint of its newest version first, which is one file: who looks from then on reads no older
  commit. Wrong commits are removed before right ones come, the first one last: an older version cannot be read for that
  moment, but it is never read wrongly.
- Until all is done there is a mark, by which whoever comes after a crash knows that it has to be done again.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from freshline.delta.log import APP, LAST_CHECKPOINT, UNFINISHED, Action, DeltaLog, written
from freshline.storage.base import TEMPORARY_PREFIX, StorageError
from freshline.storage.local import LocalStorage

CHECKPOINT = ".checkpoint."
LISTED_S = 0.5  # who has listed the log before there was the checkpoint has read by then what it listed


def repair(log: DeltaLog, wanted: Mapping[int, list[Action]], told: Collection[int]) -> None:
    """Have the log say what `wanted` says, from version 0 on. `told`: the versions that it must tell as they are."""
    last = max(wanted)
    _cut(log, last)
    texts = log.texts()
    if not _right(log, texts, wanted, told):
        _replace(log, texts, {number: written(actions) for number, actions in wanted.items()})
        return
    for number in range(len(texts), last + 1):
        log.write(number, wanted[number])


def _cut(log: DeltaLog, last: int) -> None:
    """Remove what is beyond a version, newest first: what is left is an older version at any moment."""
    there = log.files()
    if log.checkpointed() not in {n for name, n in there.items() if CHECKPOINT in name and n <= last}:
        log.storage.remove([f"{log.directory}/{LAST_CHECKPOINT}"])
    beyond = sorted((name for name, number in there.items() if number > last), reverse=True)
    log.storage.remove(f"{log.directory}/{name}" for name in beyond)


# --- whether it is right ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _State:
    """What a log says of a version: its files with their sizes, its columns, and our own number of it."""

    files: dict[str, int] = field(default_factory=dict)
    described: tuple[Any, ...] = ()
    sequence: int | None = None

    def play(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case {"add": {"path": path, "size": size}}:
                    self.files[path] = size
                case {"remove": {"path": path}}:
                    self.files.pop(path, None)
                case {"metaData": {"schemaString": schema, "partitionColumns": columns}}:
                    self.described = (json.loads(schema), columns)
                case {"txn": {"appId": app, "version": version}} if app == APP:
                    self.sequence = version


def _right(log: DeltaLog, texts: Mapping[int, str], wanted: Mapping[int, list[Action]], told: Collection[int]) -> bool:
    """Whether the log tells these versions as they are, and its last one so that the next commit fits."""
    numbers = sorted(texts)
    if log.is_unfinished() or not numbers or numbers != list(range(len(numbers))):
        return False
    checkpoints = {number for name, number in log.files().items() if CHECKPOINT in name}
    found, right = _State(), _State()
    try:
        for number in numbers:
            found.play([json.loads(line) for line in texts[number].splitlines()])
            right.play(wanted[number])
            if (number in told or number == numbers[-1]) and found != right:
                return False
            if (number in checkpoints or number == numbers[-1]) and _read(log, number) != set(found.files):
                return False
    except StorageError:
        raise
    except Exception:  # noqa: BLE001 - whatever keeps us from reading it keeps others from it
        return False
    return max(checkpoints, default=0) <= numbers[-1]


def _read(log: DeltaLog, number: int) -> set[str]:
    """The files of a version as another reader finds them, which begins with the checkpoint of it, if there is one."""
    from deltalake import DeltaTable  # noqa: PLC0415 - 40 ms that hardly any command needs

    actions = DeltaTable(log.root, version=number).get_add_actions(flatten=True)
    return set(actions["path"].to_pylist())


# --- putting it right -------------------------------------------------------------------------------------------------


def _replace(log: DeltaLog, texts: Mapping[int, str], wanted: Mapping[int, str]) -> None:
    last, there = max(wanted), log.files()
    wrong = [number for number, text in wanted.items() if texts.get(number) != text]
    log.storage.replace(f"{log.directory}/{UNFINISHED}", b"")
    _sum_up(log, wanted, last)
    if there:
        time.sleep(LISTED_S)
    kept = {f"{last:020}{CHECKPOINT}parquet", *(f"{number:020}.json" for number in wanted)}
    log.storage.remove(log.path(number) for number in wrong if number < last and number in texts)
    log.storage.remove(f"{log.directory}/{name}" for name in sorted(there.keys() - kept))
    for number in sorted(wrong, reverse=True):
        log.storage.replace(log.path(number), wanted[number].encode())
    _tidy(log)


def _tidy(log: DeltaLog) -> None:
    """Remove what somebody has begun who was killed, and last our own mark."""
    begun = {name for name in log.storage.children(log.directory) if name.startswith(TEMPORARY_PREFIX)} - {UNFINISHED}
    log.storage.remove(f"{log.directory}/{name}" for name in (*sorted(begun), UNFINISHED))


def _sum_up(log: DeltaLog, wanted: Mapping[int, str], last: int) -> None:
    """Put a checkpoint of the newest version in place, and then the hint at it. It is made of the commits alone."""
    from deltalake import DeltaTable  # noqa: PLC0415 - as above

    with tempfile.TemporaryDirectory(prefix="freshline-log-") as place:
        made = DeltaLog(LocalStorage(Path(place)), log.table)
        directory = Path(place, made.directory)
        directory.mkdir(parents=True)
        for number, text in wanted.items():
            Path(place, made.path(number)).write_text(text)
        DeltaTable(made.root).create_checkpoint()
        for name in (f"{last:020}{CHECKPOINT}parquet", LAST_CHECKPOINT):
            log.storage.replace(f"{log.directory}/{name}", (directory / name).read_bytes())
