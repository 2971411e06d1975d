"""Times as tests and load files write them: a time of day, or a date."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

from freshline.errors import UsageError


def moment_of(given: str | datetime, now: datetime, *, first: bool = False) -> datetime:
    """Return the next such time of day, or the date. `first`: the time of day may be now."""
    if isinstance(given, datetime):
        found = given if given.tzinfo else given.replace(tzinfo=UTC)
    else:
        found = _parsed(given, now, first=first)
    if found < now and not first:
        raise UsageError(f"{given} lies before {now:%Y-%m-%d %H:%M:%S}; time only moves on")
    return found


def _parsed(text: str, now: datetime, *, first: bool) -> datetime:
    try:
        day = datetime.combine(now.date(), time.fromisoformat(text), UTC)
        return day if day > now or (first and day == now) else day + timedelta(days=1)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a time; allowed are 09:00 and 2026-01-31T18:00") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
