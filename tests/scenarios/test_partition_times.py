"""Partitions and time in the store: new keys, grace and freshness clocks (docs/semantics.md#R13.2)."""

from __future__ import annotations

from typing import Any

from tests.scenarios.test_partitions import DAYS, HOURS, MONTHS, divided, ran
from tests.store_harness import Lab

DAILY_SOURCE: dict[str, Any] = {"assetId": "raw", "partitioning": {"time": "day", "start": "2025-12-30"}}


def keys(found: list[tuple[str, str]], slug: str) -> list[str]:
    """Return the partitions of a workflow that ran, sorted."""
    return sorted(key for one, key in found if one == slug)


def test_a_day_runs_when_it_has_ended(lab: Lab) -> None:
    """Its hours are there before: the first instant of the next day makes it exist, and nothing earlier does."""
    lab.apply(divided("daily", {"raw": {"require": "any"}}, DAYS), sources=(HOURS,))
    assert ran(lab) == []
    lab.report("raw", "v1", partition_key="2026-01-05T03")
    assert ran(lab) == []
    lab.advance(hours=15, seconds=-1)  # 23:59:59
    assert ran(lab) == []
    lab.advance(seconds=1)
    assert ran(lab) == [("daily", "2026-01-05")]
    lab.advance(days=1)
    assert ran(lab) == []


def test_all_keys_of_a_downtime_are_considered_once(lab: Lab) -> None:
    """One timer fires after nine days; each day that came is evaluated, and the next one gets its own timer."""
    lab.apply(divided("daily", {}, DAYS), sources=(HOURS,))
    assert keys(ran(lab), "daily")[-1] == "2026-01-04"
    lab.advance(days=9)
    expected = [f"2026-01-{day:02}" for day in range(5, 14)]
    assert keys(ran(lab), "daily") == expected
    evaluated = lab.rows(
        "SELECT partition_key, sum(count)::int AS times FROM decisions WHERE reason = 'missing'"
        " AND partition_key >= '2026-01-05' GROUP BY 1 ORDER BY 1"
    )
    assert evaluated == [{"partition_key": key, "times": 1} for key in expected]
    assert ran(lab) == []
    lab.advance(days=1)
    assert keys(ran(lab), "daily") == ["2026-01-14"]


def test_the_last_key_has_no_timer(lab: Lab) -> None:
    """A range that ends leaves nothing that would fire."""
    lab.apply(divided("daily", {}, {**DAYS, "end": "2026-01-07"}))
    assert keys(ran(lab), "daily")[-1] == "2026-01-04"
    lab.advance(days=30)
    assert keys(ran(lab), "daily") == ["2026-01-05", "2026-01-06"]
    assert lab.rows("SELECT * FROM timers") == []


def test_data_that_was_reported_early_counts_when_its_window_ends(lab: Lab) -> None:
    """A total reads whole days. The running day is reported, and counts from the next day on."""
    lab.apply(divided("total", {"raw": None}), sources=(DAILY_SOURCE,))
    lab.report("raw", "v1", partition_key="2026-01-04")
    assert ran(lab) == [("total", "")]
    lab.report("raw", "v1", partition_key="2026-01-05")
    assert ran(lab) == []
    lab.advance(hours=16)
    assert ran(lab) == [("total", "")]
    assert set(lab.runs("total")[-1]["pins"]) == {"raw@2026-01-04", "raw@2026-01-05"}


def test_a_month_waits_for_its_last_day_that_comes_with_it(lab: Lab) -> None:
    """Both come to exist at the same instant. The month does not run without the day."""
    lab.apply(
        divided("daily", {"raw": {"require": "any"}}, DAYS),
        divided("monthly", {"daily": {"require": "any"}}, MONTHS),
        sources=(HOURS,),
    )
    for day in range(6, 32):
        lab.now = lab.now.replace(day=day)
        lab.report("raw", "v1", partition_key=f"2026-01-{day:02}T05")
        ran(lab)
    lab.now = lab.now.replace(month=2, day=1, hour=0)
    assert ran(lab) == [("daily", "2026-01-31"), ("monthly", "2026-01")]
    assert "daily@2026-01-31" in lab.runs("monthly")[-1]["pins"]


