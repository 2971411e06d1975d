"""Imports the modules of a project from memory, under the names of the project's own files."""

from __future__ import annotations

import importlib
import linecache
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import decode_source, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from freshline.definitions.code import Code


class CodeHook:
    """A path hook: whatever directory of the project is on the import path, only the code in memory is found there.

    `copy`: a directory with the same files, which stands for the project on the import path.
    """

    def __init__(self, code: Code, project: Path, copy: Path | None = None) -> None:
        self.code = code
        self.project = project
        self.folders = code.folders()
        self._copy = copy
        self._redirect = Redirect(self)

    def __call__(self, entry: str) -> CodeFinder:
        """Return the finder for an entry of the import path. Raise ImportError if it is not in the project."""
        folder = self.folder(entry)
        if folder is None:
            raise ImportError(f"{entry} is not a directory of the project")
        return CodeFinder(self, folder)

    def folder(self, entry: str) -> str | None:
        """Return an entry of the import path relative to the project; None if it is outside, or not its code."""
        for path in (Path(os.path.abspath(entry)), Path(os.path.realpath(entry))):  # noqa: PTH100 - without links
            if self._copy is not None and path.is_relative_to(self._copy):
                return _posix(path.relative_to(self._copy))
            if path.is_relative_to(self.project) and not _installed(path, self.project):
                return _posix(path.relative_to(self.project))
        return None

    def copy_of(self, entry: str) -> str:
        """Return the directory of the copy that stands for an entry of the import path."""
        folder = self.folder(entry)
        return entry if folder is None or self._copy is None else str(self._copy / folder)

    def spec(self, fullname: str, name: str, *, package: bool) -> ModuleSpec | None:
        """Return the spec of a module in this file of the code."""
        loader = CodeLoader(fullname, str(self.project / name), self.code.files[name])
        inside = [str(Path(loader.path).parent)] if package else None
        return spec_from_file_location(fullname, loader.path, loader=loader, submodule_search_locations=inside)

    def install(self) -> None:
        """Import the project's modules from memory from now on."""
        sys.path_hooks.insert(0, self)
        sys.meta_path.insert(0, self._redirect)
        self._forget()

    def remove(self) -> None:
        """Import from directories again."""
        sys.path_hooks.remove(self)
        sys.meta_path.remove(self._redirect)
        self._forget()

    def _forget(self) -> None:
        """Drop finders that were made before for directories of the project."""
        for entry in [entry for entry in sys.path_importer_cache if self.folder(entry) is not None]:
            sys.path_importer_cache.pop(entry, None)
        importlib.invalidate_caches()


def _posix(path: Path) -> str:
    return "" if path == Path() else path.as_posix()


def _installed(path: Path, project: Path) -> bool:
    """Return whether a directory of the project holds installed packages, or is hidden."""
    parts = path.relative_to(project).parts
    prefix = Path(sys.prefix)
    inside = prefix.is_relative_to(project) and prefix != project and path.is_relative_to(prefix)
    return inside or "site-packages" in parts or any(part.startswith(".") for part in parts)


class CodeFinder:
    """Finds modules in one folder of the code."""

    def __init__(self, hook: CodeHook, folder: str) -> None:
        self._hook = hook
        self._prefix = f"{folder}/" if folder else ""

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:  # noqa: ARG002 - protocol
        """Return the spec of a module, a package, or a part of a package without `__init__.py`."""
        path = self._prefix + fullname.rpartition(".")[2]
        files, project = self._hook.code.files, self._hook.project
        for name, package in ((f"{path}/__init__.py", True), (f"{path}.py", False)):
            if name in files:
                return self._hook.spec(fullname, name, package=package)
        if path not in self._hook.folders:
            return None
        spec = ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = [str(project / path)]
        return spec

    def iter_modules(self, prefix: str = "") -> Iterator[tuple[str, bool]]:
        """Yield the modules of this folder, for `pkgutil`."""
        found: dict[str, bool] = {}
        for path in self._hook.code.files:
            if path.startswith(self._prefix):
                first, _, rest = path[len(self._prefix) :].partition("/")
                if rest == "__init__.py" or (not rest and first != "__init__.py"):
                    found[first.removesuffix(".py")] = bool(rest)
        yield from ((prefix + name, package) for name, package in sorted(found.items()))

    def invalidate_caches(self) -> None:
        """Do nothing: the code does not change."""


class Redirect(MetaPathFinder):
    """Asks all other finders, and redirects files of the project to the code: editable installations name files."""

    def __init__(self, hook: CodeHook) -> None:
        self._hook = hook

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what the other finders find. Raise ModuleNotFoundError for a file of the project that is not code."""
        spec = self._found(fullname, path, target)
        if spec is None or spec.origin is None or not spec.has_location or isinstance(spec.loader, CodeLoader):
            return spec
        folder = self._hook.folder(str(Path(spec.origin).parent))
        if folder is None:
            return spec
        name = f"{folder}/{Path(spec.origin).name}".lstrip("/")
        if name in self._hook.code.files:
            return self._hook.spec(fullname, name, package=spec.submodule_search_locations is not None)
        raise ModuleNotFoundError(
            f"No module named {fullname!r}: {name} is not part of the applied code", name=fullname
        )

    def _found(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        others = (getattr(finder, "find_spec", None) for finder in list(sys.meta_path) if finder is not self)
        return next((spec for find in others if find and (spec := find(fullname, path, target))), None)


class CodeLoader(SourceFileLoader):
    """Compiles a module from memory. Its name is that of the project's file, and so are its data files."""

    def __init__(self, fullname: str, path: str, source: bytes) -> None:
        super().__init__(fullname, path)
        self._source = source

    def get_data(self, path: str) -> bytes:
        """Return the module's source from memory, or the content of another file."""
        return self._source if path == self.path else super().get_data(path)

    def get_code(self, fullname: str) -> CodeType:
        """Compile the source. Cached bytecode is never used: it is compared by whole seconds."""
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self._source, path)
        # Tracebacks show the lines that run, also after the file was edited. No time: never read from disk again.
        text = decode_source(self._source)
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        return code


@contextmanager
def imported_from(code: Code, project: Path, path: Sequence[str]) -> Iterator[None]:
    """Import the project from memory, with these entries first on the import path; restore the path afterwards."""
    hook, before = CodeHook(code, project), list(sys.path)
    sys.path[:0] = path
    hook.install()
    try:
        yield
    finally:
        hook.remove()
        sys.path[:] = before
