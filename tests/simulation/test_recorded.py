"""Recorded histories with partitions are played as they were."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from freshline.model.enums import RunStatus
from freshline.simulation import Driver, Observer, Run, Simulator
from freshline.simulation.recorded import Scenario, applied, recorded
from tests.scenarios.test_partitions import divided
from tests.store_harness import NEXT, Lab, workflow

HOURS: dict[str, Any] = {"assetId": "raw", "partitioning": {"time": "hour", "start": "2026-01-02"}}
KINDS: dict[str, Any] = {"assetId": "kinds", "partitioning": {"dynamic": {"limit": 100}}}
DAYS: dict[str, Any] = {"time": "day", "start": "2026-01-02"}
SECONDS = {"daily": 90.0, "window": 30.0, "total": 200.0, "kind": 10.0, "plain": 20.0}
SLOTS = 2


@dataclass
class Ran(Observer):
    """The runs that started, with the times of their starts."""

    found: list[tuple[str, str, datetime]]

    def ended(self, simulator: Simulator, run: Run) -> None:  # noqa: ARG002 - the run has all facts
        """Record a run that started."""
        if run.started_at is not None:
            self.found.append((run.slug, run.partition_key, run.started_at))


def sales(lab: Lab) -> None:
    """Days of hours, windows of three days, a total, a copy of each dynamic key, and a workflow without partitions."""
    lab.apply(
        divided("daily", {"raw": None}, DAYS),
        divided("window", {"daily": {"window": {"from": -2, "to": 0}, "require": "any"}}, DAYS),
        divided("total", {"daily": {"require": "any"}}),
        divided("kind", {"kinds": None}, {"dynamic": {"limit": 100}}),
        workflow("plain", "a"),
        sources=(HOURS, KINDS, "a"),
    )


def hours(first: str, count: int) -> list[str]:
    """Return keys of hours."""
    begins = datetime.fromisoformat(first)
    return [f"{begins + timedelta(hours=number):%Y-%m-%dT%H}" for number in range(count)]


def drive(lab: Lab, reports: Iterable[tuple[datetime, str, str, str]], until: datetime) -> None:
    """Report, and let two slots work, each run as long as its workflow takes."""
    left, ends = sorted(reports, reverse=True), list[tuple[datetime, int, Any]]()
    count = 0
    while True:
        lab.settle()
        while len(ends) < SLOTS and (run := lab.claim()) is not None:
            count += 1
            heapq.heappush(ends, (lab.later(seconds=SECONDS[run.slug]), count, run))
        moments = [left[-1][0] if left else None, ends[0][0] if ends else None, lab.one(NEXT)]
        following = min(one for one in [*moments, until] if one is not None)
        if following >= until:
            lab.now = until
            return
        lab.now = max(lab.now, following)
        while left and left[-1][0] <= lab.now:
            _, asset_id, version, key = left.pop()
            lab.report(asset_id, version, partition_key=key)
        while ends and ends[0][0] <= lab.now:
            lab.finish(heapq.heappop(ends)[2])


def told(lab: Lab, since: datetime) -> Scenario:
    """Return what is recorded since a time."""
    past = lab.store.reader.history(since)
    return recorded(past, applied(past["workflows"]), lab.settings, end=lab.now, length=lab.now - since, seed=0)


def replayed(scenario: Scenario) -> list[tuple[str, str, datetime]]:
    """Return the runs of a replay."""
    seen = Ran([])
    simulator = Simulator(scenario.current, scenario.start, observer=seen)
    simulator.start(fresh=True, data=scenario.data)
    reports = scenario.make_reports(scenario.current)
    Driver(simulator, scenario.make_jobs(), slots=SLOTS, reports=reports).run(scenario.end)
    return sorted(seen.found)


def real(lab: Lab, since: datetime) -> Iterator[tuple[str, str, datetime]]:
    """Yield the runs that started and ended since a time."""
    for run in lab.runs():
        if run["started_at"] and run["started_at"] >= since and run["status"] == RunStatus.SUCCEEDED:
            yield run["slug"], run["partition_key"], run["started_at"]


@pytest.fixture
def warm(lab: Lab) -> datetime:
    """Report two days and some hours of a third, without one hour, and compute everything. Return the time then."""
    sales(lab)
    for key in [*hours("2026-01-02", 48), *hours("2026-01-04", 30)]:
        if key != "2026-01-03T07":
            lab.report("raw", f"{key}-1", partition_key=key)
    for key in ("x", "y"):
        lab.report("kinds", f"{key}-1", partition_key=key)
    lab.report("a", "1")
    lab.work()
    lab.advance(seconds=1)
    return lab.now


def test_a_recorded_history_runs_the_same(lab: Lab, warm: datetime) -> None:
    """Hours as they come, a late one, changed ones, an equal one, the missing one, dynamic keys: all as they were."""
    reports = [
        (warm + timedelta(minutes=7 + 60 * n), "raw", f"{k}-1", k) for n, k in enumerate(hours("2026-01-05T06", 40))
    ]
    later = [
        (50, "raw", "2026-01-03T08-2", "2026-01-03T08"),
        (100, "raw", "2026-01-02T05-2", "2026-01-02T05"),
        (200, "raw", "2026-01-02T06-1", "2026-01-02T06"),
        (300, "raw", "2026-01-03T07-1", "2026-01-03T07"),
        (400, "kinds", "y-2", "y"),
        (401, "kinds", "z-1", "z"),
        (402, "a", "2", ""),
        (1_000, "raw", "2026-01-04T23-2", "2026-01-04T23"),
    ]
    reports += [(warm + timedelta(minutes=at), asset_id, version, key) for at, asset_id, version, key in later]
    drive(lab, reports, warm + timedelta(hours=42))
    then = sorted(real(lab, warm))
    scenario = told(lab, warm)
    assert replayed(scenario) == then
    assert {slug for slug, _, _ in then} == {"daily", "window", "total", "kind", "plain"}
    assert ("daily", "2026-01-03") in {(slug, key) for slug, key, _ in then}
    assert (scenario.reports, scenario.notes) == (len(reports), ())


def test_history_is_not_computed_again(lab: Lab, warm: datetime) -> None:
    """Nothing was reported: nothing runs, though a day lacks an hour."""
    lab.live(hours=1)
    assert replayed(told(lab, warm)) == list(real(lab, warm)) == []


def test_what_had_no_data_is_known(lab: Lab, warm: datetime) -> None:
    """An hour that was never reported has none; neither has one that was reported since. Removed data is none."""
    lab.report("raw", "late", partition_key="2026-01-03T07")
    lab.rows("UPDATE heads SET retired_at = produced_at WHERE partition_key = '2026-01-02T00' RETURNING asset_id")
    data = told(lab, warm).data
    assert data is not None
    assert set(data["raw"]) == {*hours("2026-01-02", 78)} - {"2026-01-03T07", "2026-01-02T00"}
    assert list(data["kinds"]) == ["x", "y"]


def test_reports_before_the_project_are_its_beginning(lab: Lab, warm: datetime) -> None:
    """What was reported before the first workflow was applied has data at the start, and causes nothing."""
    lab.rows("UPDATE workflows SET created_at = %s RETURNING id", lab.later(minutes=-1))
    lab.rows("UPDATE snapshots SET produced_at = %s WHERE run_id IS NULL RETURNING sequence", lab.later(minutes=-5))
    scenario = told(lab, warm - timedelta(days=1))
    assert scenario.data is not None
    assert len(scenario.data["raw"]) == 77
    assert replayed(scenario) == [("plain", "", scenario.start)]


def test_a_batch_counts_with_its_share(lab: Lab, warm: datetime) -> None:
    """Each run of a batch has the times of all: its share is what it cost."""
    drive(lab, [(warm, "kinds", "v2", "x")], warm + timedelta(minutes=5))
    lab.rows("UPDATE runs SET batch_id = id, batch_size = 5 WHERE partition_key = 'x' RETURNING id")
    seconds = [row["seconds"] for row in lab.store.reader.history(warm)["runs"] if row["slug"] == "kind"]
    assert seconds == [2.0]


def test_reports_that_the_definitions_do_not_have_are_counted(lab: Lab, warm: datetime) -> None:
    """Partitions whose definition was changed since are no partitions of the source any more."""
    lab.report("raw", "v2", partition_key="2026-01-02T05")
    lab.rows(
        "UPDATE assets SET partitioning = jsonb_set(partitioning, '{start}', '\"2026-01-03T00\"') WHERE id = 'raw'"
        " RETURNING id"
    )
    note = "1 report is of partitions that are left out, or that the definitions do not have"
    assert note in told(lab, warm).notes
