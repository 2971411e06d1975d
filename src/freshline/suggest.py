"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

MOST_SHOWN = 5


def closest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that is most similar to `name`, regardless of case, or None if none is similar."""
    by_lower = {one.lower(): one for one in sorted(known)}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[found[0]] if found else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" to be appended to an error, or an empty string if no name is similar."""
    near = closest(name, known, cutoff=0.65)
    return f"; did you mean {near!r}?" if near else ""


def hint(name: str, known: Collection[str]) -> str:
    """Return "did you mean 'x'?", or the first known names if none is similar."""
    near = closest(name, known)
    return f"did you mean {near!r}?" if near else f"known are {', '.join(list(known)[:MOST_SHOWN]) or 'none'}"