def test_a_due_timer_of_a_day_is_waited_for(lab: Lab) -> None:
    """The month is evaluated before the timer of its last day has fired: it waits for the day."""
    lab.apply(
        divided("daily", {"raw": {"require": "any"}}, DAYS),
        divided("monthly", {"daily": {"require": "any"}}, MONTHS),
        sources=(HOURS,),
    )
    lab.report("raw", "v1", partition_key="2026-01-04T05")
    ran(lab)
    lab.now = lab.now.replace(day=31)
    lab.report("raw", "v1", partition_key="2026-01-31T05")
    ran(lab)
    lab.now = lab.now.replace(month=2, day=1, hour=0)
    lab.rows("UPDATE timers SET due_at = due_at + interval '1 hour' WHERE asset_id = 'daily' RETURNING 1")
    lab.store.evaluation.fire_timers(10)  # the timer of the month alone
    lab.rows("UPDATE timers SET due_at = due_at - interval '1 hour' WHERE asset_id = 'daily' RETURNING 1")
    lab.store.evaluation.consume_inbox(100)
    lab.reconciler.run_once()
    assert lab.reason("monthly") == "waiting-for-upstream"
    assert ran(lab) == [("daily", "2026-01-31"), ("monthly", "2026-01")]


def test_a_partition_runs_with_what_there_is_when_its_grace_ends(lab: Lab) -> None:
    """The grace is a durable time: a restart of the services in between does not matter."""
    source = {"assetId": "raw", "partitioning": {"time": "hour", "start": "2026-01-05"}}
    lab.apply(divided("daily", {"raw": {"grace": "2h"}}, {**DAYS, "start": "2026-01-05"}), sources=(source,))
    lab.report("raw", "v1", partition_key="2026-01-05T03")
    lab.advance(hours=15)
    assert ran(lab) == []
    assert lab.reason("daily") == "input-missing"
    lab.advance(hours=2, seconds=-1)
    assert ran(lab) == []
    lab.advance(seconds=1)
    assert ran(lab) == [("daily", "2026-01-05")]


def test_freshness_runs_for_the_newest_partition_only(lab: Lab) -> None:
    """An hour later the newest day has expired. The older ones have not, and the clock moves on with the days."""
    fresh = {"ttlMs": 3_600_000}
    lab.apply(divided("daily", {}, DAYS, freshness=fresh))
    ran(lab)
    assert lab.rows("SELECT partition_key FROM timers WHERE kind = 'expiry'") == [{"partition_key": "2026-01-04"}]
    lab.advance(hours=1)
    assert ran(lab) == [("daily", "2026-01-04")]
    lab.advance(hours=14)
    assert sorted(ran(lab)) == [("daily", "2026-01-05")]
    assert lab.rows("SELECT partition_key FROM timers WHERE kind = 'expiry'") == [{"partition_key": "2026-01-05"}]


def test_freshness_of_several_partitions(lab: Lab) -> None:
    """`partitions: latest(2)`: the clocks of the two newest run."""
    lab.apply(divided("daily", {}, DAYS, freshness={"ttlMs": 3_600_000, "partitions": {"latest": 2}}))
    ran(lab)
    lab.advance(hours=1)
    assert sorted(ran(lab)) == [("daily", "2026-01-03"), ("daily", "2026-01-04")]


def test_a_schedule_expires_the_newest_partition(lab: Lab) -> None:
    """At noon the newest day is computed again, also if a new one came since the last noon."""
    lab.apply(divided("daily", {}, DAYS, freshness={"cron": "0 12 * * *"}))
    ran(lab)
    lab.advance(hours=3)
    assert ran(lab) == [("daily", "2026-01-04")]
    lab.advance(hours=13)
    assert ran(lab) == [("daily", "2026-01-05")]
    lab.advance(hours=11)
    assert ran(lab) == [("daily", "2026-01-05")]


def test_another_range_keeps_the_times_that_are_due(lab: Lab) -> None:
    """An apply during a downtime, before anything fired, loses no key."""
    lab.apply(divided("daily", {}, DAYS))
    ran(lab)
    lab.advance(days=3)
    lab.apply(divided("daily", {}, DAYS), divided("other", {}, DAYS))
    assert keys(ran(lab), "daily") == ["2026-01-05", "2026-01-06", "2026-01-07"]
