"""The manifest `freshline.toml`, which makes a directory a project. It may be empty."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from freshline.definitions import names
from freshline.definitions.alerts import MOST_RULES, read_rule
from freshline.errors import DefinitionError, DefinitionErrors, Place
from freshline.model.alerts import AlertRule
from freshline.model.json import Json
from freshline.suggest import suggestion

FILE = "freshline.toml"
MOST_POOLS = 1_000
MOST_SLOTS = 10_000
MOST_VARIABLES = 1_000
_KNOWN = ("name", "pools", "jobEnvironment", "alerts")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}\*?")
_LINE = re.compile(r"at line (\d+)")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The name of a project, the limit of concurrent runs of each pool, the variables of its jobs, and its alerts.

    `job_environment`: None: jobs see all variables but secrets. `named`: the file states the name.
    """

    name: str
    pools: Mapping[str, int]
    job_environment: tuple[str, ...] | None = None
    named: bool = True
    alerts: tuple[AlertRule, ...] = ()


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
    alerts, mistakes = _alerts(data.get("alerts", {}), text)
    errors += mistakes
    if errors:
        raise DefinitionErrors(errors)
    variables = data.get("jobEnvironment")
    return Manifest(
        str(data.get("name", names.project_of(root.name))),
        dict(data.get("pools", {})),
        None if variables is None else tuple(variables),
        named="name" in data,
        alerts=alerts,
    )


def _alerts(tables: object, text: str) -> tuple[tuple[AlertRule, ...], list[DefinitionError]]:
    """Return the alert rules, and a mistake of each rule that has one."""
    if not isinstance(tables, dict):
        message = "'alerts' is not a table; write one table per alert, as in [alerts.sales]"
        return (), [DefinitionError(message, place=_place(text, "alerts"))]
    rules: list[AlertRule] = []
    errors: list[DefinitionError] = []
    if len(tables) > MOST_RULES:
        message = f"there are {len(tables)} alerts; allowed are {MOST_RULES}"
        errors.append(DefinitionError(message, place=_place(text, "alerts")))
    for name, data in tables.items():
        place = _alert_place(text, name)
        try:
            rules.append(replace(read_rule(name, data), line=place.line))
        except ValueError as error:
            errors.append(DefinitionError(str(error), place=place))
    return tuple(rules), errors


def _alert_place(text: str, name: str) -> Place:
    pattern = re.compile(rf"""\s*\[\s*alerts\s*\.\s*["']?{re.escape(name)}["']?\s*\]""")
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if pattern.match(line)]
    return Place(FILE, lines[0]) if lines else _place(text, "alerts")


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
            yield key, f"unknown field {key!r}{suggestion(key, _KNOWN) or f'; known are {_listed(_KNOWN)}'}"
    name = data.get("name", "project")
    if not isinstance(name, str) or not names.PROJECT.fullmatch(name):
        yield "name", f"'name' is {name!r}; allowed are 1-100 letters, digits and . _ -, a letter or digit first"
    yield from _pool_mistakes(data.get("pools", {}))
    yield from _variable_mistakes(data.get("jobEnvironment", []))


def _variable_mistakes(variables: object) -> Iterator[tuple[str, str]]:
    key, example = "jobEnvironment", 'jobEnvironment = ["HTTPS_PROXY", "SHOP_*"]'
    if not isinstance(variables, list):
        yield key, f"'jobEnvironment' is {variables!r}; write a list of variables, as in {example}"
        return
    if len(variables) > MOST_VARIABLES:
        yield key, f"'jobEnvironment' has {len(variables)} entries; allowed are {MOST_VARIABLES}"
    for one in variables:
        if not isinstance(one, str) or not _VARIABLE.fullmatch(one):
            allowed = "names of variables, with * at the end for all that begin so"
            yield key, f"'jobEnvironment' has {one!r}; allowed are {allowed}, as in {example}"
        elif one.startswith("FRESHLINE_"):
            yield key, f"'jobEnvironment' has {one!r}; Freshline's own settings never reach jobs: remove it"


def _listed(known: tuple[str, ...]) -> str:
    return f"{', '.join(known[:-1])} and {known[-1]}"


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
