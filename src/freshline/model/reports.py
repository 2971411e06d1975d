"""Reports of sources as callers give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SourceReport:
    """A report of one source among several that belong together. `key` makes it idempotent."""

    asset_id: str
    version: str | None = None
    key: str | None = None
    sequence: int | None = None
    payload: Any = None
    partition_key: str = ""
