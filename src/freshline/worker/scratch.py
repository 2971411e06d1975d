"""A temporary directory per runner that is removed with it, or by the next runner if nobody was left to do so."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

PREFIX = "freshline-runner-"
YOUNG = 60.0  # seconds: younger directories may be in the making


@dataclass(frozen=True, slots=True)
class Scratch:
    """A directory whose lock is held as long as its owner lives."""

    path: Path
    lock: int

    def remove(self) -> None:
        """Delete it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def make_scratch(root: Path | None = None) -> Scratch:
    """A new scratch directory. Those of owners that were killed are removed on the way."""
    base = root or Path(tempfile.gettempdir())
    _sweep(base)
    path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
    lock = os.open(path, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return Scratch(path, lock)


def _sweep(base: Path) -> None:
    for path in base.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # it is another user's, or somebody else removes it right now
            if path.stat().st_uid == os.getuid() and time.time() - path.stat().st_mtime > YOUNG:
                _remove_abandoned(path)


def _remove_abandoned(path: Path) -> None:
    lock = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
