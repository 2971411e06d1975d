"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

MOST_SHOWN = 5


def did_you_mean(name: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> str | None:
    """Return "did you mean 'x' or 'y'?" with the most similar names, regardless of case; None if none is similar."""
    by_lower = {one.lower(): one for one in sorted(known)}
    found = get_close_matches(name.lower(), by_lower, n=most, cutoff=cutoff)
    return f"did you mean {' or '.join(repr(by_lower[one]) for one in found)}?" if found else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" to be appended to an error; an empty string if no name is similar."""
    sentence = did_you_mean(name, known, cutoff=0.65)
    return f"; {sentence}" if sentence else ""


def hint(name: str, known: Collection[str]) -> str:
    """Return "did you mean 'x'?", or the first known names if none is similar."""
    more = ", ..." if len(known) > MOST_SHOWN else ""  # a warning may be a header of HTTP, which has no ellipsis
    return did_you_mean(name, known) or f"known are {', '.join(list(known)[:MOST_SHOWN]) or 'none'}{more}"
