"""Synthetic loads with partitions: what sources report, late data, backfills, and what is held."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from freshline.definitions.loading import document
from freshline.errors import DefinitionErrors
from freshline.partitions.document import from_json
from freshline.settings import Settings
from freshline.simulation import Catalogue, Driver, Observer, Simulator, Work
from freshline.simulation.horizon import cut, horizon
from freshline.simulation.load_partitions import demands
from freshline.simulation.loading import load_definitions
from freshline.simulation.records import Run
from freshline.simulation.simulate import Result, simulate
from freshline.simulation.workload import Load, check_load
from tests.scenarios.test_partitions import divided
from tests.store_harness import workflow

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
HOURS = {"assetId": "raw", "partitioning": {"time": "hour", "start": "2025-01-01"}}
KINDS = {"assetId": "kinds", "partitioning": {"dynamic": {"limit": 100}}}
DAYS = {"time": "day", "start": "2025-01-01"}
AUTO = {"onUpstreamUpdate": True}
SALES: tuple[Mapping[str, Any], ...] = (
    HOURS,
    KINDS,
    divided("daily", {"raw": None}, DAYS),
    divided("weekly", {"daily": {"window": {"from": -6, "to": 0}}}, DAYS),
    divided("monthly", {"daily": None}, {"time": "month", "start": "2025-01"}),
    divided("total", {"monthly": None}),
    divided("kind", {"kinds": None}, {"dynamic": {"limit": 100}}),
    workflow("plain", "a"),
)
HOURLY = "sources: { raw: { every: 1h, offset: 5m } }\n"


class Constant:
    """Runs of ten minutes, which succeed."""

    def work(self, run: Run) -> Work:  # noqa: ARG002 - all are equal
        """Return the work."""
        return Work(timedelta(minutes=10))


def catalogue(definitions: tuple[Mapping[str, Any], ...] = SALES) -> Catalogue:
    """Return the catalogue of these definitions."""
    text = [{**one, "steps": _jobs(one)} if "steps" in one else one for one in definitions]
    found = load_definitions(text)
    return Catalogue.of(found.workflows, Settings(project=Path()), found.sources)


def _jobs(one: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [{**step, "job": {"kind": "python", "entrypoint": "json:dumps"}} for step in one["steps"]]


def load(text: str) -> Load:
    """Return a load."""
    return Load.model_validate(document.parse(text, "load.yaml")[0].data)


def play(text: str, days: float = 7, definitions: tuple[Mapping[str, Any], ...] = SALES) -> Result:
    """Play a load for some days, with four slots."""
    given, found, end = load(text), catalogue(definitions), MONDAY + timedelta(days=days)
    return simulate(
        found,
        given.reports(found, MONDAY, end, 0),
        Constant(),
        start=MONDAY,
        end=end,
        slots=4,
        demands=demands(given.backfills, found, MONDAY),
    )


def test_hours_are_reported_as_time_passes() -> None:
    """Each hour after its end, and each day runs once when it is complete; the last hour of Sunday comes again."""
    reports = list(load(HOURLY).reports(catalogue(), MONDAY, MONDAY + timedelta(days=1), 0))
    assert [one.partition_key for one in reports][:3] == ["2026-01-04T23", "2026-01-05T00", "2026-01-05T01"]
    assert len(reports) == 24
    assert play(HOURLY).partitions_by_workflow == {"daily": 7, "kind": 0, "monthly": 0, "weekly": 7}


def test_a_report_brings_all_that_came_to_exist() -> None:
    """A source that reports once a day reports the hours of the day, so that no day lacks one."""
    text = "sources: { raw: { every: 1d, offset: 26h } }"
    reports = list(load(text).reports(catalogue(), MONDAY, MONDAY + timedelta(days=3), 0))
    assert [one.at for one in reports] == [MONDAY + timedelta(hours=26)] * 26 + [MONDAY + timedelta(hours=50)] * 24
    assert reports[0].partition_key == "2026-01-05T00"
    assert play(text, 3).partitions_by_workflow["daily"] == 2


def test_named_partitions_are_reported_each_time() -> None:
    """Dynamic partitions appear with their first report."""
    found = play("sources: { kinds: { every: 1h, keys: [x, y] } }", days=1)
    assert (found.runs_by_workflow["kind"], found.partitions_by_workflow["kind"]) == (46, 2)


def test_a_late_hour_runs_what_depends_on_it() -> None:
    """Its day, seven windows, its month and the total, once each. Only the total has a lag: no day is the newest.

    The month waits for a slot.
    """
    found = play("reports: [ { asset: raw, at: 2d, late: 300d } ]")
    assert found.runs_by_workflow == {"daily": 1, "weekly": 7, "monthly": 1, "total": 1}
    assert found.partitions_by_workflow == {"daily": 1, "kind": 0, "monthly": 1, "weekly": 7}
    assert found.slot_hours == pytest.approx(10 / 6)
    assert found.lag_by_asset == {"total": {"p50": 2_400, "p95": 2_400, "max": 2_400}}
    assert found.held_partitions == 0


def test_keys_by_hand() -> None:
    """Two hours of one day make one run of the day; with those of another day two."""
    text = "reports: [ { asset: raw, at: 2d, keys: [2025-06-01T05, 2025-06-01T06, 2025-06-02T00] } ]"
    assert play(text).runs_by_workflow["daily"] == 2


def test_the_lag_of_a_new_partition_begins_when_it_could_be_computed() -> None:
    """A day that is complete five minutes after its end, and runs for ten minutes, has a lag of ten minutes."""
    lag = play(HOURLY).lag_by_asset
    assert lag["daily"] == {"p50": 600, "p95": 600, "max": 600}
    assert lag["weekly"]["p50"] == 1_200


def test_what_the_newest_partition_lacks_at_the_end_is_pending() -> None:
    """Half an hour before the end a day came that lacks its last hour."""
    text = "sources: { raw: { every: 1h, offset: 50m } }"
    found = play(text, days=1 + 1 / 48)
    assert found.pending >= 2
    assert found.lag_by_asset["daily"]["max"] == 1_800


def test_a_backfill_beside_the_data_of_today() -> None:
    """It computes each of its partitions once, and today's days are as late as without it, up to one running run."""
    alone = play(HOURLY)
    text = HOURLY + "backfills: [ { asset: daily, at: 1d, from: 2025-11-01, to: 2025-12-31, concurrency: 2 } ]"
    both = play(text)
    assert both.runs_by_workflow["daily"] - alone.runs_by_workflow["daily"] == 61
    assert both.partitions_by_workflow["daily"] == 61 + 7
    assert both.lag_by_asset["daily"]["max"] <= alone.lag_by_asset["daily"]["max"] + 600
    assert both.refused == ()


