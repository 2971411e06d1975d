"""Names of columns that every reader of Delta tables can read."""

from __future__ import annotations

import re

FORBIDDEN = re.compile(r"[ ,;{}()\n\t=]")
SHOWN = "' ,;{}()=' or a line break"


def is_storable(name: str) -> bool:
    """Return whether a Delta table may have a column with this name."""
    return FORBIDDEN.search(name) is None
