"""How many partitions of an input must have data: `require` and `grace`.

A consumer's partition reads the keys of `up`. Expected are those that exist by definition and are not retired. It may
run when enough of them have data, or with what there is once `grace` has passed after the end of its window.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from freshline import duration
from freshline.errors import PartitioningError
from freshline.model.json import Json

MOST_REQUIRED = 1_000_000
_PERCENT = re.compile(r"(\d{1,3})%", re.ASCII)
_ALL, _WHOLE = "all", 100


@dataclass(frozen=True)
class Requirement:
    """At least `count` and at least `percent` of the expected keys have data.

    The default is all of them; `any` is at least one. `grace_ms`: how long after the end of the consumer's window to
    wait for them; None is without end.
    """

    percent: int = _WHOLE
    count: int = 0
    grace_ms: int | None = None

    def needed(self, expected: int) -> int:
        """Return how many of so many expected keys must have data."""
        share = -(-expected * self.percent // _WHOLE)  # rounded up: 80% of 3 are all 3
        # A fixed number above what is expected asks for all. At least one is asked for even if none is expected yet.
        return max(share, min(self.count, max(expected, 1)))

    def as_json(self) -> Json:
        """Return the stored form, which users may write too. Defaults are left out."""
        require = self.count if self.count > 1 else "any" if self.count else f"{self.percent}%"
        return {
            **({"require": require} if self != Requirement(grace_ms=self.grace_ms) else {}),
            **({"grace": duration.as_text(self.grace_ms)} if self.grace_ms is not None else {}),
        }


ALL = Requirement()
ANY = Requirement(percent=0, count=1)


class Readiness(StrEnum):
    """Whether a consumer's partition may run on an input."""

    COMPLETE = "complete"
    PARTIAL = "partial"  # the grace has passed, and some keys have data
    MISSING = "missing"


class Assessment(NamedTuple):
    """`missing`: the expected keys without data, in their order. `grace_ends`: when to assess again; None if never."""

    readiness: Readiness
    missing: tuple[str, ...]
    grace_ends: datetime | None


def assess(
    requirement: Requirement,
    expected: Sequence[str],
    present: Collection[str],
    *,
    window_ends: datetime | None,
    now: datetime,
    outside: bool = False,
) -> Assessment:
    """Return whether enough of the expected keys have data.

    `present`: the keys with data. `window_ends`: of the consumer's partition; None if it has no time, so that no grace
    ends. `outside`: the input has no key for this partition by definition (`up` is empty), so that none is missing.
    A partition without any data is never partial: its views would have no columns.
    """
    missing = tuple(key for key in expected if key not in present)
    found = len(expected) - len(missing)
    if outside or found >= requirement.needed(len(expected)):
        return Assessment(Readiness.COMPLETE, missing, None)
    if requirement.grace_ms is None or window_ends is None:
        return Assessment(Readiness.MISSING, missing, None)
    grace_ends = window_ends + timedelta(milliseconds=requirement.grace_ms)
    if now < grace_ends:
        return Assessment(Readiness.MISSING, missing, grace_ends)
    return Assessment(Readiness.PARTIAL if found else Readiness.MISSING, missing, None)


def from_json(require: object = None, grace: object = None, *, default: Requirement = ALL) -> Requirement:
    """Return the requirement of the fields `require` and `grace`. Raise `PartitioningError` if one is wrong."""
    try:
        grace_ms = None if grace is None else duration.milliseconds(grace)
    except ValueError as error:
        raise PartitioningError(f"grace: {error}") from None
    wanted = default if require is None else _required(require)
    return Requirement(wanted.percent, wanted.count, grace_ms)


def _required(value: object) -> Requirement:
    if value == _ALL:
        return ALL
    if value == "any":
        return ANY
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_REQUIRED:
        return Requirement(percent=0, count=value)
    found = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if found and 1 <= int(found[1]) <= _WHOLE:
        return Requirement(percent=int(found[1]))
    raise PartitioningError(
        f"require is {str(value)[:80]!r}; allowed are all, any, a number from 1 on, and shares such as 80%"
    )