def test_a_month_runs_soon_after_the_last_day_of_a_backfill() -> None:
    """It sleeps while the backfill goes on, and is evaluated when the last of its days had its turn."""
    text = "backfills: [ { asset: daily, at: 1d, from: 2025-11-25, to: 2025-12-05, concurrency: 1 } ]"
    given, found, seen = load(text), catalogue(), Ended({})
    simulator = Simulator(found, MONDAY, observer=seen)
    simulator.start(fresh=True)
    Driver(simulator, Constant(), slots=4, demands=demands(given.backfills, found, MONDAY)).run(
        MONDAY + timedelta(days=2)
    )
    begun = seen.found["monthly", "2025-12"][0].started_at
    last = seen.found["daily", "2025-12-01"][0].finished_at
    assert begun is not None
    assert last is not None
    assert last <= begun <= last + timedelta(seconds=30)
    assert {len(runs) for unit, runs in seen.found.items() if unit[0] == "daily"} == {1}


@dataclass
class Ended(Observer):
    """The runs that ended, by workflow and partition."""

    found: dict[tuple[str, str], list[Run]]

    def ended(self, simulator: Simulator, run: Run) -> None:  # noqa: ARG002 - the run has all facts
        """Record a run."""
        self.found.setdefault((run.slug, run.partition_key), []).append(run)


def test_a_backfill_that_is_refused_is_told() -> None:
    """Everything exists at the start, so nothing is missing."""
    [refused] = play("backfills: [ { asset: daily, at: 1h, only: missing } ]").refused
    assert refused.startswith("the backfill of daily was refused: nothing is selected")


def test_a_flood_is_held() -> None:
    """A rate that all days read makes all of them stale: they are held, except the newest one."""
    definitions = (
        {"assetId": "rates"},
        HOURS,
        divided("daily", {"raw": None, "rates": None}, DAYS),
    )
    found = play(HOURLY + "reports: [ { asset: rates, at: 36h } ]", definitions=definitions)
    assert found.held_partitions == 370 - 1
    assert found.holds["backfill-proposed"] == found.held_partitions
    assert found.runs_by_workflow == {"daily": 7 + 1}
    assert found.lag_by_asset["daily"]["max"] == 600


def test_an_empty_time() -> None:
    """Without reports nothing runs, and history is not computed."""
    found = play("{ sources: {} }", days=0.9)
    assert (found.runs, found.holds, found.lag, found.pending) == (0, {}, None, 0)


def test_the_newest_partition_ages() -> None:
    """One breach of the newest partition, and not one per partition."""
    definitions = (HOURS, divided("daily", {"raw": None}, DAYS, freshness={"maxAgeMs": 3_600_000}))
    found = play("{ sources: {} }", days=0.5, definitions=definitions)
    assert found.breaches_by_asset == {"daily": 1}


