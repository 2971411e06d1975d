"""`freshline.toml`: what makes a directory a project. It may be empty."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from freshline.definitions import names
from freshline.errors import DefinitionError, DefinitionErrors, Place

FILE = "freshline.toml"
_KNOWN = ("name",)
_LINE = re.compile(r"at line (\d+)")


def project_name(root: Path) -> str:
    """The name of the project in `root`: `name` in its `freshline.toml`, else the directory's (R10.1)."""
    text = _text(root)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = _LINE.search(str(error))
        place = Place(FILE, int(line[1]) if line else None)
        raise DefinitionErrors([DefinitionError(f"cannot be read as TOML: {error}", place=place)]) from None
    errors = list(_errors(data, text))
    if errors:
        raise DefinitionErrors(errors)
    return str(data.get("name", names.project_of(root.name)))


def _text(root: Path) -> str:
    if not root.is_dir():
        raise DefinitionErrors(
            [DefinitionError(f"the project directory {root} does not exist", hint=f"make one: freshline init {root}")]
        )
    try:
        return (root / FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        message = f"{root} is not a project: it has no {FILE}"
        raise DefinitionErrors([DefinitionError(message, hint=f"make one: freshline init {root}")]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionErrors([DefinitionError(f"cannot be read: {error}", place=Place(FILE))]) from None


def _errors(data: dict[str, Any], text: str) -> list[DefinitionError]:
    errors = [
        DefinitionError(
            f"unknown field {key!r}{names.suggestion(key, _KNOWN) or '; known is name'}", place=_place(text, key)
        )
        for key in data
        if key not in _KNOWN
    ]
    name = data.get("name", "project")
    if not isinstance(name, str) or not names.PROJECT.fullmatch(name):
        message = f"'name' is {name!r}; allowed are 1-100 letters, digits and . _ -, a letter or digit first"
        errors.append(DefinitionError(message, place=_place(text, "name")))
    return errors


def _place(text: str, key: str) -> Place:
    pattern = re.compile(rf"\s*\[*\s*[\"']?{re.escape(key)}\b")
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if pattern.match(line)]
    return Place(FILE, lines[0] if lines else None)
