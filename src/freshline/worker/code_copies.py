"""Immutable copies of the project's code, one directory per hash, from which jobs import (docs/semantics.md#R10.3).

The worker reads the project's files once, hashes these bytes, and writes the same bytes into the copy. An edit of the
project cannot reach a run that was claimed for the copy's hash.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from freshline.definitions.code import Code, CodeReader
from freshline.definitions.loading.code_import import CodeHook
from freshline.errors import EngineError
from freshline.settings import Settings
from freshline.worker.runner_environment import Scratch, make_scratch

DIRECTORY = "code"
LOCK = ".lock"
NEW = ".new-"
KEEP = 3  # copies beside those in use: a version that comes back soon is not written again


@dataclass(frozen=True, slots=True)
class CopyInUse:
    """A verified copy. It is not removed before `release`."""

    path: Path
    hash: str
    lock: int

    def release(self) -> None:
        """Allow the removal of the copy."""
        os.close(self.lock)


@dataclass(frozen=True, slots=True)
class CodeCopy:
    """One version of the code, which is kept in memory: its copy can be made again after the project has changed."""

    copies: CodeCopies
    code: Code

    @property
    def hash(self) -> str:
        """The hash of the code."""
        return self.code.hash

    def use(self) -> CopyInUse:
        """Return the verified copy. Raise EngineError if it cannot be written."""
        return self.copies.use(self.code)


class CodeCopies:
    """The copies of one project, shared by the workers of a machine. Any thread may use it."""

    def __init__(self, settings: Settings) -> None:
        self._home = settings.home
        self._reader = CodeReader(settings.project)
        self._lock = threading.Lock()
        self._directory: Path | None = None
        self._scratch: Scratch | None = None
        self._written: str | None = None

    def current(self) -> CodeCopy:
        """Return the project's code as it is now, with its copy written. Raise EngineError if that is not possible."""
        code = self._reader.current()
        if code.hash != self._written:
            self.use(code).release()
            self._written = code.hash
        return CodeCopy(self, code)

    def use(self, code: Code) -> CopyInUse:
        """Write or verify the copy, protect it from removal, and remove old copies."""
        try:
            with self._lock, _exclusively(self._place()) as directory:
                path = directory / code.hash
                if not _is_intact(path, code):
                    _write(path, code)
                os.utime(path)  # the most recently used copies are kept
                lock = os.open(path, os.O_RDONLY)
                fcntl.flock(lock, fcntl.LOCK_SH)
                _remove_old(directory)
                return CopyInUse(path, code.hash, lock)
        except OSError as error:
            self._written = None  # no run is claimed before a copy could be written
            where = self._directory or self._home
            raise EngineError(f"the project's code cannot be copied to {where}: {error.strerror}") from error

    def _place(self) -> Path:
        """Return the directory of copies: below `.freshline`, or a temporary one where that cannot be written."""
        if self._directory is None:
            directory = self._home / DIRECTORY
            try:
                directory.mkdir(parents=True, exist_ok=True)
                with _exclusively(directory):  # some network file systems have no locks
                    pass
            except OSError:
                self._scratch = make_scratch()  # locked, and removed by a later worker
                directory = self._scratch.path / DIRECTORY
                directory.mkdir()
            self._directory = directory
        self._directory.mkdir(parents=True, exist_ok=True)
        return self._directory


def import_from(copy: Path, project: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a runner: PYTHONPATH leads to the copy wherever it leads to the project's code."""
    hook = CodeHook(Code({}), project, copy)
    entries = [str(project / entry) for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    path = os.pathsep.join(map(hook.copy_of, entries))
    return {**environ, "PYTHONDONTWRITEBYTECODE": "1", **({"PYTHONPATH": path} if path else {})}


@contextlib.contextmanager
def _exclusively(directory: Path) -> Iterator[Path]:
    """Exclude other workers while copies are written, verified or removed."""
    with (directory / LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield directory


def _is_intact(path: Path, code: Code) -> bool:
    """Return whether a copy holds the files of the code and nothing else."""
    found = 0
    for directory, _, names in os.walk(path):
        for name in names:
            file = Path(directory, name)
            try:
                content = None if file.is_symlink() else file.read_bytes()
            except OSError:
                return False
            if content is None or code.files.get(file.relative_to(path).as_posix()) != content:
                return False
            found += 1
    return path.is_dir() and found == len(code.files)


def _write(path: Path, code: Code) -> None:
    """Write a copy, or replace a damaged one. It appears as a whole; after a crash it is verified, so nothing syncs."""
    new = Path(tempfile.mkdtemp(prefix=NEW, dir=path.parent))
    new.chmod(0o755)
    for folder in sorted(code.folders()):
        (new / folder).mkdir()
    for name, content in code.files.items():
        (new / name).write_bytes(content)
        (new / name).chmod(0o444)
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        path.rename(tempfile.mkdtemp(prefix=NEW, dir=path.parent))
    new.rename(path)


def _remove_old(directory: Path) -> None:
    """Remove what a killed worker left, and old copies that no runner uses."""
    for leftover in directory.glob(f"{NEW}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    copies = sorted((path for path in directory.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime_ns)
    for path in copies[:-KEEP]:
        lock = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            pass  # a runner uses it
        finally:
            os.close(lock)
