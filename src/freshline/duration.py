"""Durations as text: `1h30m` is 5,400,000 milliseconds."""

from __future__ import annotations

import re
from decimal import Decimal

UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
LONGEST_MS = 10 * 366 * UNITS["d"]
PATTERN = r"^(\d+(\.\d+)?(ms|s|m|h|d|w))+$"

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)", re.ASCII)
_WHOLE = re.compile(PATTERN, re.ASCII)


def milliseconds(value: object) -> int:
    """Parse a duration such as `90s`, `1h30m` or `1.5d`. Raise `ValueError` with what is allowed."""
    text = value.replace(" ", "") if isinstance(value, str) else ""
    if not _WHOLE.fullmatch(text) or len(text) > 100:  # noqa: PLR2004
        raise ValueError(
            f"{str(value)[:80]!r} is not a duration; allowed are numbers with ms, s, m, h, d, w: 90s, 1h30m"
        )
    total = sum(Decimal(number) * UNITS[unit] for number, unit in _PART.findall(text))
    if total != int(total) or total > LONGEST_MS:
        raise ValueError(f"{text!r} is not a whole number of milliseconds up to 10 years")
    return int(total)


def as_text(ms: int) -> str:
    """Return milliseconds as users write them, in the largest unit that leaves no rest: 90s, 1h."""
    unit = next((unit for unit, size in reversed(UNITS.items()) if ms and ms % size == 0), "ms")
    return f"{ms // UNITS[unit]}{unit}"


def in_words(seconds: float) -> str:
    """Format a duration with two significant digits."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            value = seconds / size
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"  # noqa: PLR2004 - two digits
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004 - two digits
