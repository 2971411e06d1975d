"""Templates of messages: `{name}` with names from a fixed list, and nothing else. `{{` and `}}` are braces.

There are no attributes, indexes, conversions or formats: a template cannot reach anything but these texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter

from freshline.suggest import suggestion

NAMES = (
    "rule",
    "state",
    "kind",
    "root",
    "what",
    "error",
    "run",
    "assets",
    "affected",
    "downstream",
    "why",
    "commands",
    "incident",
    "since",
)
MOST_CHARS = 4_000


def check(template: str) -> str:
    """Return a template that can be filled; raise `ValueError` with what is allowed otherwise."""
    if len(template) > MOST_CHARS:
        raise ValueError(f"a template has {len(template)} characters; allowed are {MOST_CHARS}")
    try:
        parts = list(Formatter().parse(template))
    except ValueError:
        raise ValueError("a template has a brace without its partner; write {{ and }} for braces") from None
    for _, name, spec, conversion in parts:
        if name is None:
            continue
        if spec or conversion or name not in NAMES:
            written = f"{{{name}{f'!{conversion}' if conversion else ''}{f':{spec}' if spec else ''}}}"
            known = ", ".join(f"{{{one}}}" for one in NAMES)
            hint = suggestion(name, NAMES) or f"; allowed are {known}"
            raise ValueError(f"a template has {written[:80]}{hint}")
    return template


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return the template with its values. A value is inserted as it is, also if it has braces."""
    return "".join(text + (values[name] if name else "") for text, name, _, _ in Formatter().parse(template))
