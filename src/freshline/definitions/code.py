"""The Python files of a project, read once: what is hashed is what is imported (docs/semantics.md#R10.3)."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from freshline.errors import DefinitionError, Place

MAX_CODE_FILES = 20_000
MAX_CODE_BYTES = 64 * 1024 * 1024
SETTLED_S = 2.0  # a file system may give two edits within its clock's resolution the same time
_NOT_CODE = frozenset({"tests", "__pycache__", "node_modules", "site-packages"})
_DEFINITIONS = "workflows"  # every module below it is imported by `apply`, so every module belongs to the code
Signature = frozenset[tuple[str, int, int, int, int]]


@dataclass(frozen=True)
class Code:
    """Python files in memory. `files`: the content by path relative to the root; `hash`: of these very bytes."""

    files: Mapping[str, bytes]
    hash: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha256()
        for path, content in sorted(self.files.items()):
            digest.update(f"{path}\0{len(content)}\0".encode())
            digest.update(content)
        object.__setattr__(self, "hash", digest.hexdigest())

    def folders(self) -> set[str]:
        """Return all directories that contain code, relative to the root."""
        return {str(folder) for path in self.files for folder in PurePosixPath(path).parents} - {"."}


def read_code(root: Path) -> Code:
    """Read all Python files of a project. Too much code, or a file that cannot be read, is a `DefinitionError`.

    Virtual environments, hidden directories, tests and caches are not part of it. Links to directories are not
    followed.
    """
    files: dict[str, bytes] = {}
    size = 0
    for path in code_files(root):
        content = _content(root, path)
        if content is None:
            continue
        files[path] = content
        size += len(content)
        if len(files) > MAX_CODE_FILES or size > MAX_CODE_BYTES:
            raise DefinitionError(
                f"the project has more than {MAX_CODE_FILES} Python files or {MAX_CODE_BYTES >> 20} MB of them; "
                "keep other code out of the project's directory, or in a hidden one",
                place=Place(str(root)),
            )
    return Code(files)


def code_hash(root: Path) -> str:
    """Return a hash of all Python files of a project, by relative path and content."""
    return read_code(root).hash


def code_files(root: Path) -> Iterator[str]:
    """Yield the Python files of a project, relative to its root."""
    for directory, below, files in os.walk(root):
        inside = Path(directory).relative_to(root).parts[:1] == (_DEFINITIONS,)
        below[:] = [name for name in below if _is_code_directory(Path(directory, name), definitions=inside)]
        for name in files:
            if name.endswith(".py") and not name.startswith("."):
                yield Path(directory, name).relative_to(root).as_posix()


def _is_code_directory(path: Path, *, definitions: bool) -> bool:
    if path.name.startswith(".") or path.name == "__pycache__":
        return False
    return definitions or (path.name not in _NOT_CODE and not (path / "pyvenv.cfg").exists())


def _content(root: Path, path: str) -> bytes | None:
    """Return the content of a file; None if it is gone by now, or is not a file."""
    try:
        if not stat.S_ISREG((root / path).stat().st_mode):
            return None
        return (root / path).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DefinitionError(f"cannot be read: {error.strerror}", place=Place(path)) from None


class CodeReader:
    """The code of a project as it is now. It is read again only when its files seem to have changed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()  # the signature and the code belong together
        self._signature: Signature | None = None
        self._code: Code | None = None

    def current(self) -> Code:
        """Return the code as it is now."""
        with self._lock:
            began = time.time()
            signature = _signature(self._root)
            if self._code is None or signature != self._signature:
                code = read_code(self._root)
                if self._code is None or code.hash != self._code.hash:
                    self._code = code
                # An edit in the same moment as the last one could have the same time and size.
                settled = all(changed < (began - SETTLED_S) * 1e9 for _, _, _, changed, _ in signature)
                self._signature = signature if settled else None
            return self._code


def _signature(root: Path) -> Signature:
    """Return names, times, sizes and numbers of all files. They differ if the code changed, and are quick to read."""
    found = []
    for path in code_files(root):
        try:
            status = (root / path).stat()
        except OSError:
            continue
        found.append((path, status.st_mtime_ns, status.st_size, status.st_ctime_ns, status.st_ino))
    return frozenset(found)
