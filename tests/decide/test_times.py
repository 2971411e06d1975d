"""When an asset expires and when quiet hours end, over both clock changes of a year in three zones.

See docs/semantics.md#R8.1, docs/semantics.md#R8.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from freshline.decide.times import EPOCH, expires_at, milliseconds, next_point, quiet_until
from freshline.model.enums import ExpiryReason
from freshline.model.policy import Freshness, QuietHours
from tests.decide import strategies
from tests.decide.builders import HOUR, clock

ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]
# Where the clock goes forward and back in 2026: the day, and how long it is.
CHANGES: dict[str, list[tuple[date, float]]] = {
    "Europe/Berlin": [(date(2026, 3, 29), 23), (date(2026, 10, 25), 25)],
    "America/New_York": [(date(2026, 3, 8), 23), (date(2026, 11, 1), 25)],
    "Australia/Lord_Howe": [(date(2026, 10, 4), 23.5), (date(2026, 4, 5), 24.5)],
}
DAILY = [f"{minute} {hour} * * *" for hour in (0, 1, 2, 3, 12, 23) for minute in (0, 15, 30, 45)]


def points(freshness: Freshness, start: datetime, end: datetime) -> Iterator[datetime]:
    """Return the points of a schedule, each computed from the one before, as timers do."""
    found = next_point(freshness, start)
    while found is not None and found[0] < end:
        yield found[0]
        found = next_point(freshness, found[0])


def midnight(day: date, zone: str) -> datetime:
    """When the day begins there."""
    return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)


# Time to live


def test_a_time_to_live_counts_from_the_production() -> None:
    """ttl: so long after producedAt."""
    assert expires_at(Freshness(ttl_ms=HOUR), clock("09:17")) == (clock("10:17"), ExpiryReason.TTL)


def test_without_a_promise_nothing_expires() -> None:
    """No ttl, cadence or cron: never; `maxAgeMs` alerts and expires nothing."""
    assert expires_at(Freshness(max_age_ms=1), clock("09:00")) is None
    assert next_point(Freshness(max_age_ms=1, ttl_ms=1), clock("09:00")) is None


def test_the_first_to_run_out_counts() -> None:
    """Of ttl, cadence and cron the earliest is the answer, with its reason."""
    all_three = Freshness(ttl_ms=3 * HOUR, cadence_ms=2 * HOUR, cron="30 9 * * *")
    assert expires_at(all_three, clock("09:00")) == (clock("09:30"), ExpiryReason.CRON)
    assert expires_at(all_three, clock("09:30")) == (clock("10:00"), ExpiryReason.CADENCE)
    assert expires_at(replace(all_three, ttl_ms=1000), clock("09:00")) == (clock("09:00:01"), ExpiryReason.TTL)


def test_four_hundred_days_are_not_too_far() -> None:
    """Far timers neither overflow nor come at once (docs/scenarios.md#scenario-30)."""
    far = 400 * 24 * HOUR
    assert expires_at(Freshness(ttl_ms=far), clock("09:00")) == (
        clock("09:00") + timedelta(days=400),
        ExpiryReason.TTL,
    )
    found = next_point(Freshness(cadence_ms=far), clock("09:00"))
    assert found is not None
    assert clock("09:00") < found[0] <= clock("09:00") + timedelta(days=400)
    assert (found[0] - EPOCH) % timedelta(days=400) == timedelta(0)
    yearly = next_point(Freshness(cron="0 0 29 2 *"), clock("09:00"))
    assert yearly == (datetime(2028, 2, 29, tzinfo=UTC), ExpiryReason.CRON)


# Cadence


def test_the_grid_begins_in_1970() -> None:
    """Points are multiples of the cadence since 1970 plus the offset, whenever the data was produced."""
    quarter = Freshness(cadence_ms=15 * 60_000, offset_ms=5 * 60_000)
    assert expires_at(quarter, clock("09:04")) == (clock("09:05"), ExpiryReason.CADENCE)
    assert expires_at(quarter, clock("09:05")) == (clock("09:20"), ExpiryReason.CADENCE)
    assert expires_at(quarter, clock("09:19:59.999")) == (clock("09:20"), ExpiryReason.CADENCE)


def test_a_cadence_does_not_drift() -> None:
    """Runs that are late each time do not move the points."""
    freshness, produced, seen = Freshness(cadence_ms=HOUR), clock("09:00"), []
    for _ in range(12):
        found = expires_at(freshness, produced)
        assert found is not None
        seen.append(found[0])
        produced = found[0] + timedelta(minutes=7)
    assert seen == [clock("10:00") + timedelta(hours=n) for n in range(12)]


def test_missed_points_collapse_into_one() -> None:
    """After a long pause there is one next point, not one for each that was missed."""
    assert next_point(Freshness(cadence_ms=HOUR), clock("23:59")) == (
        clock("00:00") + timedelta(days=1),
        ExpiryReason.CADENCE,
    )


@given(strategies.moments, st.integers(1, 10**11), st.integers(0, 10**11))
def test_cadence_points_lie_on_the_grid(after: datetime, cadence: int, offset: int) -> None:
    """The next point is later, by at most one period, and congruent."""
    found = next_point(Freshness(cadence_ms=cadence, offset_ms=offset), after)
    assert found is not None
    assert after < found[0] <= after + milliseconds(cadence)
    assert (found[0] - EPOCH - milliseconds(offset)) % milliseconds(cadence) == timedelta(0)


# Cron


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("cron", DAILY)
def test_a_daily_job_runs_once_a_day(zone: str, cron: str) -> None:
    """Once on every day of the year, the short and the long one included (docs/scenarios.md#scenario-30)."""
    start, end = midnight(date(2026, 1, 1), zone), midnight(date(2027, 1, 1), zone)
    days = Counter(
        point.astimezone(ZoneInfo(zone)).date()
        for point in points(Freshness(cron=cron, timezone=zone), start - timedelta(seconds=1), end)
    )
    assert len(days) == 365
    assert set(days.values()) == {1}


@pytest.mark.parametrize("zone", ZONES)
def test_an_hourly_job_follows_the_length_of_the_day(zone: str) -> None:
    """Every ten minutes of real time, on the days of both clock changes too."""
    for day, hours in CHANGES[zone]:
        start, end = midnight(day, zone), midnight(day + timedelta(days=1), zone)
        assert (end - start).total_seconds() == hours * 3600
        found = list(points(Freshness(cron="*/10 * * * *", timezone=zone), start - timedelta(seconds=1), end))
        assert len(found) == hours * 6
        assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(minutes=10)}


