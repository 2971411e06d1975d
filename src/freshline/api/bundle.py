"""The files of the page: a bundle that is built from `page/` in the repository.

They are read once, and again when they change. A request names one of them, and its name is never opened as a path, so
that no name can lead out of the directory.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

log = structlog.get_logger("freshline.api")
PAGE_FILES = Path(__file__).parents[1] / "page_files"
FOLDER = "page"
INDEX = "index.html"
# Anything else is sent as bytes, which a browser does not execute.
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
BYTES = "application/octet-stream"
COMPRESSED = re.compile(r"text/|image/svg|application/(?:json|manifest)")
# The hash of the content, before the extension: eight characters, not all of them lower-case letters as in a word.
HASHED = re.compile(r"[-.](?=[\w-]*[A-Z0-9])[\w-]{8}\.\w+$", re.ASCII)
LARGEST = 16 * 1024 * 1024

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class File:
    """A file of the bundle. `compressed`: its content with gzip, where that is smaller."""

    content: bytes
    compressed: bytes | None
    type: str
    tag: str
    lasting: bool

    @classmethod
    def read(cls, path: Path) -> File:
        """Read a file."""
        content = path.read_bytes()
        type_ = TYPES.get(path.suffix, BYTES)
        small = gzip.compress(content, 9, mtime=0) if COMPRESSED.match(type_) else content
        tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        lasting = HASHED.search(path.name) is not None
        return cls(content, small if len(small) < len(content) else None, type_, tag, lasting)


class Bundle:
    """The files of the page in a directory, if it has been built."""

    def __init__(self, root: Path = PAGE_FILES) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._stamp: Stamp | None = None
        self._files: Mapping[str, File] = {}

    def file(self, name: str) -> File | None:
        """Return the file with this name, relative to the directory; None if there is none."""
        return self._current().get(name)

    def _current(self) -> Mapping[str, File]:
        stamp = self._stamp_now()
        with self._lock:
            if stamp != self._stamp:
                self._files = {} if stamp is None else self._read()
                self._stamp = stamp
            return self._files

    def _stamp_now(self) -> Stamp | None:
        try:
            index, folder = (self._root / INDEX).stat(), (self._root / FOLDER).stat()
        except OSError:
            return None
        return index.st_mtime_ns, index.st_size, folder.st_mtime_ns

    def _read(self) -> dict[str, File]:
        """Read the index and the files beside it; links that lead out of the directory are left out."""
        root = self._root.resolve()
        paths = [self._root / INDEX, *sorted((self._root / FOLDER).rglob("*"))]
        kept = [path for path in paths if path.is_file() and path.resolve().is_relative_to(root)]
        try:
            return {
                path.relative_to(self._root).as_posix(): File.read(path)
                for path in kept
                if path.stat().st_size <= LARGEST
            }
        except OSError as error:  # it is being built
            log.warning("page_unreadable", error=type(error).__name__)
            return {}
