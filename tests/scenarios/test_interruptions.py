"""Waits that downtime, pauses and quiet hours interrupt, runs that quiet hours reach, and data that is a mix.

See docs/semantics.md#R4.5, docs/semantics.md#R8.3, docs/semantics.md#R1.4.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.store_harness import ON_UPDATE, Lab, workflow

NIGHT = [{"from": "22:00", "to": "06:00"}]


def diamond(**joins: Any) -> tuple[dict[str, Any], ...]:
    """Return s -> left, s -> right, (left, right) -> join."""
    return workflow("left", "s"), workflow("right", "s"), workflow("join", "left right", **joins)


def half_way(lab: Lab, *flows: dict[str, Any]) -> Any:
    """Bring the diamond to the point where `left` is new, and `right` still runs on the new version."""
    lab.apply(*flows)
    lab.report("s", "1")
    lab.work()
    lab.report("s", "2")
    lab.settle()
    right = lab.start_of("right")
    lab.finish(lab.start_of("left"))
    lab.settle()
    assert lab.reason("join") == "waiting-for-upstream"
    return right


def mixes(lab: Lab, slug: str = "join") -> list[bool]:
    """Return whether each run of the workflow said that it may have read a mix, oldest first."""
    return [run["mixed"] for run in lab.runs(slug)]


# Waiting that had no time to wait


def test_a_downtime_is_not_time_spent_waiting(lab: Lab) -> None:
    """After hours without a materializer a join still waits for its other branch, and runs once."""
    right = half_way(lab, *diamond())
    lab.advance(hours=9)
    lab.settle()
    assert lab.reason("join") == "waiting-for-upstream"
    lab.finish(right)
    assert lab.work() == ["join"]
    assert mixes(lab) == [False, False]


def test_a_pause_is_not_time_spent_waiting(lab: Lab) -> None:
    """Changes that arrived long before the end of a pause do not end the wait for those that are under way."""
    lab.apply(*diamond())
    lab.report("s", "1")
    lab.work()
    lab.store.operations.pause("join", lab.later(hours=12))
    lab.report("s", "2")
    lab.settle()
    lab.finish(lab.start_of("left"))
    right = lab.start_of("right")
    lab.live(hours=12, minutes=1)
    assert lab.reason("join") == "waiting-for-upstream"
    lab.finish(right)
    assert lab.work() == ["join"]
    assert mixes(lab) == [False, False]


def test_a_morning_after_quiet_hours_is_one_run_each(lab: Lab) -> None:
    """With the defaults: everything changed in the night, and in the morning the join waits for both branches."""
    left, right, _ = diamond()
    flows = [{**one, "quietHours": NIGHT} for one in (left, right, workflow("join", "s left right"))]
    lab.apply(*flows)
    lab.report("s", "1")
    lab.work()
    lab.now = lab.now.replace(hour=23)
    lab.report("s", "2")
    lab.live(hours=6, minutes=59)
    assert lab.active() == []
    lab.live(minutes=2)
    lab.finish(lab.start_of("left"))
    lab.settle()
    assert lab.reason("join") == "waiting-for-upstream"
    lab.live(minutes=20)
    lab.finish(lab.start_of("right"))
    assert lab.work() == ["join"]
    assert mixes(lab) == [False, False]


def test_waiting_ends_when_it_has_been_waited_long_enough(lab: Lab) -> None:
    """Only time spent waiting counts, over any number of interruptions, and it does end."""
    right = half_way(lab, *diamond(auto={**ON_UPDATE, "maxWaitMs": 600_000}))
    for _ in range(3):
        lab.live(minutes=3)
        assert lab.reason("join") == "waiting-for-upstream"
        lab.advance(hours=5)
        lab.settle()
    lab.live(minutes=2)
    assert lab.active("join") == ["join"]
    assert mixes(lab) == [False, True]
    lab.finish(lab.start_of("join"))
    lab.finish(right)
    assert lab.work() == ["join"]
    assert mixes(lab) == [False, True, False]


def test_an_input_that_may_not_trigger_does_not_end_the_wait(lab: Lab) -> None:
    """A lookup that changed a year ago is no reason to read a mix today."""
    pinned = {"assetId": "lookup", "autoMaterialize": {"onUpstreamUpdate": False}}
    join = workflow("join", ["left", "right", pinned])
    lab.apply(*diamond()[:2], join, sources=("s", "lookup"))
    lab.report("lookup", "1")
    lab.report("s", "1")
    lab.work()
    lab.report("lookup", "2")
    lab.settle()
    lab.advance(days=300)
    lab.settle()
    lab.report("s", "2")
    lab.settle()
    lab.finish(lab.start_of("left"))
    lab.settle()
    assert lab.reason("join") == "waiting-for-upstream"
    lab.finish(lab.start_of("right"))
    assert lab.work() == ["join"]
    assert mixes(lab) == [False, False]


def test_a_wait_goes_on_after_a_failure(lab: Lab) -> None:
    """A failed run does not grant another full wait: what was waited counts until a success."""
    once = {"baseMs": 60_000, "maxMs": 60_000}
    right = half_way(lab, *diamond(auto={**ON_UPDATE, "maxWaitMs": 600_000}, backoff=once))
    lab.live(minutes=11)
    lab.fail(lab.start_of("join"))
    lab.live(minutes=3)
    assert lab.active("join") == ["join"], "it waits for `right` again"
    lab.finish(right)


def test_a_wait_starts_again_after_a_success(lab: Lab) -> None:
    """The next round has its own time to wait."""
    right = half_way(lab, *diamond(auto={**ON_UPDATE, "maxWaitMs": 600_000}))
    lab.live(minutes=9)
    lab.finish(right)
    assert lab.work() == ["join"]
    lab.report("s", "3")
    lab.settle()
    right = lab.start_of("right")
    lab.finish(lab.start_of("left"))
    lab.live(minutes=9)
    assert lab.reason("join") == "waiting-for-upstream"
    lab.finish(right)
    lab.work()
    assert True not in mixes(lab)


# Quiet hours


def test_a_queued_run_is_taken_back_when_quiet_hours_begin(lab: Lab) -> None:
    """It ends as by a pause, its cause stays pending, and the morning brings a new run."""
    lab.apply(workflow("b", "a", quietHours=NIGHT))
    lab.now = lab.now.replace(hour=21, minute=59)
    lab.report("a", "1")
    lab.settle()
    assert lab.active() == ["b"]
    lab.live(minutes=2)
    assert lab.active() == []
    assert [(run["status"], run["cancel_reason"]) for run in lab.runs("b")] == [("canceled", "quiet-hours")]
    assert lab.reason("b") == "quiet-hours"
    lab.live(hours=8)
    assert lab.work() == ["b"]


def test_no_worker_starts_a_run_in_quiet_hours(lab: Lab) -> None:
    """Also if no materializer is there to take it back; manual runs start at any time."""
    lab.apply(workflow("b", "a", quietHours=NIGHT))
    lab.now = lab.now.replace(hour=21, minute=59)
    lab.report("a", "1")
    lab.settle()
    lab.now = lab.now.replace(hour=22, minute=0)
    assert lab.claim() is None
    lab.store.operations.request_run("b")
    assert lab.start().trigger["type"] == "manual"


def test_a_run_that_is_queued_again_does_not_start_in_quiet_hours(lab: Lab) -> None:
    """A worker that leaves in the night hands its run back; it goes on in the morning, on the same versions."""
    lab.apply(workflow("b", "a", quietHours=NIGHT))
    lab.now = lab.now.replace(hour=21, minute=59)
    lab.report("a", "1")
    lab.settle()
    run = lab.start()
    lab.now = lab.now.replace(hour=23, minute=0)
    lab.store.runs.hand_back(run.id, run.attempt)
    lab.settle()
    assert lab.claim() is None
    lab.live(hours=6, minutes=59)
    assert lab.claim() is None
    lab.live(minutes=2)
    again = lab.start()
    assert (again.id, again.attempt) == (run.id, 2)


def test_a_run_that_waits_for_days_meets_every_night(lab: Lab) -> None:
    """Without a worker for two days, the run starts in the morning and not in the second night."""
    lab.apply(workflow("b", "a", quietHours=NIGHT))
    lab.now = lab.now.replace(hour=21, minute=59)
    lab.report("a", "1")
    lab.settle()
    run = lab.start()
    lab.now = lab.now.replace(hour=23, minute=0)
    lab.store.runs.hand_back(run.id, run.attempt)
    lab.live(hours=24)
    assert lab.now.hour == 23
    assert lab.claim() is None
    lab.live(hours=8)
    assert lab.start().id == run.id


# Mixes that are not labelled


@pytest.mark.parametrize("auto", [None, {"enabled": False, "onUpstreamUpdate": True}])
def test_a_branch_that_nobody_starts_makes_a_mix(lab: Lab, auto: dict[str, Any] | None) -> None:
    """A join below a branch that is not automatic reads two generations, and says so."""
    join = workflow("join", "left right", auto={**ON_UPDATE, "waitForUpstream": True})
    lab.apply(workflow("left", "s"), workflow("right", "s", auto=auto), join)
    lab.report("s", "1")
    lab.work()
    lab.store.operations.request_run("right")
    lab.work()
    assert mixes(lab) == [False]
    lab.report("s", "2")
    assert lab.work() == ["left", "join"]
    assert mixes(lab) == [False, True]
    blockers = lab.rows("SELECT evidence FROM decisions WHERE outcome = 'run' ORDER BY at DESC, id DESC LIMIT 1")[0]
    assert blockers["evidence"]["waitedOut"] == [{"workflowSlug": "right", "motion": "stale", "until": None}]
    lab.store.operations.request_run("right")
    assert lab.work() == ["right", "join"]
    assert mixes(lab) == [False, True, False]


def test_a_stale_ancestor_in_a_chain_is_no_mix(lab: Lab) -> None:
    """A run that reads one generation only, although an older one, is not a mix."""
    lab.apply(workflow("left", "s", auto=None), workflow("join", "left", freshness={"ttlMs": 60_000}))
    lab.report("s", "1")
    lab.store.operations.request_run("left")
    lab.work()
    lab.report("s", "2")
    lab.live(minutes=2)
    lab.work()
    assert len(mixes(lab)) == 2
    assert True not in mixes(lab)


def test_a_manual_run_in_the_middle_of_a_wave_says_that_it_is_a_mix(lab: Lab) -> None:
    """A user does not wait. The run reads what is there and says what that is."""
    right = half_way(lab, *diamond())
    lab.store.operations.request_run("join")
    lab.finish(lab.start_of("join"))
    assert mixes(lab) == [False, True]
    lab.finish(right)
    assert lab.work() == ["join"]
    assert mixes(lab) == [False, True, False]


def test_a_manual_run_on_one_generation_is_no_mix(lab: Lab) -> None:
    """A repeated run on consistent data is consistent, also while its ancestors move on."""
    lab.apply(*diamond())
    lab.report("s", "1")
    lab.work()
    lab.store.operations.request_run("join")
    lab.work()
    lab.report("s", "2")
    lab.store.operations.request_run("join")
    assert mixes(lab) == [False, False, False]


def test_what_was_computed_from_a_mix_says_so_until_it_is_healed(lab: Lab) -> None:
    """Two levels below a mix: the runs and the assets say it, and no longer after the mix is gone."""
    below = workflow("below", "join"), workflow("deep", "below")
    right = half_way(lab, *diamond(), *below)
    lab.store.operations.request_run("join")
    assert lab.work() == ["join", "below", "deep"]
    assert [(run["mixed"], run["mixed_upstream"]) for run in lab.runs("deep")] == [(False, False), (False, True)]
    assert lab.store.reader.asset("deep")["mixedUpstream"] is True
    assert lab.store.reader.asset("join")["mixed"] is True
    lab.finish(right)
    assert lab.work() == ["join", "below", "deep"]
    assert [(run["mixed"], run["mixed_upstream"]) for run in lab.runs("deep")][-1] == (False, False)
    assert lab.store.reader.asset("deep")["mixedUpstream"] is False
    assert lab.store.reader.asset("join")["mixed"] is False


def test_a_mix_is_healed_by_equal_data(lab: Lab) -> None:
    """A run on one generation that makes the same data proves it right; nothing below runs again."""
    below = workflow("below", "join"), workflow("deep", "below")
    right = half_way(lab, *diamond(), *below)
    lab.store.operations.request_run("join")
    assert lab.work(join="same") == ["join", "below", "deep"]
    lab.finish(right)
    assert lab.work(join="same") == ["join"]
    assert lab.store.reader.asset("deep")["mixedUpstream"] is False
    assert lab.store.reader.asset("join")["mixed"] is False


# `when: all` below a workflow that stopped the change


def test_all_inputs_are_complete_when_one_came_out_unchanged(lab: Lab) -> None:
    """The change of s stops at `cut`, so `late` never gets a new snapshot: its round is complete all the same."""
    join = workflow("join", "late other", auto={**ON_UPDATE, "when": "all"})
    lab.apply(workflow("cut", "s"), workflow("late", "cut"), workflow("other", "t"), join)
    lab.report("s", "1")
    lab.report("t", "1")
    lab.work(cut="same")
    lab.report("t", "2")
    assert lab.work(cut="same") == ["other"]
    assert lab.reason("join") == "waiting-for-all"
    lab.report("s", "2")
    lab.settle()
    run = lab.start_of("cut")
    lab.settle()
    assert lab.reason("join") == "waiting-for-all"
    lab.finish(run, cut="same")
    lab.live(seconds=30)
    assert lab.active() == ["join"], "no other event is needed"
    assert lab.work(cut="same") == ["join"]
    lab.report("t", "3")
    assert lab.work(cut="same") == ["other"]
    assert lab.reason("join") == "waiting-for-all", "s did not move in this round"


def test_a_source_that_causes_no_run_completes_no_input(lab: Lab) -> None:
    """`slow` reads s when its time has come, not when s changes: until then it has not come out unchanged."""
    quiet = {"assetId": "s", "autoMaterialize": {"onUpstreamUpdate": False}}
    join = workflow("join", "s slow", auto={**ON_UPDATE, "when": "all"})
    lab.apply(workflow("slow", [quiet], freshness={"ttlMs": 3_600_000}), join)
    lab.report("s", "1")
    assert lab.work() == ["slow", "join"]
    lab.report("s", "2")
    assert lab.work() == []
    assert lab.reason("join") == "waiting-for-all"
    lab.live(hours=2)
    assert lab.work() == ["slow", "join"]
