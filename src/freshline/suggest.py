"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

MOST_SHOWN = 5


def closest(name: str, known: Collection[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that is most similar to `name`, or None if none is similar."""
    return next(iter(get_close_matches(name, known, n=1, cutoff=cutoff)), None)


def known_names(name: str, known: Collection[str]) -> str:
    """Return "did you mean 'x'?", or the first known names if none is similar to `name`."""
    near = closest(name, known)
    if near is not None:
        return f"did you mean {near!r}?"
    return f"known are {', '.join(list(known)[:MOST_SHOWN]) or 'none'}"
