"""A stand-in for the part of `hdfs_native.Client` that Freshline uses, over a directory.

Tests cannot start a NameNode. The stand-in follows the documentation of the library and raises the same errors. It does
not prove that HDFS behaves the same: a worker probes that when it starts (`freshline.storage.probe`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class Reader(BytesIO):
    """A file that is open for reading."""

    def read_range(self, offset: int, length: int) -> bytes:
        return self.getvalue()[offset : offset + length]


class NameNode:
    """The methods of the client."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def _path(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    def get_file_info(self, path: str) -> Any:
        found = self._path(path)
        if not found.exists():
            raise FileNotFoundError(path)
        return self._status(found)

    def list_status(self, path: str, recursive: bool = False) -> Iterator[Any]:
        found = self._path(path)
        if not found.exists():
            raise FileNotFoundError(path)
        below = [found] if found.is_file() else found.rglob("*") if recursive else found.iterdir()
        yield from (self._status(one) for one in below)

    def read(self, path: str) -> Reader:
        try:
            return Reader(self._path(path).read_bytes())
        except OSError:
            raise FileNotFoundError(path) from None

    def create(self, path: str) -> Any:
        found = self._path(path)
        found.parent.mkdir(parents=True, exist_ok=True)
        return found.open("xb")

    def mkdirs(self, path: str, *, create_parent: bool = False) -> None:
        self._path(path).mkdir(parents=create_parent, exist_ok=True)

    def rename(self, src: str, dst: str, overwrite: bool = False) -> None:
        made, target = self._path(src), self._path(dst)
        if overwrite or made.is_dir():
            made.replace(target)
            return
        os.link(made, target)
        made.unlink()

    def delete(self, path: str, recursive: bool = False) -> bool:
        found = self._path(path)
        if not found.exists():
            return False
        if found.is_dir() and recursive:
            for child in list(found.iterdir()):
                self.delete(str(child.relative_to(self._root)), recursive=True)
        (found.rmdir if found.is_dir() else found.unlink)()
        return True

    def _status(self, path: Path) -> Any:
        facts = path.stat()
        return SimpleNamespace(
            path=f"/{path.relative_to(self._root)}",
            length=facts.st_size,
            isdir=path.is_dir(),
            modification_time=int(facts.st_mtime * 1000),
        )
