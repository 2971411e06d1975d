"""A warehouse in a directory: on a local disk, or on one that all machines have mounted."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from freshline.storage.background_fsync import files_under, flushed, sync
from freshline.storage.base import TEMPORARY_PREFIX

if TYPE_CHECKING:
    import duckdb

READABLE = 0o644


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """`Storage` in a directory of this machine."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def at(self, name: str) -> str:
        """The path."""
        return str(self.path / name)

    def probe(self) -> None:
        """A file system without links says so when the first file is created."""

    def read(self, name: str) -> bytes:
        """The bytes of a file."""
        return (self.path / name).read_bytes()

    def create(self, name: str, data: bytes) -> bool:
        """A link fails where there is a file already."""
        target = self.path / name
        made = _made(target, data)
        try:
            os.link(made, target)
        except FileExistsError:
            return False
        finally:
            made.unlink(missing_ok=True)
            sync(target.parent)  # also of one whose writer was killed before it did so
        return True

    def replace(self, name: str, data: bytes) -> None:
        """A rename puts it in place."""
        target = self.path / name
        made = _made(target, data)
        try:
            made.replace(target)
        except OSError:
            made.unlink(missing_ok=True)
            raise
        sync(target.parent)

    def remove(self, names: Iterable[str]) -> None:
        """In the order of the names."""
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def clear(self, directory: str) -> None:
        """The directory too."""
        shutil.rmtree(self.path / directory, ignore_errors=True)

    def sizes(self, directory: str) -> dict[str, int]:
        """As the file system tells them."""
        return {str(file.relative_to(self.path)): file.stat().st_size for file in files_under(self.path / directory)}

    def children(self, directory: str) -> list[str]:
        """Files and directories."""
        try:
            with os.scandir(self.path / directory) as entries:
                return sorted(entry.name for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def age(self, name: str) -> float:
        """By the newest of all files and directories. What goes away meanwhile is as young as can be."""
        path = self.path / name
        try:
            newest = max(path.stat().st_mtime, *(one.stat().st_mtime for one in path.rglob("*")), 0.0)
        except OSError:
            return 0.0
        return time.time() - newest

    def make_durable(self, directory: str) -> None:
        """Files first, then the directories that name them, up to the warehouse."""
        for file in files_under(self.path / directory):
            sync(file)
        for folder in [*_folders(self.path / directory), *self._between(self.path / directory)]:
            sync(folder)

    def flushing(self, directory: str) -> AbstractContextManager[None]:
        """The disk works while Spark does."""
        return flushed(self.path / directory)

    def attach(self, connection: duckdb.DuckDBPyConnection) -> None:
        """DuckDB reads directories by itself."""

    def _between(self, directory: Path) -> Iterator[Path]:
        """The directories above it that may be new, up to the warehouse."""
        for folder in directory.parents:
            if folder.is_relative_to(self.path):
                yield folder


def _made(target: Path, data: bytes) -> Path:
    """The file under a name of its own, on the disk."""
    _make(target.parent)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=TEMPORARY_PREFIX)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(READABLE)
    except OSError:
        with suppress(OSError):
            Path(name).unlink()
        raise
    return Path(name)


def _make(directory: Path) -> None:
    """Have a directory, and durably those above it that were not there."""
    new = [one for one in (directory, *directory.parents) if not one.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for one in new:
        sync(one.parent)


def _folders(directory: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(directory):
        yield Path(folder)
