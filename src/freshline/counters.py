"""Counters of this process: events, decisions by reason, automatic runs by result, runs avoided."""

from __future__ import annotations

from collections import Counter
from threading import Lock

_lock = Lock()
_counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()


def count(name: str, by: int = 1, **labels: str) -> None:
    """Add to a counter. Labels must come from small closed sets: codes and states, never ids."""
    with _lock:
        _counts[name, tuple(sorted(labels.items()))] += by


def read() -> dict[str, list[tuple[dict[str, str], int]]]:
    """All counters: name, then each set of labels with its count."""
    with _lock:
        items = list(_counts.items())
    result: dict[str, list[tuple[dict[str, str], int]]] = {}
    for (name, labels), value in items:
        result.setdefault(name, []).append((dict(labels), value))
    return result


def snapshot() -> dict[str, dict[str, int]]:
    """All counters: name, then `label=value,…`, then the count."""
    with _lock:
        items = list(_counts.items())
    result: dict[str, dict[str, int]] = {}
    for (name, labels), value in items:
        result.setdefault(name, {})[",".join(f"{k}={v}" for k, v in labels)] = value
    return result
