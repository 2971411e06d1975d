"""Named SQL statements: each is in `sql/*.sql` under a `-- name:` header with a one-line purpose."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import LiteralString, cast

FILES = Path(__file__).parents[1] / "sql"
_HEADER = re.compile(r"^-- name: (\w+)\n-- purpose: .+\n", re.MULTILINE)


@cache
def load(name: str) -> Mapping[str, LiteralString]:
    """Return the statements of `sql/<name>.sql` by name."""
    text = (FILES / f"{name}.sql").read_text(encoding="utf-8")
    _, *parts = _HEADER.split(text)
    # Our own package's files are as literal as text in the source.
    return MappingProxyType(
        {key: cast("LiteralString", sql.strip()) for key, sql in zip(parts[::2], parts[1::2], strict=True)}
    )
