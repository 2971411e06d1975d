"""Lets the disk work while Spark does, so that sealing a large output has little to wait for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from freshline.storage.layout import not_durable

LOOK_S = 0.25
SHARE = 20  # looking takes a twentieth of the time at most: a directory of very many files is looked at less often
WORTH = 2**20  # bytes


@contextmanager
def flushed(directory: Path) -> Iterator[None]:
    """While others write files into the directory, have what is there already on the disk.

    Not all of it: whoever needs the files to be durable syncs them afterwards, and is quick. But the kernel tells only
    once that something could not be written, so that is raised here: `WarehouseError`.
    """
    flusher = _Flusher(directory)
    flusher.start()
    try:
        yield
    finally:
        flusher.over.set()
        flusher.join()
    if flusher.error is not None:
        raise not_durable(str(directory), flusher.error)


class _Flusher(threading.Thread):
    def __init__(self, directory: Path) -> None:
        super().__init__(name="flusher", daemon=True)
        self.over = threading.Event()
        self.error: OSError | None = None
        self._directory = directory
        self._synced: dict[int, int] = {}

    def run(self) -> None:
        pause = LOOK_S
        while not self.over.wait(pause) and self.error is None:
            began = time.monotonic()
            found = list(_sizes(self._directory))
            pause = max(LOOK_S, SHARE * (time.monotonic() - began))
            for file, inode, size in found:
                if size >= self._synced.get(inode, 0) + WORTH and not self.over.is_set():
                    self._sync(file)
                    self._synced[inode] = size

    def _sync(self, file: Path) -> None:
        try:
            sync(file)
        except FileNotFoundError:
            pass  # it has its last name by now
        except OSError as error:
            self.error = error


def sync(path: Path) -> None:
    """Have a file, or the names in a directory, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def files_under(directory: Path) -> Iterator[Path]:
    """Every file in it, however deep."""
    for folder, _, names in os.walk(directory):
        for name in names:
            yield Path(folder, name)


def _sizes(directory: Path) -> Iterator[tuple[Path, int, int]]:
    for file in files_under(directory):
        with suppress(OSError):  # it may be gone by now
            status = file.stat()
            yield file, status.st_ino, status.st_size
