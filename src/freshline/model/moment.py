"""The format of times in JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload


@overload
def iso(moment: datetime) -> str: ...
@overload
def iso(moment: None) -> None: ...
@overload
def iso(moment: datetime | None) -> str | None: ...
def iso(moment: datetime | None) -> str | None:
    """Format a time as ISO 8601 in UTC."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parsed(text: str | None) -> datetime | None:
    """Return the time of a text in ISO 8601; None for None."""
    return None if text is None else datetime.fromisoformat(text)