def test_a_daily_job_in_the_gap_runs_when_the_clock_has_moved() -> None:
    """02:30 does not exist on the day of the spring change: the job runs at 03:00, not a day later."""
    before = datetime(2026, 3, 29, 0, 59, tzinfo=UTC)
    assert next_point(Freshness(cron="30 2 * * *", timezone="Europe/Berlin"), before) == (
        datetime(2026, 3, 29, 1, 0, tzinfo=UTC),
        ExpiryReason.CRON,
    )


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("cron", [*DAILY, "0 * * * *", "*/7 * * * *", "15,45 1-3 * * *", "30 2 * * 0", "0 0 1 * *"])
def test_the_next_time_is_never_past(zone: str, cron: str) -> None:
    """Also in the hour that comes twice: a timer that is due at once again and again would run without end."""
    for day, _ in CHANGES[zone]:
        moment = midnight(day, zone)
        for _ in range(26 * 6):
            moment += timedelta(minutes=10, seconds=1)
            found = next_point(Freshness(cron=cron, timezone=zone), moment)
            assert found is not None
            assert found[0] > moment


@given(strategies.freshness, strategies.moments)
def test_nothing_expires_when_it_is_produced(freshness: Freshness, produced_at: datetime) -> None:
    """expiresAt is later than producedAt, and so is the next point, by any combination of promises."""
    assume(freshness.ttl_ms or freshness.cadence_ms or freshness.cron)
    found, point = expires_at(freshness, produced_at), next_point(freshness, produced_at)
    assert found is not None
    assert found[0] > produced_at
    assert found[0].utcoffset() == timedelta(0)
    if point is not None:
        assert point[0] > produced_at
        assert found[0] <= point[0]


# Quiet hours


def quiet(
    moment: str | datetime, start: str, end: str, zone: str = "UTC", days: tuple[int, ...] = tuple(range(7))
) -> datetime | None:
    """Return the end of the quiet hours of one window."""
    return quiet_until((QuietHours(start, end, days, zone),), clock(moment))


