"""The figures of issue 21 that are counts of runs: late data, backfills, streams, and clock changes, in virtual time.

The simulation decides as the store does; tests/simulation/test_equality.py compares them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from freshline.errors import PartitioningError
from freshline.model.backfill import BackfillPolicy, BackfillRequest, BackfillStatus
from freshline.model.policy import Flood
from freshline.partitions.compatibility import mapping_between
from freshline.partitions.declaration import Around, Declaration, Overlap
from freshline.partitions.grain import Grain
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.time_partitioning import TimePartitioning
from freshline.simulation import Catalogue, Driver
from freshline.simulation.driver import Report
from tests.simulation.partitioned import NOW, Job, Ran, Steady, catalogue_of, days, drive, fresh, hours, months

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
YEAR = "2023-12-02"  # 365 days before `NOW`, in 12 months
MONTHS = 12


def sales(start: str = "2024-01-01") -> Catalogue:
    """Return hours, days of them, sums of seven days, months, and a total."""
    return catalogue_of(
        {"raw": hours(start)},
        [
            Job("daily", {"raw": None}, days(start)),
            Job("weekly", {"daily": Declaration(rule=Around(-6, 0))}, days(start)),
            Job("monthly", {"daily": None}, months(f"{start[:7]}-01")),
            Job("total", {"monthly": None}),
        ],
    )


def test_a_late_hour_of_300_days_ago_runs_what_depends_on_it() -> None:
    """Exactly its day, the seven windows of seven days that hold it, its month, and the total, once each."""
    simulator, ran = fresh(sales())
    simulator.report("raw", partition_key="2024-02-05T07")
    drive(simulator, 2 * HOUR)
    assert ran.counts() == {"daily": 1, "weekly": 7, "monthly": 1, "total": 1}
    assert ran.keys("daily") == ["2024-02-05"]
    assert sorted(ran.keys("weekly")) == [f"2024-02-{day:02}" for day in range(5, 12)]
    assert ran.keys("monthly") == ["2024-02"]
    assert not any(run.mixed for run in ran.runs)


@pytest.mark.full
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("newest_first", [True, False])
def test_a_year_of_changed_code_runs_each_partition_once(newest_first: bool) -> None:
    """365 days through two levels of days, months and the total: 365, 365, 12 and 1 runs, no month before its days."""
    check_year(rebuilt(YEAR, newest_first=newest_first), 365, MONTHS)


@pytest.mark.parametrize("newest_first", [True, False])
def test_two_months_of_changed_code_run_each_partition_once(newest_first: bool) -> None:
    """The same with 61 days in 2 months."""
    check_year(rebuilt("2024-10-01", newest_first=newest_first), 61, 2)


def rebuilt(start: str, *, newest_first: bool) -> Ran:
    """Rebuild days, days from them, their months and a total by a backfill of the first level and what it feeds."""
    first = days(start)
    catalogue = catalogue_of(
        {"raw": first},
        [
            Job("clean", {"raw": None}, first),
            Job("daily", {"clean": None}, first),
            # Days before the first one are outside: the first month is complete without them.
            Job("monthly", {"daily": None}, months(f"{start[:7]}-01")),
            Job("total", {"monthly": None}),
        ],
    )
    simulator, ran = fresh(catalogue)
    policy = BackfillPolicy(concurrency=8, newest_first=newest_first)
    asked = simulator.backfills.create(BackfillRequest("clean", downstream=True, policy=policy))
    drive(simulator, 12 * HOUR, Steady({"monthly": 30}, default=20.0, spread=40), slots=8)
    assert asked.status is BackfillStatus.FINISHED
    return ran


def check_year(ran: Ran, count: int, month_count: int) -> None:
    """Assert the numbers of runs, and that nothing ran before what it reads."""
    assert ran.counts() == {"clean": count, "daily": count, "monthly": month_count, "total": 1}
    assert not any(run.mixed for run in ran.runs)
    ended = {(run.slug, run.partition_key): run.finished_at for run in ran.runs}
    started = {(run.slug, run.partition_key): run.started_at for run in ran.runs}
    for (slug, key), at in ended.items():
        if slug == "daily":
            assert at is not None
            assert ended["clean", key] <= started[slug, key]  # type: ignore[operator]
            if ("monthly", key[:7]) in started:
                assert at <= started["monthly", key[:7]]  # type: ignore[operator]


def test_a_stream_of_hours_does_not_starve_its_total() -> None:
    """An hour arrives every 5 minutes for a day and takes 7 to clean: the total follows, and nothing is mixed."""
    catalogue = catalogue_of(
        {"raw": hours("2024-11-15")},
        [
            Job("clean", {"raw": None}, hours("2024-11-15"), policy={"flood": Flood(288)}),
            Job("total", {"clean": None}),
        ],
    )
    simulator, ran = fresh(catalogue)
    reports = [
        Report(NOW + n * timedelta(minutes=5), "raw", None, f"2024-11-{16 + n // 24}T{n % 24:02}") for n in range(288)
    ]
    Driver(simulator, Steady({"clean": 420, "total": 60}), slots=4, reports=reports).run(NOW + DAY + HOUR)
    assert ran.counts()["clean"] == 288
    # When an hour is clean, the next one has arrived before: the total waits for it, and not for the one after it.
    assert ran.counts()["total"] == 144
    assert not any(run.mixed for run in ran.runs)


@pytest.mark.parametrize(
    ("timezone", "day", "length"),
    [
        ("Europe/Berlin", "2025-03-30", 23),
        ("Europe/Berlin", "2025-10-26", 25),
        ("America/New_York", "2025-03-09", 23),
        ("America/New_York", "2025-11-02", 25),
        ("Australia/Sydney", "2025-10-05", 23),
        ("Australia/Sydney", "2025-04-06", 25),
    ],
)
def test_a_local_day_of_a_clock_change_reads_all_of_its_hours(timezone: str, day: str, length: int) -> None:
    """It runs once, when the last of its 23 or 25 hours is there, on all of them."""
    local = days(day, timezone=timezone)
    window = local.window(day)
    assert window is not None
    first = window.begins - DAY
    catalogue = catalogue_of({"raw": hours(f"{first:%Y-%m-%dT%H}")}, [Job("daily", {"raw": None}, local)])
    ran = Ran()
    simulator, ran = fresh(catalogue, window.begins)
    ends = [window.begins + number * HOUR for number in range(1, length + 1)]
    keys = [f"{window.begins + number * HOUR:%Y-%m-%dT%H}" for number in range(length)]
    assert ends[-1] == window.ends
    reports = [Report(end + timedelta(minutes=1), "raw", None, key) for end, key in zip(ends, keys, strict=True)]
    driver = Driver(simulator, Steady(), reports=reports)
    driver.run(window.ends + timedelta(seconds=30))
    assert ran.runs == []  # the day has ended, and its last hour is missing
    driver.run(window.ends + HOUR)
    [run] = ran.runs
    assert (run.partition_key, sorted(run.pins)) == (day, [f"raw@{key}" for key in keys])


@pytest.mark.parametrize(
    ("source", "consumer"),
    [
        (hours("2025-01-01"), days("2025-01-01", timezone="Asia/Kolkata")),
        (TimePartitioning(Grain.WEEK, "2025-W01"), months("2025-01-01")),
    ],
)
def test_windows_that_do_not_nest_need_a_declaration(source: Partitioning, consumer: Partitioning) -> None:
    """Days of Kolkata over hours of UTC, and months over ISO weeks: refused, unless the input says how it is cut."""
    with pytest.raises(PartitioningError, match=r"timeColumn|overlap"):
        mapping_between(source, consumer, Declaration())
    for declared in (Declaration(rule=Overlap(whole=True)), Declaration(time_column="at")):
        mapping_between(source, consumer, declared)


def test_a_day_in_kolkata_reads_each_hour_that_overlaps_it() -> None:
    """It begins at half past: 25 hours of UTC share time with it, and a late one of both days concerns both."""
    local = days("2025-01-10", timezone="Asia/Kolkata", end="2025-01-13")
    job = Job("daily", {"raw": Declaration(rule=Overlap(whole=True))}, local)
    simulator, ran = fresh(catalogue_of({"raw": hours("2025-01-09")}, [job]), datetime(2025, 1, 20, tzinfo=UTC))
    simulator.report("raw", partition_key="2025-01-11T18")  # 23:30 to 00:30 in Kolkata
    drive(simulator, HOUR)
    assert sorted(ran.keys("daily")) == ["2025-01-11", "2025-01-12"]
    assert {len(run.pins) for run in ran.runs} == {25}


def test_a_month_reads_each_iso_week_that_overlaps_it() -> None:
    """The week from 2024-12-30 concerns December and January."""
    job = Job("monthly", {"raw": Declaration(rule=Overlap(whole=True))}, months("2024-12-01", end="2025-03-01"))
    weeks = TimePartitioning(Grain.WEEK, "2024-W48")
    simulator, ran = fresh(catalogue_of({"raw": weeks}, [job]), datetime(2025, 3, 20, tzinfo=UTC))
    simulator.report("raw", partition_key="2025-W01")
    drive(simulator, HOUR)
    assert sorted(ran.keys("monthly")) == ["2024-12", "2025-01"]
