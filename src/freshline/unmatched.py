"""Warnings about names that match nothing: a misspelled filter or parameter otherwise looks like an empty answer."""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from freshline.model.documents.asset import Name
from freshline.model.enums import EventType
from freshline.suggest import hint

WILDCARDS = frozenset("*?[")
_CHARACTERS = string.ascii_letters + string.digits + "_.:-"  # of names of assets and workflows
_PARTS = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)


def is_pattern(name: str) -> bool:
    """Return whether a name is a pattern such as `sales.*`."""
    return not WILDCARDS.isdisjoint(name)


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that a pattern matches as a whole."""
    return [name for name in names if fnmatchcase(name, pattern)]


def as_regex(pattern: str) -> str:
    """Return a pattern as a regular expression of PostgreSQL that matches the same names, as a whole."""
    parts = (_part(one) for one in _PARTS.findall(pattern))
    return f"^{''.join(parts)}$"


def _part(text: str) -> str:
    if text == "*":
        return ".*"
    if text == "?":
        return "."
    if len(text) == 1:
        return text if text.isalnum() or text == "_" else f"\\{text}"
    # The two languages differ in escapes and ranges: only the characters themselves are the same in both.
    members = "".join(f"\\{one}" if not one.isalnum() else one for one in _CHARACTERS if fnmatchcase(one, text))
    return f"[{members}]" if members else "(?!.*)"


def unknown_types(types: Iterable[str]) -> list[str]:
    """Return a warning for each type that no event can have: a type, its beginning, or a pattern."""
    known = [str(one) for one in EventType]
    return [
        f"no event has the type {one!r}; {hint(one, known)}"
        for one in types
        if not matching(one, known) and not any(name.startswith(f"{one.rstrip('*').rstrip('.')}.") for name in known)
    ]


def unmatched_assets(patterns: Iterable[str], names: Collection[str]) -> list[str]:
    """Return a warning for each pattern that matches no known asset. One may be made later."""
    return [
        f"no asset matches {one!r} now; {hint(one.strip('*.'), names)}" for one in patterns if not matching(one, names)
    ]


def unmatched_filters(types: Iterable[str], assets: Iterable[str], names: Iterable[Name]) -> list[str]:
    """Return warnings about filters of events that match no type, or no asset."""
    known = [one["name"] for one in names if one["kind"] == "asset"]
    return [*unknown_types(types), *unmatched_assets(assets, known)]


def unknown_parameters(slug: str, given: Iterable[str], definition: Mapping[str, Any]) -> list[str]:
    """Return a warning for each parameter of a run that neither the workflow nor one of its steps declares."""
    declared = declared_parameters(definition)
    return [
        f"workflow {slug!r} declares no parameter {one!r}; {hint(one, declared)}"
        for one in given
        if one not in declared
    ]


def declared_parameters(definition: Mapping[str, Any]) -> list[str]:
    """Return the names of the parameters that a stored definition declares."""
    jobs = (step.get("job") or {} for step in definition.get("steps") or ())
    return sorted(
        {*(definition.get("parameters") or {}), *(name for job in jobs for name in job.get("parameters") or {})}
    )
