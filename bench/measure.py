"""Results of benchmarks: pairs of times, their medians and spread, and claims about them.

No figure is constant: a ratio exists only where both sides were measured in the same run.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

DIGITS = 4


@dataclass(frozen=True, slots=True)
class Options:
    """Size of a measurement. `quick`: tiny, to check that the benchmark works; its figures mean nothing."""

    quick: bool = False
    pairs: int | None = None
    rows: int | None = None
    events: int | None = None

    def size(self, full: int, quick: int) -> int:
        """Return the size for this measurement."""
        return quick if self.quick else full

    def rounds(self, full: int = 5, quick: int = 2) -> int:
        """Return the number of pairs to measure."""
        return self.pairs or self.size(full, quick)


@dataclass(frozen=True, slots=True)
class Claim:
    """One figure with its limit: at most, or at least. Without a limit it is only shown."""

    what: str
    value: float
    limit: float | None = None
    at_least: bool = False
    unit: str = "x"

    @property
    def met(self) -> bool | None:
        """Return whether the limit holds; None without a limit."""
        if self.limit is None:
            return None
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    @property
    def goal(self) -> str | None:
        """Return the goal as text."""
        if self.limit is None:
            return None
        return f"{self.what} {'>=' if self.at_least else '<='} {self.limit:g}{self.unit}"

    def as_json(self) -> dict[str, Any]:
        """Return plain data."""
        told = {"what": self.what, "value": round(self.value, DIGITS), "limit": self.limit, "atLeast": self.at_least}
        return {**told, "unit": self.unit, "met": self.met}


@dataclass(slots=True)
class Pairs:
    """Times of the measured side and of its baseline, measured in turns."""

    measured: list[float] = field(default_factory=list)
    baseline: list[float] = field(default_factory=list)

    def add(self, measured: float, baseline: float) -> None:
        """Add one pair."""
        self.measured.append(measured)
        self.baseline.append(baseline)

    @property
    def ratio(self) -> float:
        """Return the median of the pairs' ratios: a slow phase of the machine slows both sides of a pair."""
        if not self.measured or len(self.measured) != len(self.baseline):
            raise ValueError("a ratio needs pairs")
        return statistics.median(a / b for a, b in zip(self.measured, self.baseline, strict=True))

    def at(self, share: float) -> float:
        """Return the ratio of two percentiles, each over all samples of its side."""
        return percentile(self.measured, share) / percentile(self.baseline, share)


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a benchmark. The first claim is its ratio."""

    name: str
    claims: Sequence[Claim]
    measured: Sequence[float]
    baseline: Sequence[float]
    unit: str = "s"
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """Return whether all goals are met; None without goals."""
        known = [claim.met for claim in self.claims if claim.met is not None]
        return all(known) if known else None

    def as_json(self, options: Options, seconds: float) -> dict[str, Any]:
        """Return the last line of a benchmark."""
        return {
            "name": self.name,
            "ratio": round(self.claims[0].value, DIGITS),
            "goal": ", ".join(claim.goal for claim in self.claims if claim.goal) or None,
            "met": self.met,
            "unit": self.unit,
            "measured": spread(self.measured),
            "baseline": spread(self.baseline),
            "claims": [claim.as_json() for claim in self.claims],
            "figures": _rounded(self.figures),
            "quick": options.quick,
            "seconds": round(seconds, 1),
        }


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Return the number of samples, the median, and the range."""
    return {
        "samples": len(values),
        "median": round(statistics.median(values), DIGITS),
        "low": round(min(values), DIGITS),
        "high": round(max(values), DIGITS),
    }


def percentile(values: Iterable[float], share: float) -> float:
    """Return the smallest value that this share of all values does not exceed."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("there is nothing to take a percentile of")
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def seconds(work: Callable[[], object]) -> float:
    """Return how long a call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def show(result: dict[str, Any]) -> Iterator[str]:
    """Yield a result as lines of text."""
    for side in ("measured", "baseline"):
        one = result[side]
        yield (
            f"  {side:9} median {one['median']:g} {result['unit']}"
            f" ({one['low']:g} to {one['high']:g}, {one['samples']} samples)"
        )
    for claim in result["claims"]:
        verdict = {True: "met", False: "NOT MET", None: "no goal"}[claim["met"]]
        limit = (
            "" if claim["limit"] is None else f", {'at least' if claim['atLeast'] else 'at most'} {claim['limit']:g}"
        )
        yield f"  {claim['what']}: {claim['value']:g}{claim['unit']}{limit}: {verdict}"
    for name, value in result["figures"].items():
        yield f"  {name}: {json.dumps(value)}"


def echo(text: str) -> None:
    """Print a line of progress."""
    print(text, flush=True)


@contextmanager
def phase(text: str) -> Iterator[None]:
    """Print how long a part of the preparation took."""
    began = time.perf_counter()
    yield
    echo(f"  {text}: {time.perf_counter() - began:.1f} s")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return round(value, DIGITS) if isinstance(value, float) else value
