"""A warehouse in a directory, on a local disk or on a file system that all machines have mounted."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from freshline.storage.base import TEMPORARY_PREFIX

if TYPE_CHECKING:
    import duckdb

READABLE = 0o644


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """`Storage` in a directory."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def at(self, name: str) -> str:
        """Return the path."""
        return str(self.path / name)

    def probe(self) -> None:
        """Do nothing: `create` fails on a file system without hard links."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return (self.path / name).read_bytes()

    def create(self, name: str, data: bytes) -> bool:
        """Write a temporary file and link it: a link fails if the target exists."""
        target = self.path / name
        temporary = _temporary(target, data)
        try:
            os.link(temporary, target)
        except FileExistsError:
            return False
        finally:
            temporary.unlink(missing_ok=True)
            _sync(target.parent)  # also if the file exists: its writer may have been killed before this
        return True

    def replace(self, name: str, data: bytes) -> None:
        """Write a temporary file and rename it."""
        target = self.path / name
        temporary = _temporary(target, data)
        try:
            temporary.replace(target)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        _sync(target.parent)

    def remove(self, names: Iterable[str]) -> None:
        """Delete files in this order."""
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def clear(self, directory: str) -> None:
        """Delete the directory too."""
        shutil.rmtree(self.path / directory, ignore_errors=True)

    def move(self, directory: str, target: str) -> None:
        """Rename the directory."""
        (self.path / target).parent.mkdir(parents=True, exist_ok=True)
        (self.path / directory).rename(self.path / target)

    def sizes(self, directory: str) -> dict[str, int]:
        """Return the sizes of the files on disk."""
        return {str(file.relative_to(self.path)): file.stat().st_size for file in _files(self.path / directory)}

    def children(self, directory: str) -> list[str]:
        """Return the names of files and directories."""
        try:
            with os.scandir(self.path / directory) as entries:
                return sorted(entry.name for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def age(self, name: str) -> float:
        """Return the age of the newest file or directory; 0 if one disappears meanwhile."""
        path = self.path / name
        try:
            newest = max(path.stat().st_mtime, *(one.stat().st_mtime for one in path.rglob("*")), 0.0)
        except OSError:
            return 0.0
        return time.time() - newest

    def make_durable(self, directory: str) -> None:
        """Sync the files, then their directories up to the warehouse."""
        for file in _files(self.path / directory):
            _sync(file)
        for folder in [*_folders(self.path / directory), *self._parents(self.path / directory)]:
            _sync(folder)

    def attach(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Do nothing: DuckDB reads directories itself."""

    def _parents(self, directory: Path) -> Iterator[Path]:
        """Yield the parent directories, which may be new, up to the warehouse."""
        for folder in directory.parents:
            if folder.is_relative_to(self.path):
                yield folder


def _temporary(target: Path, data: bytes) -> Path:
    """Write a durable file under a temporary name beside the target."""
    _make_directory(target.parent)
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


def _make_directory(directory: Path) -> None:
    """Create a directory; it and its new parents are durable."""
    new = [one for one in (directory, *directory.parents) if not one.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for one in new:
        _sync(one.parent)


def _sync(path: Path) -> None:
    """Make the content of a file, or the names in a directory, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _files(directory: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(directory):
        for name in names:
            yield Path(folder, name)


def _folders(directory: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(directory):
        yield Path(folder)
