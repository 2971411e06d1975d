"""Time arithmetic: when an asset expires, and when quiet hours end (docs/semantics.md#R8.1)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from datetime import time as clock
from zoneinfo import ZoneInfo

from cronsim import CronSim

from freshline.model.enums import ExpiryReason
from freshline.model.policy import Freshness, QuietHours
from freshline.model.state import Window

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(value: int) -> timedelta:
    """Convert milliseconds to a timedelta."""
    return timedelta(milliseconds=value)


def expires_at(freshness: Freshness, produced_at: datetime) -> tuple[datetime, ExpiryReason] | None:
    """Return when data produced at that time expires, and why; None if never. The earliest limit counts."""
    candidates = list(scheduled(freshness, produced_at))
    if freshness.ttl_ms is not None:
        candidates.append((produced_at + milliseconds(freshness.ttl_ms), ExpiryReason.TTL))
    return min(candidates, default=None)


def next_point(freshness: Freshness, after: datetime) -> tuple[datetime, ExpiryReason] | None:
    """Return the next cadence or cron time. These timers exist before the first production."""
    return min(scheduled(freshness, after), default=None)


def scheduled(freshness: Freshness, after: datetime) -> Iterator[tuple[datetime, ExpiryReason]]:
    """Yield the next time of each schedule that does not depend on a production."""
    if freshness.cadence_ms is not None:
        yield _cadence(freshness.cadence_ms, freshness.offset_ms, after), ExpiryReason.CADENCE
    if freshness.cron is not None:
        yield _cron(freshness.cron, freshness.timezone, after), ExpiryReason.CRON


def _cadence(period_ms: int, offset_ms: int, after: datetime) -> datetime:
    """Return the next point of a fixed grid that starts in 1970. On a grid, lateness never accumulates."""
    period = milliseconds(period_ms)
    origin = EPOCH + milliseconds(offset_ms)
    return origin + ((after - origin) // period + 1) * period


def _cron(expression: str, timezone: str, after: datetime) -> datetime:
    """Return the next cron time.

    In the hour that a clock change repeats, CronSim starts with times in the past. They are skipped.
    """
    times: Iterator[datetime] = CronSim(expression, after.astimezone(ZoneInfo(timezone)))
    found = (one.astimezone(UTC) for one in times)
    return next(one for one in found if one > after)


def quiet_until(windows: tuple[QuietHours, ...], now: datetime) -> datetime | None:
    """Return the end of the quiet hours that contain `now`; None outside of quiet hours.

    Adjacent and overlapping windows count as one.
    """
    end: datetime | None = None
    moment = now
    # The limit ends the search when the windows cover the whole week.
    for _ in range(8 * len(windows)):
        later = max((e for w in windows for e in _ends(w, moment)), default=None)
        if later is None:
            break
        end = moment = later
    return end


def next_quiet(windows: tuple[QuietHours, ...], now: datetime) -> Window | None:
    """Return the quiet hours that contain `now`, or else the next ones; None without quiet hours."""
    if not windows:
        return None
    end = quiet_until(windows, now)
    if end is not None:
        return Window(now, end)
    begins = min(one for window in windows for one in _begins(window, now))
    return Window(begins, quiet_until(windows, begins) or begins)


def _begins(window: QuietHours, now: datetime) -> Iterator[datetime]:
    """Yield when the window begins after `now`: at least once in the next days."""
    zone = ZoneInfo(window.timezone)
    today = now.astimezone(zone).date()
    for days in range(9):  # a day on which the clock changes may have moved a begin into the past
        day = today + timedelta(days=days)
        begins = datetime.combine(day, clock.fromisoformat(window.start), zone).astimezone(UTC)
        if day.weekday() in window.days and begins > now:
            yield begins


def _ends(window: QuietHours, now: datetime) -> Iterator[datetime]:
    zone = ZoneInfo(window.timezone)
    local = now.astimezone(zone)
    start, stop = clock.fromisoformat(window.start), clock.fromisoformat(window.end)
    for days_back in (0, 1):
        day = local.date() - timedelta(days=days_back)
        if day.weekday() not in window.days:
            continue
        begins = datetime.combine(day, start, zone)
        last = day if stop > start else day + timedelta(days=1)
        ends = datetime.combine(last, stop, zone).astimezone(UTC)
        if begins.astimezone(UTC) <= now < ends:
            yield ends
