"""Time: timers are durable, never early, and miss no day (docs/scenarios.md#time)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from freshline.model.moment import iso
from tests.store_harness import Lab, project, workflow

HOUR = 3_600_000


def due(lab: Lab, asset_id: str = "b", kind: str = "expiry") -> datetime:
    """Return when the asset's timer fires."""
    found: datetime = lab.one("SELECT due_at FROM timers WHERE asset_id = %s AND kind = %s", asset_id, kind)
    return found


def test_a_ttl_refreshes_again_and_again(lab: Lab) -> None:
    """A TTL expires after the production, never early, and each refresh starts it anew."""
    lab.apply(workflow("b", "a", freshness={"ttlMs": HOUR}))
    lab.report("a", "1")
    assert lab.work() == ["b"]
    for _ in range(3):
        lab.advance(minutes=59)
        assert lab.work() == []
        lab.advance(minutes=1)
        assert lab.work() == ["b"]
    run = lab.runs("b")[-1]
    assert run["trigger"]["reason"] == "expired"
    assert run["trigger"]["expiry"]["reason"] == "ttl"
    assert len(lab.events("asset.expired")) == 3
    assert str(lab.events("asset.expired")[-1]["id"]) in run["trigger"]["eventIds"]


def test_missed_times_collapse_into_one(lab: Lab) -> None:
    """After a long night one late refresh; the grid stays where it was (docs/semantics.md#R8.1)."""
    lab.apply(workflow("b", freshness={"cadenceMs": HOUR, "offsetMs": 600_000}))
    assert lab.work() == ["b"]
    assert due(lab) == datetime(2026, 1, 5, 9, 10, tzinfo=UTC)
    lab.advance(hours=10)
    assert lab.work() == ["b"]
    assert due(lab) == datetime(2026, 1, 5, 19, 10, tzinfo=UTC)
    assert len(lab.events("asset.expired")) == 1


@pytest.mark.parametrize(
    ("zone", "change"),
    [
        ("Europe/Berlin", datetime(2026, 3, 29, tzinfo=UTC)),
        ("Europe/Berlin", datetime(2026, 10, 25, tzinfo=UTC)),
        ("America/New_York", datetime(2026, 3, 8, tzinfo=UTC)),
        ("America/New_York", datetime(2026, 11, 1, tzinfo=UTC)),
        ("Australia/Lord_Howe", datetime(2026, 4, 5, tzinfo=UTC)),
        ("Australia/Lord_Howe", datetime(2026, 10, 4, tzinfo=UTC)),
    ],
)
def test_a_daily_job_runs_once_a_day_over_clock_changes(lab: Lab, zone: str, change: datetime) -> None:
    """One run on the 23-hour day and one on the 25-hour day, at its time or the next one there is.

    See docs/scenarios.md#scenario-30.
    """
    lab.now = change - timedelta(days=2)
    lab.apply(workflow("b", freshness={"cron": "30 2 * * *", "timezone": zone}))
    assert lab.work() == ["b"]
    days = []
    for _ in range(4):
        lab.now = due(lab)
        assert lab.work() == ["b"]
        days.append(lab.now.astimezone(ZoneInfo(zone)).date())
    assert days == [days[0] + timedelta(days=number) for number in range(4)]


def test_a_timer_far_in_the_future_neither_fires_nor_overflows(lab: Lab) -> None:
    """400 days are 400 days (docs/scenarios.md#scenario-30)."""
    lab.apply(workflow("b", freshness={"ttlMs": 400 * 24 * HOUR}))
    assert lab.work() == ["b"]
    assert due(lab) == lab.now + timedelta(days=400)
    lab.advance(days=399)
    assert lab.work() == []
    lab.advance(days=1)
    assert lab.work() == ["b"]


def test_a_first_run_needs_no_event(lab: Lab) -> None:
    """An asset that was never produced runs when its inputs exist, whenever it was declared.

    See docs/scenarios.md#scenario-31.
    """
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    assert lab.work() == ["b"]
    lab.apply(workflow("b", "a"), workflow("c", "a b"), workflow("d"))
    assert sorted(lab.work()) == ["c", "d"]
    assert {run["trigger"]["reason"] for run in lab.runs()} == {"missing"}


