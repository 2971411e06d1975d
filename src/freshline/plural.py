"""Counts with their nouns: 1 run, 2 runs."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: `1 run`, `1,204 runs`. `plural`: if it is not the noun with an `s`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
