"""Validators of cron expressions, time zones and times of day."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from freshline.suggest import suggestion

_ALLOWED = {
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31 or L, and a day that the month has",
    "month": "1-12 or JAN-DEC",
    "day-of-week": "0-7 or SUN-SAT (0 and 7 are Sunday)",
}
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d", re.ASCII)
_SOME_DAY = datetime(2024, 1, 1, tzinfo=UTC)


def expression(value: str) -> str:
    """Return `value` if it is a cron expression with five fields that is ever due; raise `ValueError` otherwise."""
    if len(value.split()) != len(_ALLOWED):
        raise ValueError(
            f"cron {value[:80]!r} has {len(value.split())} fields; allowed are 5: minute hour day month weekday"
        )
    try:
        next(CronSim(value, _SOME_DAY))
    except CronSimError as error:
        raise ValueError(_reason(value, str(error))) from None
    except StopIteration:
        raise ValueError(f"cron {value[:80]!r} never comes due; no such day exists") from None
    return value


def timezone(value: str) -> str:
    """Return `value` if it names a time zone; raise `ValueError` otherwise."""
    try:
        ZoneInfo(value)
    except (ValueError, OSError, LookupError):
        hint = suggestion(value, available_timezones())
        raise ValueError(f"{value[:80]!r} is not a time zone; allowed are names such as Europe/Vienna{hint}") from None
    return value


def time_of_day(value: str) -> str:
    """Return `value` if it is a time such as 22:00; raise `ValueError` otherwise."""
    if not _TIME.fullmatch(value):
        raise ValueError(f"{value[:80]!r} is not a time of day; allowed are 00:00-23:59")
    return value


def _reason(value: str, error: str) -> str:
    names = list(_ALLOWED)
    name = error.removeprefix("Bad ")
    if name not in names:
        return f"cron {value[:80]!r} cannot be read: {error}"
    return f"cron {value[:80]!r} has {name} {value.split()[names.index(name)]}; allowed are {_ALLOWED[name]}"
