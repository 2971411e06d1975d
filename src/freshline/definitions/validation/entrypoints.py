"""Checks of entry points `package.module:function`. Files are parsed, and no user code runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from freshline.definitions.code import Code
from freshline.definitions.schema.watch import PythonWatch
from freshline.definitions.schema.workflow import Source, SparkSql, Workflow
from freshline.definitions.validation.problems import Problem
from freshline.suggest import suggestion


@dataclass(frozen=True, slots=True)
class _Module:
    """The top-level names of a Python file. `open`: it may define other names dynamically."""

    file: str
    names: dict[str, ast.stmt]
    open: bool
    error: str | None = None


class EntryPoints:
    """The functions that jobs of a project may use as entry points."""

    def __init__(self, root: Path, code: Code) -> None:
        self._root = root
        self._code = code
        self._modules: dict[str, _Module | None] = {}

    def problems(self, workflow: Workflow) -> Iterator[Problem]:
        """Yield the entry points of a workflow that do not exist or cannot be called with `ctx`."""
        for index, step in enumerate(workflow.steps):
            if not isinstance(step.job, SparkSql):
                message = self._problem(step.job.entrypoint)
                if message:
                    yield Problem(
                        ("steps", index, "job", "entrypoint"), f"entrypoint {step.job.entrypoint!r}: {message}"
                    )

    def source_problems(self, source: Source) -> Iterator[Problem]:
        """Yield the entry point of a source's watch if it does not exist or cannot be called with `ctx`."""
        if isinstance(source.watch, PythonWatch) and (message := self._problem(source.watch.python)):
            yield Problem(("watch", "python"), f"entry point {source.watch.python!r}: {message}")

    def _problem(self, entrypoint: str) -> str | None:
        name, function = entrypoint.split(":")
        if name not in self._modules:
            self._modules[name] = self._find(name)
        module = self._modules[name]
        if module is None:
            path = name.replace(".", "/")
            return f"module {name!r} does not exist; looked for {path}.py and {path}/__init__.py in the project"
        if module.error is not None:
            return module.error
        if function not in module.names:
            return (
                None
                if module.open
                else f"{module.file} has no function {function!r}{suggestion(function, module.names)}"
            )
        return _not_callable(module.names[function], module.file)

    def _find(self, name: str) -> _Module | None:
        parts = name.split(".")
        path = "/".join(parts)
        for own in (f"{path}.py", f"{path}/__init__.py"):
            if own in self._code.files:
                return _parse(own, self._code.files[own])
        places = _installed(parts[0])
        for place in places:
            file = _file_of(place, parts)
            if file is not None and not self._is_stray(file):
                return _read(file)
        # A built-in or compiled module cannot be parsed, but the worker can import it.
        return _Module(name, {}, open=True) if places and len(parts) == 1 else None

    def _is_stray(self, file: Path) -> bool:
        """Return whether a file is in the project's directory, but neither its code nor installed: no job finds it."""
        inside = file.is_relative_to(self._root)
        return (
            inside and "site-packages" not in file.parts and str(file.relative_to(self._root)) not in self._code.files
        )


def _read(file: Path) -> _Module:
    try:
        return _parse(str(file), file.read_bytes())
    except OSError as error:
        return _Module(str(file), {}, open=False, error=f"{file} cannot be read: {error.strerror}")


def _parse(shown: str, source: bytes) -> _Module:
    try:
        tree = ast.parse(source, filename=shown)
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        return _Module(shown, {}, open=False, error=f"{shown}{line} cannot be parsed: {error.args[0]}")
    names = dict(_defined(tree.body))
    return _Module(shown, names, open="*" in names or "__getattr__" in names)


def _installed(top: str) -> list[Path]:
    """Return the directories of an installed top-level module. Nothing is imported."""
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations:
        return [Path(location).parent for location in spec.submodule_search_locations]
    return [Path(spec.origin or top).parent]


def _file_of(place: Path, parts: list[str]) -> Path | None:
    path = place.joinpath(*parts)
    found = (path.with_name(f"{path.name}.py"), path / "__init__.py")
    return next((file for file in found if file.is_file()), None)


def _defined(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement.name, statement
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name, statement) for alias in statement.names)
        elif isinstance(statement, ast.Assign):
            yield from ((target.id, statement) for target in statement.targets if isinstance(target, ast.Name))
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, statement
        else:
            for name in ("body", "orelse", "finalbody"):
                yield from _defined(getattr(statement, name, []))


def _not_callable(statement: ast.stmt, file: str) -> str | None:
    where = f"{file}:{statement.lineno}"
    if isinstance(statement, ast.AsyncFunctionDef):
        return f"{where} is an async function; allowed are plain functions"
    if not isinstance(statement, ast.FunctionDef) or statement.decorator_list:
        return None
    arguments = statement.args
    positional = [*arguments.posonlyargs, *arguments.args]
    required = len(positional) - len(arguments.defaults)
    if (not positional and arguments.vararg is None) or required > 1:
        return f"{where} takes {len(positional)} arguments; a job function takes one, ctx"
    return None
