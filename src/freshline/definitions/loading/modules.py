"""Python definitions of a project. Each load imports `workflows/**/*.py` again and removes the modules afterwards."""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from freshline.definitions.code import Code
from freshline.definitions.decorators import CONTEXT, AssetFunction, collecting
from freshline.definitions.loading.code_import import imported_from
from freshline.definitions.names import view_of
from freshline.definitions.validation.findings import Findings
from freshline.definitions.validation.problems import Loc, Problem
from freshline.errors import DefinitionError, FreshlineError, Place
from freshline.suggest import suggestion

_importing = threading.RLock()


@dataclass(frozen=True, slots=True)
class FunctionOrigin:
    """The origin of a workflow that a decorated function declares."""

    data: Any
    at: Place

    def place(self, loc: Loc = ()) -> Place:  # noqa: ARG002 - all parts are at the function
        """Return the file and line of the function."""
        return self.at


def decorated_functions(root: Path, code: Code, findings: Findings) -> list[AssetFunction]:
    """Return the `@asset` functions of the code. An exception in user code becomes an error with the user's line."""
    files = sorted(root / path for path in code.files if path.startswith("workflows/"))
    if not files:
        return []
    with _importing, _fresh_imports(root, code), collecting() as found:
        for file in files:
            _import(root, file, findings)
    return [replace(one, place=_relative(one.place, root)) for one in found]


def workflow_origins(functions: list[AssetFunction], known: Iterable[str], findings: Findings) -> list[FunctionOrigin]:
    """Return the workflows that the functions declare. Each parameter is resolved to one of the `known` assets."""
    views: dict[str, list[str]] = {}
    for asset_id in sorted(set(known)):
        views.setdefault(view_of(asset_id).lower(), []).append(asset_id)
    return [_origin(function, views, findings) for function in functions]


def _origin(declared: AssetFunction, views: dict[str, list[str]], findings: Findings) -> FunctionOrigin:
    step = declared.definition["steps"][0]
    origin = FunctionOrigin({**declared.definition, "steps": [step]}, declared.place)
    consumes = []
    for name, asset_id in _named_inputs(declared, views, origin, findings):
        view = {} if view_of(asset_id) == name else {"as": name}
        consumes.append({"assetId": asset_id, **view, **declared.blocks.get(name, {})})
    job = {**step["job"], "entrypoint": declared.entrypoint}
    complete = {**step, "job": job, **({"consumes": consumes} if consumes else {})}
    data = {**declared.definition, "steps": [complete]}
    if not _storable(data):
        message = "holds a number that is not finite, or a text with the character NUL or half a surrogate pair"
        findings.add(origin, Problem(("steps", 0, "produces", 0), f"{message}; remove it"))
    return replace(origin, data=data)


def _storable(data: Any) -> bool:
    """Return whether PostgreSQL can store the data. Values that JSON does not have are found later by the models."""
    try:
        text = json.dumps(data, allow_nan=False, default=str, ensure_ascii=False)
    except ValueError:
        return False
    return "\\u0000" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _named_inputs(
    declared: AssetFunction, views: dict[str, list[str]], origin: FunctionOrigin, findings: Findings
) -> Iterator[tuple[str, str]]:
    parameters = declared.definition.get("parameters") or {}
    signature = {parameter.name: parameter for parameter in declared.parameters}
    for name in [*signature, *(name for name in declared.inputs if name not in signature)]:
        if name in declared.inputs:
            yield name, declared.inputs[name]
        elif name != CONTEXT and name not in parameters:
            found = views.get(name.lower(), [])
            if len(found) == 1:
                yield name, found[0]
            elif signature[name].default is signature[name].empty:
                findings.add(origin, Problem(("steps", 0, "produces", 0), _unresolved(name, found, views)))


def _unresolved(name: str, found: list[str], views: dict[str, list[str]]) -> str:
    if found:
        return f"parameter {name!r} may be {' or '.join(map(repr, found))}; say which with inputs={{{name!r}: ...}}"
    near = suggestion(name, views) or ""
    return f"parameter {name!r} names no known asset{near or ';'} say which with inputs={{{name!r}: 'asset.id'}}"


def _import(root: Path, file: Path, findings: Findings) -> None:
    shown = file.relative_to(root).as_posix()
    name = _module_name(root, file)
    if not all(part.isidentifier() for part in name.split(".")):
        message = "cannot be imported; allowed are letters, digits and _ in names of Python files"
        findings.errors.append(DefinitionError(message, place=Place(shown)))
        return
    try:
        _check_origin(importlib.import_module(name), file, shown)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - user code must not end the loader
        findings.errors.append(_import_error(error, root, shown))


def _module_name(root: Path, file: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _check_origin(module: ModuleType, file: Path, shown: str) -> None:
    if Path(module.__file__ or "").resolve() != file.resolve():
        message = f"another package {module.__name__.split('.')[0]!r} hides it: {module.__file__}"
        raise DefinitionError(message, place=Place(shown), hint="add an empty workflows/__init__.py")


def _import_error(error: BaseException, root: Path, shown: str) -> DefinitionError:
    if isinstance(error, FreshlineError):
        place = error.place or _user_frame(error, root) or Place(shown)
        return DefinitionError(error.message, place=_relative(place, root), hint=error.hint)
    if isinstance(error, SyntaxError) and error.filename:
        place = _relative(Place(error.filename, error.lineno), root)
        return DefinitionError(f"cannot be parsed as Python: {error.msg}", place=place)
    text = str(error).strip().splitlines()
    raised = f"{type(error).__name__}: {text[0][:500]}" if text else type(error).__name__
    return DefinitionError(f"importing it raised {raised}", place=_user_frame(error, root) or Place(shown))


def _user_frame(error: BaseException, root: Path) -> Place | None:
    frames = [frame for frame in extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(root)]
    return _relative(Place(frames[-1].filename, frames[-1].lineno), root) if frames else None


def _relative(place: Place, root: Path) -> Place:
    path = Path(place.file)
    return Place(path.relative_to(root).as_posix(), place.line) if path.is_relative_to(root) else place


@contextmanager
def _fresh_imports(root: Path, code: Code) -> Iterator[None]:
    """Import the project from memory. Restore the import path and the modules afterwards."""
    hidden = _remove_modules(root)
    try:
        with imported_from(code, root, [str(root)]):
            yield
    finally:
        _remove_modules(root)
        sys.modules.update(hidden)


def _remove_modules(root: Path) -> dict[str, ModuleType]:
    """Remove and return the loaded modules of the project, and any other module called `workflows`."""
    names = [name for name, module in sys.modules.items() if name.split(".")[0] == "workflows" or _of(module, root)]
    return {name: sys.modules.pop(name) for name in names if name.split(".")[0] not in {"__main__", "freshline"}}


def _of(module: ModuleType | None, root: Path) -> bool:
    """Return whether a module is part of the project. Modules in a virtual environment inside of it are not."""
    file = getattr(module, "__file__", None)
    places = [file] if file else list(getattr(module, "__path__", ()) or ())
    return any(_inside(str(place), root) for place in places)


def _inside(place: str | None, root: Path) -> bool:
    if place is None or not place.startswith(f"{root}{os.sep}"):
        return False
    parts = Path(place).relative_to(root).parts
    return "site-packages" not in parts and not any(part.startswith(".") for part in parts)
