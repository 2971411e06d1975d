"""What a step's function imports from the project, and a fingerprint of it (docs/semantics.md#R1.2).

PURE: texts of files in, names and hashes out. Only what can change a result counts. Comments, docstrings and white
space do not count, nor do other assets that are declared in the same file. Where the text does not say what is
imported, the whole project counts.
"""

from __future__ import annotations

import hashlib
import sys
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from freshline.definitions.code import Code
from freshline.definitions.python_module import Import, PythonModule, Statement, Unknown

METHOD = "2"  # of the fingerprint. Another method alone causes no run: `apply` translates what it finds.


@dataclass(frozen=True, slots=True)
class Closure:
    """The files that a function may execute. `unknown`: why these are all files of the project, if they are."""

    files: frozenset[str]
    fingerprint: str
    unknown: Unknown | None = None


class ImportGraph:
    """The imports between the files of a project. Each file is parsed at most once."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._parsed: dict[str, PythonModule] = {}
        self._closures: dict[str, Closure] = {}
        self._by_name: dict[str, list[str]] = defaultdict(list)
        for path in sorted(code.files):
            self._by_name[_module_parts(path)[-1]].append(path)

    def closure(self, entrypoint: str) -> Closure:
        """Return what the function of an entry point, `package.module:function`, may execute."""
        found = self._closures.get(entrypoint)
        if found is None:
            found = self._closures[entrypoint] = self._closed(entrypoint)
        return found

    def digests(self, closures: Iterable[Closure]) -> dict[str, str]:
        """Return a short digest of each file of these closures, which is the same after an edit of comments."""
        return {path: self.module(path).digest()[:16] for path in sorted(set().union(*(c.files for c in closures)))}

    def _closed(self, entrypoint: str) -> Closure:
        module, _, function = entrypoint.partition(":")
        first = self._named(tuple(module.split(".")))
        if not first:
            return self._whole(Unknown("", 0, f"the module {module!r} is not a file of the project"))
        search = _Search(self, function.partition(".")[0], first)
        unknown = search.run()
        return self._whole(unknown) if unknown else Closure(frozenset(search.kept), search.fingerprint())

    def _whole(self, unknown: Unknown) -> Closure:
        """Return a closure of all files."""
        digest = hashlib.sha256()
        for path in sorted(self._code.files):
            digest.update(f"{path}\0{self.module(path).digest()}\0".encode())
        return Closure(frozenset(self._code.files), digest.hexdigest(), unknown)

    def module(self, path: str) -> PythonModule:
        """Return a parsed file."""
        found = self._parsed.get(path)
        if found is None:
            found = self._parsed[path] = PythonModule.parse(path, self._code.files[path])
        return found

    def imported(self, path: str, found: Import) -> Iterator[str]:
        """Yield the files that an import statement in a file may execute."""
        if found.level:
            base, exact = PurePosixPath(path).parts[: -found.level] + found.module, True
        else:
            base, exact = found.module, found.module[0] in sys.stdlib_module_names
        yield from self._files_of(base, exact=exact)
        for name in found.names:
            if name == "*":
                yield from self._inside(base, exact=exact)
            else:
                yield from self._files_of((*base, name), exact=exact)

    def _files_of(self, module: tuple[str, ...], *, exact: bool) -> Iterator[str]:
        """Yield the files of a module. `exact`: only below the root."""
        yield from (path for path in self._named(module) if not exact or tuple(_module_parts(path)) == module)

    def _named(self, module: tuple[str, ...]) -> list[str]:
        """Return the files that have this name, in any folder: each of them may be on the import path."""
        if not module:
            return []
        return [path for path in self._by_name[module[-1]] if tuple(_module_parts(path)[-len(module) :]) == module]

    def _inside(self, module: tuple[str, ...], *, exact: bool) -> Iterator[str]:
        """Yield the files directly in a package: `import *` may import them."""
        for path in self._code.files:
            parent = tuple(_module_parts(path)[:-1])
            if parent and (parent == module if exact else parent[-len(module) :] == module):
                yield path

    def packages(self, path: str) -> Iterator[str]:
        """Yield the packages that a file is in: importing it executes them."""
        for folder in PurePosixPath(path).parents:
            name = (folder / "__init__.py").as_posix()
            if name in self._code.files and name != path:
                yield name


class _Search:
    """Follows the imports of a function. `kept`: per file the statements that count, by their place."""

    def __init__(self, graph: ImportGraph, function: str, first: Iterable[str]) -> None:
        self._graph = graph
        self._entry = (frozenset(first), function)
        self._names: set[str] = set()
        self._queue: deque[tuple[str, int, Statement]] = deque()
        self._assets: list[tuple[str, int, Statement]] = []
        self.kept: dict[str, dict[int, str]] = {}
        for path in self._entry[0]:
            self._add(path)

    def run(self) -> Unknown | None:
        """Visit every statement that may be executed. Return the first that hides what it imports."""
        while self._queue or self._call_assets():
            path, place, statement = self._queue.popleft()
            if statement.unknown is not None:
                return statement.unknown
            self.kept[path][place] = statement.digest
            self._names |= statement.names
            for found in statement.imports:
                for imported in self._graph.imported(path, found):
                    self._add(imported)
        return None

    def fingerprint(self) -> str:
        """Return a hash of all statements that count."""
        digest = hashlib.sha256()
        for path, statements in sorted(self.kept.items()):
            digest.update(f"{path}\0".encode())
            for _, one in sorted(statements.items()):
                digest.update(f"{one}\0".encode())
        return digest.hexdigest()

    def _add(self, path: str) -> None:
        if path in self.kept:
            return
        self.kept[path] = {}
        for place, statement in enumerate(self._graph.module(path).statements):
            (self._queue if statement.asset is None else self._assets).append((path, place, statement))
        for package in self._graph.packages(path):
            self._add(package)

    def _call_assets(self) -> bool:
        """Queue the functions of assets that may be called: the entry point, and those whose name is mentioned."""
        files, function = self._entry
        called = [
            (path, place, one)
            for path, place, one in self._assets
            if one.asset in self._names or (path in files and one.asset == function)
        ]
        self._assets = [one for one in self._assets if one not in called]
        self._queue.extend(called)
        return bool(called)


def _module_parts(path: str) -> list[str]:
    """Return the dotted name of a file as parts: `a/b.py` and `a/b/__init__.py` are a, b."""
    parts = list(PurePosixPath(path).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts
