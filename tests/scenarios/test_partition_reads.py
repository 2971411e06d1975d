"""Which partitions are read and which changes concern whom: `latest` and `affects` (docs/semantics.md#R13.17)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.test_partitions import DAYS, divided, ran
from tests.store_harness import Lab

RAW: dict[str, Any] = {"assetId": "raw", "partitioning": {"time": "day", "start": "2025-12-30"}}
HOURS: dict[str, Any] = {"assetId": "raw", "partitioning": {"time": "hour", "start": "2025-12-01"}}
RATES: dict[str, Any] = {"assetId": "rates"}


def keys(found: list[tuple[str, str]]) -> list[str]:
    """Return the partitions that ran, sorted."""
    return sorted(key for _, key in found)


def noted(lab: Lab, slug: str) -> list[str]:
    """Consume the events and return the partitions of a workflow that they concern."""
    lab.store.evaluation.consume_inbox(1_000)
    rows = lab.rows(
        "SELECT c.partition_key FROM considerations c JOIN workflows w ON w.id = c.workflow_id"
        " WHERE w.slug = %s AND c.not_before <= freshline_now() ORDER BY 1",
        slug,
    )
    return [row["partition_key"] for row in rows]


def test_the_newest_partitions_with_data_are_read(lab: Lab) -> None:
    """A newer one displaces the oldest, a change of one of them counts, and late data concerns nobody."""
    lab.apply(divided("top", {"raw": {"latest": 2}}), sources=(RAW,))
    assert ran(lab) == []
    for day in ("2025-12-30", "2026-01-02"):
        lab.report("raw", "v1", partition_key=day)
    assert ran(lab) == [("top", "")]
    assert set(lab.runs("top")[-1]["pins"]) == {"raw@2025-12-30", "raw@2026-01-02"}
    lab.report("raw", "v1", partition_key="2026-01-01")
    assert ran(lab) == [("top", "")]
    assert set(lab.runs("top")[-1]["pins"]) == {"raw@2026-01-01", "raw@2026-01-02"}
    lab.report("raw", "v2", partition_key="2025-12-30")
    assert noted(lab, "top") == []
    assert ran(lab) == []
    lab.report("raw", "v2", partition_key="2026-01-01")
    assert ran(lab) == [("top", "")]


def test_a_running_window_is_no_newest_partition(lab: Lab) -> None:
    """Data that was reported early counts when its window ends."""
    lab.apply(divided("top", {"raw": {"latest": 1}}), sources=(RAW,))
    lab.report("raw", "v1", partition_key="2026-01-02")
    lab.report("raw", "v1", partition_key="2026-01-05")
    assert ran(lab) == [("top", "")]
    assert set(lab.runs("top")[-1]["pins"]) == {"raw@2026-01-02"}
    lab.advance(hours=15)
    assert ran(lab) == [("top", "")]
    assert set(lab.runs("top")[-1]["pins"]) == {"raw@2026-01-05"}


def test_a_retired_partition_has_no_data(lab: Lab) -> None:
    """It is not among the newest."""
    lab.apply(divided("top", {"raw": {"latest": 1}}), sources=(RAW,))
    for day in ("2025-12-31", "2026-01-01"):
        lab.report("raw", "v1", partition_key=day)
    lab.rows("UPDATE heads SET retired_at = freshline_now() WHERE partition_key = '2026-01-01' RETURNING partition_key")
    assert ran(lab) == [("top", "")]
    assert set(lab.runs("top")[-1]["pins"]) == {"raw@2025-12-31"}


def test_every_partition_reads_the_newest(lab: Lab) -> None:
    """Each existing partition of a consumer becomes stale when there is a newer one."""
    lab.apply(divided("daily", {"raw": {"latest": 1}}, DAYS), sources=(RAW,))
    lab.report("raw", "v1", partition_key="2025-12-31")
    every = ["2025-12-30", "2025-12-31", "2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"]
    assert keys(ran(lab)) == every
    lab.report("raw", "v1", partition_key="2025-12-30")
    assert ran(lab) == []
    lab.report("raw", "v1", partition_key="2026-01-01")
    assert keys(ran(lab)) == every


@pytest.mark.parametrize("names", [("day", "region"), ("region", "day")])
def test_the_newest_of_a_dimension(names: tuple[str, str], lab: Lab) -> None:
    """A region reads the newest day of which any region has data."""
    axes = {"day": {"time": "day", "start": "2025-12-30"}, "region": {"keys": ["eu", "us"]}}
    source = {"assetId": "raw", "partitioning": {"dimensions": {name: axes[name] for name in names}}}
    declared = {"dimensions": {"day": {"latest": 1}}, "require": "any"}
    lab.apply(divided("top", {"raw": declared}, {"keys": ["eu", "us"]}), sources=(source,))

    def report(version: str, **values: str) -> None:
        lab.report("raw", version, partition_key="|".join(values[name] for name in names))

    report("v1", day="2026-01-01", region="eu")
    assert ran(lab) == [("top", "eu")]
    report("v1", day="2025-12-31", region="us")
    assert ran(lab) == []
    report("v1", day="2026-01-01", region="us")
    assert ran(lab) == [("top", "us")]
    report("v2", day="2026-01-01", region="eu")
    assert ran(lab) == [("top", "eu")]


def test_the_newest_dynamic_keys_are_those_seen_last(lab: Lab) -> None:
    """Their text does not matter."""
    lab.apply(divided("top", {"raw": {"latest": 1}}), sources=({"assetId": "raw", "partitioning": {"dynamic": {}}},))
    for key in ("zz", "mm"):
        lab.report("raw", "v1", partition_key=key)
        lab.advance(seconds=1)
    assert ran(lab) == [("top", "")]
    assert set(lab.runs("top")[-1]["pins"]) == {"raw@mm"}
    lab.report("raw", "v2", partition_key="zz")
    assert ran(lab) == []
    lab.report("raw", "v1", partition_key="aa")
    assert ran(lab) == [("top", "")]
    assert set(lab.runs("top")[-1]["pins"]) == {"raw@aa"}


def rated(lab: Lab, affects: str, partitioning: dict[str, Any] | None = None, **more: Any) -> None:
    """Days of hours that also read rates, each of which has run."""
    inputs = {"raw": {"require": "any"}, "rates": {"affects": affects}}
    lab.apply(divided("daily", inputs, partitioning or DAYS, **more), sources=(HOURS, RATES))
    lab.report("rates", "r1")
    for day in ("2026-01-02", "2026-01-03", "2026-01-04"):
        lab.report("raw", "v1", partition_key=f"{day}T05")
    assert keys(ran(lab)) == ["2026-01-02", "2026-01-03", "2026-01-04"]


def test_a_change_concerns_the_newest_partition(lab: Lab) -> None:
    """Nobody else is noted. An older partition that runs for another reason reads the head."""
    rated(lab, "latest")
    lab.report("rates", "r2")
    assert noted(lab, "daily") == ["2026-01-04"]
    assert ran(lab) == [("daily", "2026-01-04")]
    [run] = lab.runs("daily")[-1:]
    assert run["pins"]["rates"]["dataVersion"] == "r2"
    assert [one["assetId"] for one in run["trigger"]["upstream"]] == ["rates"]
    lab.report("raw", "v2", partition_key="2026-01-02T05")
    assert ran(lab) == [("daily", "2026-01-02")]
    [run] = lab.runs("daily")[-1:]
    assert run["pins"]["rates"]["dataVersion"] == "r2"
    assert [one["assetId"] for one in run["trigger"]["upstream"]] == ["raw"]
    assert ran(lab) == []


def test_the_last_change_before_midnight_is_not_lost(lab: Lab) -> None:
    """A downtime over midnight, with a change before it and one after it: both days run, and no other."""
    rated(lab, "latest")
    lab.report("raw", "v1", partition_key="2026-01-05T01")
    lab.advance(hours=14)  # 23:00
    lab.report("rates", "r2")
    lab.advance(hours=2)  # nobody was there
    assert keys(ran(lab)) == ["2026-01-04", "2026-01-05"]
    lab.advance(hours=22, minutes=30)  # 23:30 of the next day
    lab.report("rates", "r3")
    lab.report("raw", "v1", partition_key="2026-01-06T01")
    lab.advance(hours=1)
    lab.report("rates", "r4")
    lab.advance(hours=1)
    assert keys(ran(lab)) == ["2026-01-05", "2026-01-06"]
    assert {run["pins"]["rates"]["dataVersion"] for run in lab.runs("daily")[-2:]} == {"r4"}
    assert ran(lab) == []


def test_a_change_that_was_undone_is_none(lab: Lab) -> None:
    """What returned to the version that was read starts nothing, also when the day is over."""
    rated(lab, "latest")
    lab.advance(hours=14)
    lab.report("rates", "r2")
    lab.report("rates", "r1")
    lab.advance(hours=2)
    assert ran(lab) == []


def test_the_newest_of_another_time_zone(lab: Lab) -> None:
    """A change at 23:30 UTC is one of the next day in Berlin."""
    rated(lab, "latest", {**DAYS, "timezone": "Europe/Berlin"})
    lab.report("raw", "v1", partition_key="2026-01-05T01")
    lab.advance(hours=14, minutes=15)  # 00:15 in Berlin: the 5th is the newest
    assert ran(lab) == [("daily", "2026-01-05")]
    lab.report("rates", "r2")
    lab.advance(hours=1)
    assert ran(lab) == [("daily", "2026-01-05")]


def test_an_open_partition_is_the_newest(lab: Lab) -> None:
    """A window that is produced while it runs is the newest from its begin on."""
    lab.apply(
        divided("daily", {"raw": {"require": "any"}, "rates": {"affects": "latest"}}, {**DAYS, "open": True}),
        sources=(HOURS, RATES),
    )
    lab.report("rates", "r1")
    for day in ("2026-01-04", "2026-01-05"):
        lab.report("raw", "v1", partition_key=f"{day}T05")
    assert keys(ran(lab)) == ["2026-01-04", "2026-01-05"]
    lab.report("rates", "r2")
    assert ran(lab) == [("daily", "2026-01-05")]


def test_a_dynamic_partition_is_the_newest_until_the_next_one_is_seen(lab: Lab) -> None:
    """A change concerns the key that had been seen last when it was produced."""
    source = {"assetId": "raw", "partitioning": {"dynamic": {}}}
    lab.apply(divided("each", {"raw": None, "rates": {"affects": "latest"}}, {"dynamic": {}}), sources=(source, RATES))
    lab.report("rates", "r1")
    lab.report("raw", "v1", partition_key="b")
    assert ran(lab) == [("each", "b")]
    lab.advance(minutes=1)
    lab.report("rates", "r2")
    lab.advance(minutes=1)
    lab.report("raw", "v1", partition_key="a")
    assert keys(ran(lab)) == ["a", "b"]
    lab.advance(minutes=1)
    lab.report("rates", "r3")
    assert ran(lab) == [("each", "a")]


def test_an_input_that_affects_nobody(lab: Lab) -> None:
    """Its changes note nobody. It is read at its head, and its first data wakes those that miss it."""
    rated(lab, "none")
    lab.report("rates", "r2")
    assert noted(lab, "daily") == []
    assert ran(lab) == []
    lab.report("raw", "v2", partition_key="2026-01-03T05")
    assert ran(lab) == [("daily", "2026-01-03")]
    [run] = lab.runs("daily")[-1:]
    assert run["pins"]["rates"]["dataVersion"] == "r2"
    assert ran(lab) == []


@pytest.mark.parametrize("affects", ["latest", "none"])
def test_the_first_data_wakes_all_that_miss_it(affects: str, lab: Lab) -> None:
    """Also partitions that were not the newest."""
    lab.apply(
        divided("daily", {"raw": {"require": "any"}, "rates": {"affects": affects}}, DAYS), sources=(HOURS, RATES)
    )
    for day in ("2026-01-02", "2026-01-03"):
        lab.report("raw", "v1", partition_key=f"{day}T05")
    assert ran(lab) == []
    lab.report("rates", "r1")
    assert keys(ran(lab)) == ["2026-01-02", "2026-01-03"]


def test_an_outcome_names_the_partition_that_a_change_concerned(lab: Lab) -> None:
    """It does not change when the next partition comes."""
    rated(lab, "latest")
    lab.report("rates", "r2")
    ran(lab)
    lab.advance(days=1)
    ran(lab)
    [event] = lab.rows("SELECT event_id::text AS id FROM snapshots WHERE asset_id = 'rates' AND data_version = 'r2'")
    found = lab.store.reader.event(event["id"])
    assert [(one["partitionKey"], one["fate"]) for one in found["fates"]] == [("2026-01-04", "triggered")]
