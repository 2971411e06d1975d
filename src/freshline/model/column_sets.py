"""Sets of columns that consumers read, and the text that names each (docs/semantics.md#R1.6)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

ColumnSet = tuple[str, ...]


def column_set(names: Iterable[str]) -> ColumnSet:
    """Return the names in lower case, as Spark compares them, each once and in order."""
    return tuple(sorted({name.lower() for name in names}))


def set_key(columns: Iterable[str]) -> str:
    """Return the text by which the fingerprints of a set are found. The empty set, of `count(*)`, has one too."""
    return hashlib.sha256(json.dumps(column_set(columns)).encode()).hexdigest()[:16]