def test_on_missing_false_waits_for_the_next_change(lab: Lab) -> None:
    """With `onMissing: false` the heads at apply count as read (docs/semantics.md#R8.2)."""
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.work()
    quiet = workflow("c", "a", auto={"onUpstreamUpdate": True, "onMissing": False})
    lab.apply(workflow("b", "a"), quiet)
    assert lab.work() == []
    lab.report("a", "2")
    assert sorted(lab.work()) == ["b", "c"]


def test_a_report_beside_the_baseline_is_a_change(lab: Lab) -> None:
    """An input that comes into being after apply is a change, even the first version of it (docs/semantics.md#R8.2)."""
    lab.apply(workflow("c", "a", auto={"onUpstreamUpdate": True, "onMissing": False}))
    assert lab.work() == []
    assert lab.reason("c") == "input-missing"
    lab.report("a", "1")
    assert lab.work() == ["c"]


def test_the_baseline_accepts_what_is_there(lab: Lab) -> None:
    """`--baseline now` runs nothing for what changed or expired; what is missing still runs; then all goes on.

    See docs/semantics.md#R1.2.
    """
    lab.apply(workflow("b", "a", freshness={"ttlMs": HOUR}), workflow("c", "a"))
    lab.report("a", "1")
    lab.work()
    lab.report("a", "2")
    lab.advance(hours=2)
    lab.settle()
    changed = workflow("b", "a", freshness={"ttlMs": HOUR}, entrypoint="jobs:new")
    lab.apply(changed, workflow("c", "a", entrypoint="jobs:new"), workflow("n"), baseline=True)
    assert lab.work() == ["n"]
    lab.advance(minutes=59)
    assert lab.work() == []
    lab.advance(minutes=1)
    assert lab.work() == ["b"], "the clock of what was accepted begins with its acceptance"
    lab.report("a", "3")
    assert sorted(lab.work()) == ["b", "c"]


@pytest.mark.parametrize("status", ["queued", "running"])
def test_an_expiry_during_a_run_needs_no_other_run(lab: Lab, status: str) -> None:
    """A run that is queued or running when the asset expires brings the refresh (docs/scenarios.md#scenario-32)."""
    lab.apply(workflow("b", "a", freshness={"ttlMs": HOUR}))
    lab.report("a", "1")
    lab.work()
    lab.advance(minutes=59)
    lab.report("a", "2")
    lab.settle()
    run = lab.start() if status == "running" else None
    lab.advance(minutes=2)
    lab.settle()
    assert lab.reason("b") == "in-flight"
    lab.finish(run or lab.start())
    assert lab.work() == []
    assert due(lab) == lab.now + timedelta(hours=1)


def test_a_user_may_expire_an_asset(lab: Lab) -> None:
    """`expire` is as if the freshness had run out, also without any freshness; one run, told as manual."""
    lab.apply(workflow("b", "a"), workflow("c", "b"))
    lab.report("a", "1")
    lab.work()
    lab.store.operations.expire("b")
    assert lab.work() == ["b"]
    assert lab.runs("b")[-1]["trigger"]["expiry"]["reason"] == "manual"
    assert lab.work() == []


@pytest.mark.parametrize("fired", [True, False], ids=["fired", "not-yet-fired"])
def test_an_apply_does_not_forget_a_manual_expiry(lab: Lab, fired: bool) -> None:
    """A definition that changes between `expire` and its run does not swallow it."""
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.work()
    lab.store.operations.pause("b")
    lab.store.operations.expire("b")
    if fired:
        lab.settle()
    lab.apply(workflow("b", "a", auto={"onUpstreamUpdate": True, "priority": 1}))
    lab.settle()
    lab.store.operations.resume("b")
    assert lab.work() == ["b"]
    assert lab.runs("b")[-1]["trigger"]["reason"] == "expired"


def test_an_asset_without_a_block_expires_and_runs_nothing(lab: Lab) -> None:
    """`asset.expired` is told with or without a block; it causes a run only with an enabled one.

    See docs/semantics.md#R2.4.
    """
    told = {"assetId": "a", "autoMaterialize": {"onUpstreamUpdate": True}}
    lab.apply(workflow("b", [told], auto=None, freshness={"ttlMs": HOUR}))
    lab.report("a", "1")
    assert lab.work() == ["b"]
    lab.advance(hours=2)
    assert lab.work() == []
    assert len(lab.events("asset.expired")) == 1
    assert lab.forgotten() == 0


