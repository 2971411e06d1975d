"""The manifest `freshline.toml`, which makes a directory a project. It may be empty."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from freshline.definitions import names
from freshline.errors import DefinitionError, DefinitionErrors, Place
from freshline.model.json import Json
from freshline.suggest import suggestion

FILE = "freshline.toml"
MOST_POOLS = 1_000
MOST_SLOTS = 10_000
_KNOWN = ("name", "pools")
_LINE = re.compile(r"at line (\d+)")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The name of a project, and the limit of concurrent runs of each pool."""

    name: str
    pools: Mapping[str, int]


def read_manifest(root: Path) -> Manifest:
    """Read the manifest of the project in `root`. The default name is that of the directory."""
    text = _text(root)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = _LINE.search(str(error))
        place = Place(FILE, int(line[1]) if line else None)
        raise DefinitionErrors([DefinitionError(f"cannot be read as TOML: {error}", place=place)]) from None
    errors = [DefinitionError(message, place=_place(text, key)) for key, message in _mistakes(data)]
    if errors:
        raise DefinitionErrors(errors)
    return Manifest(str(data.get("name", names.project_of(root.name))), dict(data.get("pools", {})))


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


def _mistakes(data: Json) -> Iterator[tuple[str, str]]:
    """Yield every mistake with its key."""
    for key in data:
        if key not in _KNOWN:
            yield key, f"unknown field {key!r}{suggestion(key, _KNOWN) or '; known are name and pools'}"
    name = data.get("name", "project")
    if not isinstance(name, str) or not names.PROJECT.fullmatch(name):
        yield "name", f"'name' is {name!r}; allowed are 1-100 letters, digits and . _ -, a letter or digit first"
    yield from _pool_mistakes(data.get("pools", {}))


def _pool_mistakes(pools: object) -> Iterator[tuple[str, str]]:
    if not isinstance(pools, dict):
        yield "pools", f"'pools' is {pools!r}; write a table with a limit per pool, as in [pools] warehouse = 2"
        return
    if len(pools) > MOST_POOLS:
        yield "pools", f"there are {len(pools)} pools; allowed are {MOST_POOLS}"
    for name, slots in pools.items():
        try:
            names.pool(name)
        except ValueError as error:
            yield name, str(error)
        # `true` would pass isinstance(…, int).
        if type(slots) is not int or not 1 <= slots <= MOST_SLOTS:
            yield name, f"pool {name!r} has the limit {slots!r}; allowed are whole numbers from 1 to {MOST_SLOTS}"


def _place(text: str, key: str) -> Place:
    pattern = re.compile(rf"\s*\[*\s*[\"']?{re.escape(key)}\b")
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if pattern.match(line)]
    return Place(FILE, lines[0] if lines else None)
