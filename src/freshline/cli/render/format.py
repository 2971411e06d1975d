"""Times, durations, sizes and ids as people read and write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from freshline.duration import in_words
from freshline.errors import UsageError

SHORT_ID = 8
duration = in_words


def parse_time(text: str) -> datetime:
    """Parse a time of JSON data."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def moment(text: str | None, *, today: datetime | None = None) -> str:
    """Return a local time of day, with its date if that is not today; `-` for none."""
    if text is None:
        return "-"
    time = parse_time(text).astimezone()
    near = time.date() == (today or datetime.now(UTC)).astimezone().date()
    return time.strftime("%H:%M:%S" if near else "%Y-%m-%d %H:%M:%S")


def distance(text: str | None, now: datetime) -> str:
    """Return how far a time lies ahead or back, e.g. `in 5 min` or `2.1 h ago`; `-` for none."""
    if text is None:
        return "-"
    seconds = (parse_time(text) - now).total_seconds()
    return f"in {duration(seconds)}" if seconds > 0 else f"{duration(-seconds)} ago"


def between(start: str | None, end: str | None) -> str:
    """Return how long something took; `-` while an end is missing."""
    if start is None or end is None:
        return "-"
    return duration((parse_time(end) - parse_time(start)).total_seconds())


def short(run_id: str | None) -> str:
    """Return the end of an id: ids of the same time have the same beginning."""
    return "-" if run_id is None else run_id[-SHORT_ID:]


def version(text: str | None) -> str:
    """Return a data version, shortened."""
    most = 12
    return "-" if text is None else text if len(text) <= most + 2 else f"{text[:most]}…"


def size(count: int | None) -> str:
    """Return a number of bytes with a unit."""
    if count is None:
        return "-"
    value = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000:  # noqa: PLR2004 - the step between units
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def number(value: int | None) -> str:
    """Return a whole number with thousands separators."""
    return "-" if value is None else f"{value:,}"


def parse_when(text: str, now: datetime) -> datetime:
    """Parse a future time: ISO 8601, or a duration from now such as `2h` or `1h 30m`."""
    time = from_duration(text, now) or from_iso(text)
    if time is None:
        raise UsageError(
            f"{text!r} is not a time; allowed are ISO times (2026-01-31T18:00) and durations (30m, 2h, 1d)"
        )
    if time <= now:
        raise UsageError(f"{text!r} is {time.isoformat()}, which is not in the future")
    return time


def from_duration(text: str, now: datetime) -> datetime | None:
    """Return the time that is a duration after `now`; None if the text is not a duration."""
    from freshline.duration import milliseconds  # noqa: PLC0415 - few commands need the definitions

    try:
        return now + timedelta(milliseconds=milliseconds(text))
    except ValueError:
        return None


def from_iso(text: str) -> datetime | None:
    """Return an ISO time, in the zone of this machine if it has none; None if the text is not one."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time.astimezone()


def differing(difference: Mapping[str, Sequence[str]]) -> str:
    """Return the difference of two versions of a table, as `+ day date; values of n, delay`."""
    words = {
        "added": "+ {}",
        "removed": "- {}",
        "retyped": "{}",
        "order": "columns in the order {}",
        "rows": "rows {}",
        "columns": "values of {}",
        "rolledBack": "a rollback to version {}",
    }
    return "; ".join(words[kind].format(", ".join(names)) for kind, names in difference.items())