def test_freshness_edits_move_the_timers(lab: Lab) -> None:
    """A new TTL counts from the apply, a removed one never fires, a grid begins at once.

    See docs/semantics.md#R1.2, docs/semantics.md#R8.1.
    """
    lab.apply(workflow("b", freshness={"ttlMs": HOUR}))
    lab.work()
    lab.advance(minutes=10)
    lab.apply(workflow("b", freshness={"ttlMs": 2 * HOUR}))
    assert due(lab) == lab.later(hours=2)
    lab.apply(workflow("b"))
    assert lab.rows("SELECT * FROM timers") == []
    lab.apply(workflow("b", freshness={"cadenceMs": HOUR}))
    assert due(lab) == datetime(2026, 1, 5, 10, tzinfo=UTC)
    assert lab.work() == []
    lab.apply(workflow("b", freshness={"ttlMs": HOUR // 6}))
    assert lab.work() == [], "an edit of the freshness runs nothing"
    lab.advance(minutes=10)
    assert lab.work() == ["b"]


def test_a_shorter_ttl_of_old_data_does_not_expire_everything_at_once(lab: Lab) -> None:
    """A hundred edits would be a hundred runs at once. Each asset gets its new time from the apply on.

    See docs/semantics.md#R8.1.
    """
    lab.apply(*(workflow(slug, freshness={"ttlMs": 24 * HOUR}) for slug in "bcd"))
    lab.work()
    lab.advance(hours=20)
    edited = [workflow(slug, freshness={"ttlMs": HOUR}) for slug in "bc"]
    same = workflow("d", freshness={"ttlMs": 24 * HOUR})
    planned = lab.store.apply.preview(project(*edited, same))
    assert (planned.runs, planned.expiries) == ((), dict.fromkeys("bc", iso(lab.later(hours=1))))
    lab.apply(*edited, same)
    assert lab.work() == []
    lab.advance(minutes=59)
    assert lab.work() == []
    lab.advance(minutes=1)
    assert lab.work() == ["b", "c"]
    lab.advance(hours=1)
    assert lab.work() == ["b", "c"]
    lab.advance(hours=2)
    assert sorted(lab.work()) == ["b", "c", "d"]


@pytest.mark.parametrize(
    "edit",
    [
        {"auto": {"onUpstreamUpdate": False}},
        {"entrypoint": "jobs:other", "auto": {"onMissing": False}},
        {"freshness": {"ttlMs": HOUR, "maxAgeMs": HOUR}},
        {},
    ],
)
def test_an_edit_of_something_else_postpones_no_expiry(lab: Lab, edit: dict[str, Any]) -> None:
    """Otherwise a project that is applied every hour would never be refreshed (docs/semantics.md#R8.1).

    A time that an earlier edit gave also stays.
    """
    lab.apply(workflow("b", freshness={"ttlMs": 2 * HOUR}))
    lab.work()
    lab.advance(minutes=90)
    lab.apply(workflow("b", freshness={"ttlMs": HOUR}))
    edited_at = lab.now
    for number in range(3):
        lab.advance(minutes=10)
        lab.apply(workflow("b", **{"freshness": {"ttlMs": HOUR}, **edit, "description": f"edit {number}"}))
        assert due(lab) == edited_at + timedelta(hours=1)


def test_the_clock_of_a_workflow_that_comes_back(lab: Lab) -> None:
    """With the freshness that it had it continues from the production; with another one it begins with the apply.

    See docs/semantics.md#R8.1.
    """
    lab.apply(workflow("b", freshness={"ttlMs": 2 * HOUR}), workflow("c"))
    lab.work()
    produced = lab.now
    lab.advance(minutes=30)
    lab.apply(workflow("c"))
    lab.apply(workflow("b", freshness={"ttlMs": 2 * HOUR}), workflow("c"))
    assert due(lab) == produced + timedelta(hours=2)
    lab.apply(workflow("c"))
    lab.apply(workflow("b", freshness={"ttlMs": HOUR}), workflow("c"))
    assert due(lab) == lab.later(hours=1)
    lab.advance(minutes=10)
    lab.apply(workflow("b", freshness={"ttlMs": 2 * HOUR}), workflow("c"))
    assert due(lab) == lab.later(hours=2), "an older definition that is restored is an edit too"
    lab.advance(minutes=10)
    lab.apply(workflow("renamed", outputs=["b"], freshness={"ttlMs": 2 * HOUR}), workflow("c"))
    assert due(lab) == lab.later(minutes=110), "an asset that moves keeps its time"


def test_an_age_counts_from_the_production_also_after_an_edit(lab: Lab) -> None:
    """`maxAgeMs` is a promise about the data: by a shorter one old data is overdue at once (docs/semantics.md#R8.4)."""
    lab.apply(workflow("b", freshness={"maxAgeMs": 24 * HOUR}))
    lab.work()
    lab.advance(hours=20)
    lab.apply(workflow("b", freshness={"maxAgeMs": HOUR}))
    assert lab.work() == []
    assert len(lab.events("asset.overdue")) == 1


def test_an_edit_of_the_freshness_leaves_no_old_point_behind(lab: Lab) -> None:
    """An expired asset keeps waiting for its run; the grid that it had before the edit is gone.

    See docs/semantics.md#R8.1.
    """
    lab.apply(workflow("b", freshness={"cadenceMs": HOUR}))
    lab.work()
    lab.store.operations.pause("b")
    lab.advance(hours=1)
    lab.settle()
    lab.apply(workflow("b", freshness={"ttlMs": 24 * HOUR}))
    lab.advance(hours=3)
    lab.settle()
    assert len(lab.events("asset.expired")) == 1
    lab.store.operations.resume("b")
    assert lab.work() == ["b"]


def test_an_overdue_asset_is_told_once_and_recovers(lab: Lab) -> None:
    """`maxAgeMs` runs nothing, tells once per incident, whatever is applied meanwhile, and tells the end.

    See docs/semantics.md#R8.4.
    """
    lab.apply(workflow("b", "a", freshness={"maxAgeMs": HOUR}))
    lab.report("a", "1")
    lab.work()
    lab.advance(hours=2)
    assert lab.work() == []
    assert len(lab.events("asset.overdue")) == 1
    lab.apply(workflow("b", "a", freshness={"maxAgeMs": HOUR}, auto={"onUpstreamUpdate": True, "priority": 7}))
    lab.work()
    assert len(lab.events("asset.overdue")) == 1
    lab.report("a", "2")
    assert lab.work() == ["b"]
    assert len(lab.events("asset.recovered")) == 1
    lab.advance(hours=2)
    lab.work()
    assert len(lab.events("asset.overdue")) == 2


def test_a_minimum_interval_counts_from_the_last_start(lab: Lab) -> None:
    """`minIntervalMs` holds updates and lets one run catch up (docs/semantics.md#R5.1)."""
    lab.apply(workflow("b", "a", auto={"onUpstreamUpdate": True, "minIntervalMs": HOUR}))
    lab.report("a", "1")
    assert lab.work() == ["b"]
    lab.advance(minutes=30)
    lab.report("a", "2")
    assert lab.work() == []
    assert lab.reason("b") == "min-interval"
    lab.advance(minutes=30)
    assert lab.work() == ["b"]


def test_a_wait_for_ancestors_survives_a_restart(lab: Lab) -> None:
    """The time that was waited is stored. A new process does not begin again, and its absence does not count.

    See docs/semantics.md#R4.5.
    """
    short = {"onUpstreamUpdate": True, "maxWaitMs": HOUR}
    lab.apply(workflow("b", "a"), workflow("c", "a"), workflow("d", "b c", auto=short))
    lab.report("a", "1")
    lab.work()
    lab.report("a", "2")
    lab.settle()
    lab.finish(lab.start_of("b"))
    lab.settle()
    stuck = lab.start_of("c")
    lab.live(minutes=30)
    lab.rows("UPDATE considerations SET evaluations = 0, not_before = %s RETURNING 1", lab.later(hours=5))
    lab.live(hours=5)
    assert lab.reason("d") == "waiting-for-upstream"
    lab.live(minutes=31)
    lab.store.runs.renew_leases([{"id": stuck.id, "attempt": stuck.attempt}])
    assert lab.work() == ["d"]
