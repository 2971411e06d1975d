"""Puts the log of a table right while others read it: the newest version is whole for them at any moment (promise 7).

A commit only says what differs from the one before it, so a log that is half old and half new says nothing true. Hence:

- A log that tells every version as it is stays as it is, whatever its commits look like; what is missing is added.
- Another one gets a checkpoint of its newest version first, which is one file: who looks from then on reads no older
  commit. Wrong commits are removed before right ones come, the first one last: an older version cannot be read for that
  moment, but it is never read wrongly.
- Where nothing is, the new log gets there as a whole.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from freshline.warehouse.delta import APP, LAST_CHECKPOINT, Action, DeltaLog, names, written
from freshline.warehouse.files import sync

CHECKPOINT = ".checkpoint."
BESIDE = ".log-"
LISTED_S = 0.5  # who has listed the log before there was the checkpoint has read by then what it listed


def relog(log: DeltaLog, wanted: Mapping[int, list[Action]], told: Collection[int]) -> None:
    """Have the log say what `wanted` says, from version 0 on. `told`: the versions that it must tell as they are."""
    last = max(wanted)
    _cut(log, last)
    if not _right(log, wanted, told):
        _replace(log, {number: written(actions) for number, actions in wanted.items()})
        return
    for number in range(len(log.numbers()), last + 1):
        log.write(number, wanted[number])


def _cut(log: DeltaLog, last: int) -> None:
    """Remove what is beyond a version, newest first: what is left is an older version at any moment."""
    there = log.files()
    if log.checkpointed() not in {n for name, n in there.items() if CHECKPOINT in name and n <= last}:
        (log.directory / LAST_CHECKPOINT).unlink(missing_ok=True)
    for name in sorted((name for name, number in there.items() if number > last), reverse=True):
        (log.directory / name).unlink()


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


def _right(log: DeltaLog, wanted: Mapping[int, list[Action]], told: Collection[int]) -> bool:
    """Whether the log tells these versions as they are, and its last one so that the next commit fits."""
    numbers = log.numbers()
    if not numbers or numbers != list(range(len(numbers))):
        return False
    checkpoints = {number for name, number in log.files().items() if CHECKPOINT in name}
    found, right = _State(), _State()
    try:
        for number in numbers:
            found.play([json.loads(line) for line in (log.text(number) or "").splitlines()])
            right.play(wanted[number])
            if (number in told or number == numbers[-1]) and found != right:
                return False
            if (number in checkpoints or number == numbers[-1]) and _read(log, number) != set(found.files):
                return False
    except Exception:  # noqa: BLE001 - whatever keeps us from reading it keeps others from it
        return False
    return max(checkpoints, default=0) <= numbers[-1]


def _read(log: DeltaLog, number: int) -> set[str]:
    """The files of a version as another reader finds them, which begins with the checkpoint of it, if there is one."""
    from deltalake import DeltaTable  # noqa: PLC0415 - 40 ms that hardly any command needs

    actions = DeltaTable(str(log.root), version=number).get_add_actions(flatten=True)
    return set(actions["path"].to_pylist())


# --- putting it right -------------------------------------------------------------------------------------------------


def _replace(log: DeltaLog, wanted: Mapping[int, str]) -> None:
    last = max(wanted)
    wrong = [number for number, text in wanted.items() if log.text(number) != text]
    with _beside(log, wanted, wrong) as made:
        if not names(log.directory):
            made.directory.rename(log.directory)
            sync(log.root)
            return
        kept = {f"{last:020}.checkpoint.parquet", *(log.path(number).name for number in wanted)}
        _sum_up(made, log, last)
        time.sleep(LISTED_S)
        for name in log.files().keys() - kept:
            (log.directory / name).unlink()
        for number in wrong:
            if number < last:
                log.path(number).unlink(missing_ok=True)
        for number in sorted(wrong, reverse=True):
            made.path(number).rename(log.path(number))
        sync(log.directory)


@contextmanager
def _beside(log: DeltaLog, wanted: Mapping[int, str], wrong: Collection[int]) -> Iterator[DeltaLog]:
    """The whole log as it should be, in a directory of its own; what is to be taken from it is on the disk."""
    log.root.mkdir(parents=True, exist_ok=True)
    for left in log.root.glob(f"{BESIDE}*"):  # by somebody who was killed
        shutil.rmtree(left, ignore_errors=True)
    place = Path(tempfile.mkdtemp(dir=log.root, prefix=BESIDE))
    try:
        made = DeltaLog(place)
        made.directory.mkdir()
        for number, text in wanted.items():
            made.path(number).write_text(text)
        for number in wrong:
            sync(made.path(number))
        sync(made.directory)
        yield made
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _sum_up(made: DeltaLog, log: DeltaLog, last: int) -> None:
    """Put a checkpoint of the newest version in place, and then the hint at it."""
    from deltalake import DeltaTable  # noqa: PLC0415 - as above

    DeltaTable(str(made.root)).create_checkpoint()
    for name in (f"{last:020}.checkpoint.parquet", LAST_CHECKPOINT):
        sync(made.directory / name)
        (made.directory / name).rename(log.directory / name)
    sync(log.directory)
