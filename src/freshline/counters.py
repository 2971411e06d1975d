"""Counters and durations of this process, for metrics."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from threading import Lock

_lock = Lock()
_counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)  # seconds


@dataclass(slots=True)
class Durations:
    """A histogram of durations: a count for each of `BOUNDS`, and one for longer durations."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0


_durations: dict[str, Durations] = {}


def count(name: str, by: int = 1, **labels: str) -> None:
    """Add to a counter. Labels must come from small closed sets: codes and states, never ids."""
    with _lock:
        _counts[name, tuple(sorted(labels.items()))] += by


def observe(name: str, seconds: float) -> None:
    """Add a duration to a histogram."""
    with _lock:
        found = _durations.setdefault(name, Durations())
        found.counts[bisect_left(BOUNDS, seconds)] += 1
        found.total += seconds


def durations() -> dict[str, Durations]:
    """Return all histograms by name."""
    with _lock:
        return {name: Durations(list(found.counts), found.total) for name, found in _durations.items()}


def read() -> dict[str, list[tuple[dict[str, str], int]]]:
    """Return all counters: by name, each set of labels with its count."""
    with _lock:
        items = list(_counts.items())
    result: dict[str, list[tuple[dict[str, str], int]]] = {}
    for (name, labels), value in items:
        result.setdefault(name, []).append((dict(labels), value))
    return result


def snapshot() -> dict[str, dict[str, int]]:
    """Return all counters: by name and `label=value,…`, the count."""
    with _lock:
        items = list(_counts.items())
    result: dict[str, dict[str, int]] = {}
    for (name, labels), value in items:
        result.setdefault(name, {})[",".join(f"{k}={v}" for k, v in labels)] = value
    return result