WRONG = {
    "reports: [ { asset: rwa, at: 1d } ]": r"load.yaml:1: .*asset 'rwa' does not exist.*did you mean 'raw'",
    "reports:\n  - { asset: daily, at: 1d }": r"load.yaml:2: .*asset 'daily' is not a source",
    "reports:\n  - { asset: raw, at: 1d, keys: [2025-06-01] }": r"load.yaml:2: .*'2025-06-01' is not an hour",
    "reports:\n  - { asset: raw, at: 1d,\n      keys: [2024-06-01T05] }": r"load.yaml:3: .*is before the first",
    "reports: [ { asset: raw, at: 1d, keys: [2026-02-01T05] } ]": r"has not begun",
    "reports: [ { asset: raw, at: 1d, late: 3000d } ]": r"asset 'raw' had no partition .* before 2026-01-06",
    "reports: [ { asset: raw, at: 1d, late: 1d, keys: [2025-06-01T05] } ]": r"two ways to name partitions",
    "reports: [ { asset: a, at: 1d, late: 1d } ]": r"asset 'a' has no partitions: leave 'late' out",
    "reports: [ { asset: raw, at: soon } ]": r"'soon' is not a time; allowed are 09:00 .* 2d",
    "reports: [ { asset: kinds, at: 1d } ]": r"asset 'kinds' has dynamic partitions: name those",
    "reports: [ { asset: kinds, at: 1d, late: 1d } ]": r"the partitions of 'kinds' have no time",
    "sources: { kinds: { every: 1h } }": r"load.yaml:1: asset 'kinds' has dynamic partitions",
    "sources: { a: { every: 1h, keys: [x] } }": r"asset 'a' has no partitions: leave 'keys' out",
    "backfills: [ { asset: dayly, at: 1d } ]": r"asset 'dayly' does not exist.*did you mean 'daily'",
    "backfills: [ { asset: raw, at: 1d } ]": r"asset 'raw' is a source: nothing computes it",
    "backfills:\n  - { asset: daily, at: 1d, from: 2025-06 }": r"load.yaml:2: .*'2025-06' is not a day",
    "backfills: [ { asset: total, at: 1d, keys: [x] } ]": r"asset 'total' has no partitions",
    "backfills: [ { asset: daily, at: 1d, order: random } ]": r"order is 'random'; allowed are newest, oldest",
}


@pytest.mark.parametrize(("text", "told"), WRONG.items())
def test_mistakes_are_told_with_their_line(tmp_path: Path, text: str, told: str) -> None:
    """What is wrong, what is allowed, and where."""
    path = tmp_path / "load.yaml"
    path.write_text(text)
    with pytest.raises(DefinitionErrors, match=told):
        check_load(load(text), catalogue(), path, MONDAY)


def test_old_partitions_are_left_out() -> None:
    """From which day on partitions are simulated: as many as allowed, or as late data needs."""
    hourly = from_json({"time": "hour", "start": "2010-01-01T00"})
    daily = from_json({"dimensions": {"day": {"time": "day", "start": "2010-01-01"}, "region": {"keys": ["eu", "us"]}}})
    since = horizon([hourly, daily], MONDAY, most=2_600)
    assert since == MONDAY - timedelta(days=100)
    assert [one.count(MONDAY) for one in cut([hourly, daily], since)] == [2_400, 200]
    asked = datetime(2025, 5, 5, tzinfo=UTC)
    assert horizon([hourly, daily], MONDAY, asked, most=2_600) == datetime(2024, 12, 31, tzinfo=UTC)
    assert horizon([hourly, daily], MONDAY, asked, most=2_600, most_asked=5_200) == MONDAY - timedelta(days=200)
    assert horizon([daily], MONDAY, most=20_000) is None


def test_a_backfill_moves_the_horizon(tmp_path: Path) -> None:
    """Late data and backfills name the earliest partition that they need."""
    path = tmp_path / "load.yaml"
    texts = {
        "backfills: [ { asset: daily, at: 1d } ]": datetime(2025, 1, 1, tzinfo=UTC),
        "backfills: [ { asset: daily, at: 1d, from: 2025-06-01 } ]": datetime(2025, 6, 1, tzinfo=UTC),
        "reports: [ { asset: raw, at: 1d, late: 2d } ]": datetime(2026, 1, 3, 23, tzinfo=UTC),
        HOURLY: None,
    }
    for text, wanted in texts.items():
        path.write_text(text)
        assert check_load(load(text), catalogue(), path, MONDAY) == wanted


def test_a_year_of_days_and_a_week_of_hours_is_fast() -> None:
    """With a backfill of the year it takes four seconds; the limit has room for busy machines."""
    began = time.process_time()
    found = play(HOURLY + "backfills: [ { asset: daily, at: 1d, from: 2025-01-05, to: 2025-12-31, concurrency: 2 } ]")
    assert time.process_time() - began < 30
    assert found.runs_by_workflow["daily"] == 361 + 7
