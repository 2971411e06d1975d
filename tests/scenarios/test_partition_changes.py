"""Changes of partitions by an apply: ranges, grains, other projects and the baseline (docs/semantics.md#R13.9)."""

from __future__ import annotations

from typing import Any

import pytest

from freshline.errors import DefinitionErrors
from freshline.store.apply.partition_changes import sentences
from tests.scenarios.test_partitions import DAYS, HOURS, divided, ran
from tests.store_harness import Lab, project, workflow

KOLKATA = {"time": "day", "start": "2025-12-30", "timezone": "Asia/Kolkata"}


def daily(partitioning: dict[str, Any] | None = DAYS, **more: Any) -> dict[str, Any]:
    """Return a workflow of days without inputs."""
    return divided("daily", {}, partitioning, **more)


def test_a_longer_range_adds_keys(lab: Lab) -> None:
    """They run; those that were there do not."""
    lab.apply(daily())
    ran(lab)
    longer = daily({**DAYS, "start": "2025-12-28"})
    assert lab.store.apply.diff(project(longer)).partitions == {"daily": "2 partitions added"}
    preview = lab.store.apply.preview(project(longer))
    assert preview.partitions == ["daily: 2 of 8 partitions would run; 6 up-to-date"]
    lab.apply(longer)
    assert sorted(ran(lab)) == [("daily", "2025-12-28"), ("daily", "2025-12-29")]


def test_a_preview_counts_the_newest_of_very_many() -> None:
    """It says so: an apply must not take long because a workflow has a million minutes."""
    found = {"minutely": {"run": 1, "input-missing": 9}, "daily": {"run": 1}}
    assert list(sentences(found, (), 10)) == [
        "daily: 1 of 1 partition would run",
        "minutely: 1 of the newest 10 partitions would run; 9 input-missing",
    ]


def test_a_shorter_range_leaves_keys_outside(lab: Lab) -> None:
    """They stay readable, and nothing evaluates them any more."""
    lab.apply(daily())
    ran(lab)
    shorter = daily({**DAYS, "start": "2026-01-02"})
    change = lab.store.apply.diff(project(shorter)).partitions["daily"]
    assert change == "3 partitions outside now: readable, and not run any more"
    lab.store.operations.expire("daily", partition_key="2025-12-31")
    lab.store.evaluation.fire_timers(10)
    lab.apply(shorter)
    assert ran(lab) == []
    assert lab.rows("SELECT 1 FROM considerations") == []
    assert lab.one("SELECT count(*) FROM heads") == 6
    assert not lab.rows("SELECT 1 FROM decisions WHERE outcome = 'error'")


def test_another_zone_is_another_key_set(lab: Lab) -> None:
    """Every partition is built again; the plan says so."""
    lab.apply(daily())
    ran(lab)
    change = lab.store.apply.diff(project(daily(KOLKATA))).partitions["daily"]
    assert change == (
        "days in UTC -> days in Asia/Kolkata; the old table version stays readable, 6 partitions will be rebuilt"
    )
    lab.apply(daily(KOLKATA))
    assert len(ran(lab)) == 6


def test_partitions_come_and_go(lab: Lab) -> None:
    """Without partitions, with them, and without again: each data stays, and nothing is evaluated under old keys."""
    lab.apply(workflow("daily", "raw"), workflow("total", "daily"), sources=("raw",))
    lab.report("raw", "v1")
    assert lab.work() == ["daily", "total"]
    source = {"assetId": "raw", "partitioning": {"time": "day", "start": "2025-12-30"}}
    parts = (divided("daily", {"raw": None}, DAYS), divided("total", {"daily": None}))
    changes = lab.store.apply.diff(project(*parts, sources=(source,))).partitions
    move = "no partitions -> days in UTC; the old table version stays readable, 6 partitions"
    assert changes == {"daily": f"{move} will be rebuilt", "raw": f"{move} have to be reported"}
    lab.apply(*parts, sources=(source,))
    assert ran(lab) == []
    lab.report("raw", "v2", partition_key="2026-01-02")
    assert ran(lab) == [("daily", "2026-01-02"), ("total", "")]
    before = lab.rows("SELECT * FROM snapshots ORDER BY asset_id, partition_key, sequence")
    lab.apply(workflow("daily", "raw"), workflow("total", "daily"), sources=("raw",))
    ran(lab)
    assert not lab.rows("SELECT 1 FROM decisions WHERE outcome = 'error'")
    assert {one["partition_key"] for one in lab.rows("SELECT partition_key FROM heads WHERE asset_id = 'daily'")} == {
        "",
        "2026-01-02",
    }
    after = lab.rows("SELECT * FROM snapshots ORDER BY asset_id, partition_key, sequence")
    assert [row for row in after if row in before] == before
    lab.report("raw", "v3")
    assert lab.work() == ["daily", "total"]


def test_a_changed_source_lets_its_consumers_be_evaluated(lab: Lab) -> None:
    """The workflow did not change. Its source has a longer range again, so it reads a partition more."""
    lab.apply(divided("total", {"raw": None}), sources=(HOURS,))
    for hour in ("2025-12-02T05", "2026-01-02T05"):
        lab.report("raw", "v1", partition_key=hour)
    assert ran(lab) == [("total", "")]
    later = {"assetId": "raw", "partitioning": {"time": "hour", "start": "2026-01-01"}}
    lab.apply(divided("total", {"raw": None}), sources=(later,))
    lab.report("raw", "v2", partition_key="2026-01-02T05")
    assert ran(lab) == [("total", "")]
    assert set(lab.runs("total")[-1]["pins"]) == {"raw@2026-01-02T05"}
    lab.apply(divided("total", {"raw": None}), sources=(HOURS,))
    assert ran(lab) == [("total", "")]
    assert set(lab.runs("total")[-1]["pins"]) == {"raw@2025-12-02T05", "raw@2026-01-02T05"}


def test_a_mapping_to_another_project_that_cannot_be_is_refused(lab: Lab) -> None:
    """Days in Kolkata over hours in UTC: sums would double. Nothing is written, in both orders of apply."""
    lab.apply(name="first", sources=(HOURS,))
    before = lab.everything()
    with pytest.raises(DefinitionErrors, match=r"workflows/daily.yaml:1: workflow 'daily' cannot read .* 'raw' of"):
        lab.apply(divided("daily", {"raw": None}, KOLKATA), name="second")
    assert lab.everything() == before
    lab.apply(divided("daily", {"raw": None}, DAYS), name="second")
    before = lab.everything()
    fixed = {"assetId": "raw", "partitioning": {"keys": ["eu"]}}
    with pytest.raises(DefinitionErrors, match=r"sources/all.yaml:1: workflow 'daily' of project 'second' could not"):
        lab.apply(name="first", sources=(fixed,))
    assert lab.everything() == before


def test_a_baseline_accepts_every_partition(lab: Lab) -> None:
    """`--baseline now` after a change of the code: no partition runs; a later change of one input runs one."""
    source = {"assetId": "raw", "partitioning": {"time": "day", "start": "2025-12-30"}}
    lab.apply(divided("daily", {"raw": None}, DAYS), sources=(source,))
    for day in ("2026-01-01", "2026-01-02"):
        lab.report("raw", "v1", partition_key=day)
    assert len(ran(lab)) == 2
    changed = divided("daily", {"raw": None}, DAYS, entrypoint="jobs:other")
    lab.apply(changed, sources=(source,), baseline=True)
    assert ran(lab) == []
    lab.report("raw", "v2", partition_key="2026-01-02")
    assert ran(lab) == [("daily", "2026-01-02")]