def test_quiet_hours_within_a_day() -> None:
    """The beginning belongs to the window, the end does not."""
    assert quiet("08:59:59", "09:00", "17:00") is None
    assert quiet("09:00", "09:00", "17:00") == clock("17:00")
    assert quiet("16:59:59", "09:00", "17:00") == clock("17:00")
    assert quiet("17:00", "09:00", "17:00") is None


def test_quiet_hours_across_midnight() -> None:
    """From the evening to the next morning, on both sides of midnight."""
    tomorrow = clock("06:00") + timedelta(days=1)
    assert quiet("23:00", "22:00", "06:00") == tomorrow
    assert quiet("05:59", "22:00", "06:00") == clock("06:00")
    assert quiet("12:00", "22:00", "06:00") is None


def test_the_day_is_the_day_of_the_beginning() -> None:
    """Sunday's window reaches into Monday; Monday's begins on Monday evening."""
    sunday, monday = (6,), (0,)
    assert quiet("05:00", "22:00", "06:00", days=sunday) == clock("06:00")
    assert quiet("23:00", "22:00", "06:00", days=sunday) is None
    assert quiet("05:00", "22:00", "06:00", days=monday) is None
    assert quiet("23:00", "22:00", "06:00", days=monday) == clock("06:00") + timedelta(days=1)


def test_quiet_hours_have_a_zone() -> None:
    """22:00 in Berlin is 21:00 in winter and 20:00 in summer; the day is the local one."""
    assert quiet("20:30", "22:00", "06:00", "Europe/Berlin") is None
    assert quiet("21:00", "22:00", "06:00", "Europe/Berlin") == clock("05:00") + timedelta(days=1)
    summer = datetime(2026, 7, 6, 20, 0, tzinfo=UTC)
    assert quiet(summer, "22:00", "06:00", "Europe/Berlin") == datetime(2026, 7, 7, 4, 0, tzinfo=UTC)
    # 23:30 UTC on Sunday is Monday in Berlin.
    early = datetime(2026, 1, 4, 23, 30, tzinfo=UTC)
    assert quiet(early, "00:00", "01:00", "Europe/Berlin", (0,)) == datetime(2026, 1, 5, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize("zone", ZONES)
def test_quiet_hours_over_a_clock_change(zone: str) -> None:
    """They end at the local time, whether the night is an hour shorter or longer."""
    for day, hours in CHANGES[zone]:
        local = ZoneInfo(zone)
        evening = datetime(day.year, day.month, day.day, 22, tzinfo=local) - timedelta(days=1)
        morning = datetime(day.year, day.month, day.day, 6, tzinfo=local)
        assert quiet(evening.astimezone(UTC), "22:00", "06:00", zone) == morning.astimezone(UTC)
        length = morning.astimezone(UTC) - evening.astimezone(UTC)
        assert length == timedelta(hours=8 + hours - 24)


def test_windows_that_touch_are_one() -> None:
    """The end is the end of all, also when they overlap or come in another order."""
    windows = (QuietHours("10:00", "11:00"), QuietHours("09:00", "10:30"), QuietHours("13:00", "14:00"))
    assert quiet_until(windows, clock("09:15")) == clock("11:00")
    assert quiet_until((), clock("09:15")) is None


def test_windows_that_cover_everything_still_end() -> None:
    """A week without an hour to run in is a mistake that must not hang the decision."""
    found = quiet_until((QuietHours("00:00", "00:00"),), clock("09:00"))
    assert found is not None
    assert clock("09:00") < found <= clock("09:00") + timedelta(days=9)
    hourly = tuple(QuietHours(f"{h:02}:00", f"{(h + 1) % 24:02}:00") for h in range(24))
    assert quiet_until(hourly, clock("09:00")) is not None


@given(st.lists(strategies.quiet_hours, max_size=3).map(tuple), strategies.moments)
def test_quiet_hours_end_later_and_then_it_is_not_quiet(windows: tuple[QuietHours, ...], now: datetime) -> None:
    """The end lies in the future; at the end it is no longer quiet, unless the windows cover more than a week."""
    end = quiet_until(windows, now)
    if end is None:
        return
    assert end > now
    if end < now + timedelta(days=7):
        assert quiet_until(windows, end) is None
