"""Partitions in memory: which partitions run, how often, and what they wait for (docs/semantics.md#R13)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from freshline.model.enums import Reason
from freshline.model.policy import Flood, Freshness
from freshline.partitions.declaration import Around, Declaration
from freshline.partitions.requirements import Requirement
from freshline.simulation import Catalogue, Driver
from freshline.simulation.driver import Report
from tests.simulation.partitioned import NOW, Job, Steady, catalogue_of, days, drive, fresh, hours, months

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def sales() -> Catalogue:
    """Return hours, days of them, sums of seven days, months, and a total."""
    return catalogue_of(
        {"raw": hours()},
        [
            Job("daily", {"raw": None}, days()),
            Job("weekly", {"daily": Declaration(rule=Around(-6, 0))}, days()),
            Job("monthly", {"daily": None}, months()),
            Job("total", {"monthly": None}),
        ],
    )


def test_a_late_hour_runs_exactly_what_depends_on_it() -> None:
    """An hour of 300 days ago: its day, the windows of seven days that hold it, its month, and the total, once each."""
    simulator, ran = fresh(sales())
    simulator.report("raw", partition_key="2024-02-05T07")
    drive(simulator, 2 * HOUR)
    assert ran.keys("daily") == ["2024-02-05"]
    assert sorted(ran.keys("weekly")) == [f"2024-02-{day:02}" for day in range(5, 12)]
    assert ran.keys("monthly") == ["2024-02"]
    assert ran.counts()["total"] == 1
    assert not any(run.mixed for run in ran.runs)


def test_a_burst_of_late_hours_runs_each_month_once() -> None:
    """One hour of each of 60 days: 60 days, two or three months, one total; no month runs before its days."""
    simulator, ran = fresh(sales())
    for offset in range(60):
        day = datetime(2024, 3, 1, tzinfo=UTC) + offset * DAY
        simulator.report("raw", partition_key=f"{day:%Y-%m-%d}T05")
    drive(simulator, 6 * HOUR, Steady({"monthly": 1}, spread=1_000), slots=None)
    assert ran.counts()["daily"] == 60
    assert sorted(ran.keys("monthly")) == ["2024-03", "2024-04"]
    assert ran.counts()["total"] == 1
    assert ran.counts()["weekly"] == 66
    assert not any(run.mixed for run in ran.runs)


def test_new_partitions_come_with_the_time() -> None:
    """A day exists when it has ended, and runs when its hours are there."""
    simulator, ran = fresh(sales())
    drive(simulator, timedelta(hours=14))  # until 23:00
    for hour in range(24):
        simulator.report("raw", partition_key=f"2024-12-01T{hour:02}")
    drive(simulator, timedelta(minutes=30))
    assert ran.runs == []
    drive(simulator, 2 * HOUR)
    assert ran.keys("daily") == ["2024-12-01"]
    assert ran.keys("weekly") == ["2024-12-01"]
    assert ran.counts().get("monthly") is None


def test_an_old_partition_expires_once() -> None:
    """A user may let any partition expire. Its schedule does not start again: only the newest one has a clock."""
    job = Job("daily", {"raw": None}, days(), freshness=Freshness(cadence_ms=600_000))
    simulator, _ = fresh(catalogue_of({"raw": days()}, [job]))
    simulator.pause(1)
    for key in ("2024-11-01", "2024-11-30"):
        simulator.expire("daily", key)
    simulator.settle()
    old, newest = simulator.asset("daily@2024-11-01"), simulator.asset("daily@2024-11-30")
    assert old.expired is not None
    assert (old.due_at, newest.due_at) == (None, NOW + timedelta(minutes=10))
    drive(simulator, HOUR)
    assert (old.expired.at, newest.expired and newest.expired.at) == (NOW, NOW + HOUR)


def test_a_partition_that_comes_without_data_is_missed_while_a_run_goes_on() -> None:
    """No event says that a day of a source came to exist: who needs all days is evaluated at its regular times."""
    catalogue = catalogue_of({"raw": days("2024-11-29")}, [Job("total", {"raw": None}, require={"raw": Requirement()})])
    simulator, _ = fresh(catalogue)
    for version in ("v1", "v2"):
        simulator.report("raw", version, "2024-11-30")
        simulator.settle()
        simulator.claim()
    assert simulator.considerations.hold_of(1) == Reason.IN_FLIGHT
    simulator.advance(NOW + timedelta(hours=15, minutes=10))
    assert simulator.considerations.hold_of(1) == Reason.INPUT_MISSING


def test_a_stream_of_hours_does_not_starve_its_total() -> None:
    """An hour arrives every 5 minutes and takes 7 to clean: the total follows at its own pace, without a mix."""
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
    assert 100 <= ran.counts()["total"] <= 288
    assert not any(run.mixed for run in ran.runs)


def test_a_partition_waits_for_its_own_predecessor() -> None:
    """A balance reads that of the day before: a late day runs the rest of the chain in order, each day once."""
    catalogue = catalogue_of(
        {"raw": days("2024-11-01")},
        [Job("balance", {"raw": None, "balance": Declaration(rule=Around(-1, -1))}, days("2024-11-01"))],
    )
    simulator, ran = fresh(catalogue)
    simulator.report("raw", partition_key="2024-11-21")
    drive(simulator, 2 * HOUR)
    assert ran.keys("balance") == [f"2024-11-{day}" for day in range(21, 31)]


def test_two_late_days_of_a_chain_run_it_once() -> None:
    """The later of two late days waits for the chain from the earlier one: no day runs twice."""
    catalogue = catalogue_of(
        {"raw": days("2024-11-01")},
        [Job("balance", {"raw": None, "balance": Declaration(rule=Around(-1, -1))}, days("2024-11-01"))],
    )
    simulator, ran = fresh(catalogue)
    simulator.report("raw", partition_key="2024-11-27")
    simulator.report("raw", partition_key="2024-11-24")
    drive(simulator, 2 * HOUR)
    assert ran.keys("balance") == [f"2024-11-{day}" for day in range(24, 31)]


def graced() -> Catalogue:
    """Return a day that may run without some of its hours two hours after its end."""
    return catalogue_of(
        {"raw": hours("2024-11-01")},
        [Job("daily", {"raw": None}, days("2024-11-01"), require={"raw": Requirement(grace_ms=7_200_000)})],
    )


def test_a_partition_runs_with_what_there_is_after_its_grace() -> None:
    """Twenty hours arrive; the day runs at two o'clock with them, and again when a late one comes."""
    simulator, ran = fresh(graced())
    drive(simulator, timedelta(hours=14))  # until 23:00
    for hour in range(20):
        simulator.report("raw", partition_key=f"2024-12-01T{hour:02}")
    drive(simulator, timedelta(hours=2, minutes=59))
    assert ran.runs == []
    drive(simulator, timedelta(minutes=3))
    (run,) = ran.runs
    assert len(run.pins) == 20
    simulator.report("raw", partition_key="2024-12-01T22")
    drive(simulator, HOUR)
    assert [len(run.pins) for run in ran.runs] == [20, 21]


def test_a_partition_that_misses_an_input_is_not_looked_at() -> None:
    """Nothing is scheduled for it but the end of its grace."""
    simulator, _ = fresh(graced())
    drive(simulator, timedelta(hours=15, minutes=1))  # the day has ended
    number = simulator.catalogue.member(1, "2024-12-01").id
    assert simulator.considerations.hold_of(number) == "input-missing"
    assert simulator.considerations.next_evaluation() == datetime(2024, 12, 2, 2, tzinfo=UTC)
    drive(simulator, timedelta(hours=3))
    assert simulator.considerations.get(number) is None
