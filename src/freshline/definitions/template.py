"""The small working project that `freshline init` makes: one source, two assets, a test of the policy."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from freshline.errors import ConflictError

# Python files and dot files are kept under another name, so that tools do not take them for this package's own.
_SUFFIX = ".tmpl"
_DOTTED = {"gitignore": ".gitignore"}


def write_template(directory: Path) -> list[Path]:
    """Write the project's files and return them. If one of them exists, `ConflictError`, and nothing is written."""
    planned = {directory / name: content for name, content in _contents()}
    taken = sorted(path for path in planned if path.exists())
    if taken:
        raise ConflictError(f"{taken[0]} exists; a new project needs a directory without it; nothing was written")
    for path, content in planned.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return sorted(planned)


def _contents() -> Iterator[tuple[str, bytes]]:
    for path, entry in _walk(files("freshline.definitions") / "template", PurePosixPath()):
        name = path.name.removesuffix(_SUFFIX)
        yield str(path.with_name(_DOTTED.get(name, name))), entry.read_bytes()


def _walk(directory: Traversable, path: PurePosixPath) -> Iterator[tuple[PurePosixPath, Traversable]]:
    for entry in sorted(directory.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            yield from _walk(entry, path / entry.name)
        else:
            yield path / entry.name, entry
