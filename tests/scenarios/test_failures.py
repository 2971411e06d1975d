"""Failures: backoff holds, breakers open once, nothing is published by mistake (docs/scenarios.md#failures)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from freshline.decide import Decision, decide
from freshline.decide.motion import Walk
from freshline.errors import ConflictError, KeyReusedError, NotFoundError
from freshline.model.policy import Policy
from freshline.model.state import State
from freshline.services import reconciler
from tests.store_harness import Lab, workflow

MINUTE = 60_000


def queued(lab: Lab, **more: Any) -> None:
    """Queue the first run of b."""
    lab.apply(workflow("b", "a", **more))
    lab.report("a", "1")
    lab.settle()


def test_an_asset_that_always_fails_is_tried_rarely(lab: Lab) -> None:
    """New data every half hour and nothing but failures: budget + T/maxMs + 1 runs, one event.

    See docs/scenarios.md#scenario-16, docs/semantics.md#R7.3.
    """
    hours = 15
    queued(lab, backoff={"baseMs": MINUTE, "maxMs": 180 * MINUTE, "budget": 3})
    begin = lab.now
    while lab.now < begin + timedelta(hours=hours):
        lab.report("a", lab.now.isoformat())
        lab.settle()
        run = lab.claim()
        if run:
            lab.fail(run)
            lab.settle()
        lab.advance(minutes=30)
    assert 3 < len(lab.runs("b")) <= 3 + hours / 3 + 1
    assert len(lab.events("materializer.breaker.opened")) == 1
    assert lab.events("materializer.breaker.closed") == []


def test_an_unreachable_engine_opens_no_breaker(lab: Lab) -> None:
    """The worker hands the run back, and nothing is counted (docs/scenarios.md#scenario-16, docs/semantics.md#R7.1)."""
    queued(lab, backoff={"baseMs": MINUTE, "maxMs": MINUTE, "budget": 1})
    for _ in range(10):
        run = lab.start()
        lab.store.runs.hand_back(run.id, run.attempt)
        lab.settle()
    assert lab.events("materializer.breaker.opened") == []
    assert lab.state("b")["failures"] == 0
    assert lab.work() == ["b"]


def test_a_cooldown_survives_everything_and_ends_by_itself(lab: Lab) -> None:
    """No run before the cooldown ends, then a retry without any new event; it doubles.

    See docs/scenarios.md#scenario-17.
    """
    queued(lab)
    lab.fail(lab.start())
    lab.settle()
    assert lab.reason("b") == "cooling-down"
    first = lab.state("b")["eligible_at"]
    assert timedelta(minutes=2) <= first - lab.now <= timedelta(minutes=2.2)
    lab.now = first - timedelta(seconds=1)
    assert lab.work() == []
    lab.now = first
    lab.settle()
    run = lab.start()
    assert run.trigger["reason"] == "missing"
    lab.fail(run)
    second = lab.state("b")["eligible_at"]
    assert timedelta(minutes=4) <= second - lab.now <= timedelta(minutes=4.4)
    lab.now = second
    assert lab.work() == ["b"]
    assert lab.state("b")["failures"] == 0
    lab.report("a", "2")
    lab.settle()
    lab.fail(lab.start())
    lab.now = lab.state("b")["eligible_at"]
    lab.settle()
    assert lab.start().trigger["reason"] == "retry"


def test_a_failed_refresh_does_not_end_a_ttl_loop(lab: Lab) -> None:
    """After a failure the next refresh comes by itself (docs/scenarios.md#scenario-17)."""
    lab.apply(workflow("b", "a", freshness={"ttlMs": 10 * MINUTE}))
    lab.report("a", "1")
    assert lab.work() == ["b"]
    lab.advance(minutes=10)
    lab.settle()
    lab.fail(lab.start())
    assert lab.work() == []
    lab.advance(minutes=3)
    assert lab.work() == ["b"]
    lab.advance(minutes=10)
    assert lab.work() == ["b"]


def test_a_failure_counts_once(lab: Lab) -> None:
    """A second report of one failure, and a late one after a newer success, change nothing.

    See docs/scenarios.md#scenario-18.
    """
    queued(lab)
    run = lab.start()
    lab.fail(run)
    lab.fail(run)
    assert lab.state("b")["failures"] == 1
    lab.advance(minutes=3)
    assert lab.work() == ["b"]
    lab.fail(run)
    assert lab.state("b")["failures"] == 0
    assert len(lab.events("workflow.run.failed")) == 1


def test_a_canceled_run_is_not_asked_for_again(lab: Lab) -> None:
    """The same versions stay canceled until a version, the definition or a reset differs.

    See docs/scenarios.md#scenario-19, docs/semantics.md#R5.3.
    """
    queued(lab)
    assert lab.store.operations.cancel(str(lab.runs("b")[0]["id"])) == "canceled"
    assert lab.work() == []
    assert lab.reason("b") == "canceled"
    lab.advance(hours=3)
    assert lab.work() == []
    lab.report("a", "2")
    assert lab.work() == ["b"]


def test_a_reset_lets_a_canceled_run_come_back(lab: Lab) -> None:
    """`reset` ends `canceled`, at once (docs/semantics.md#R5.3)."""
    queued(lab)
    lab.store.operations.cancel(str(lab.runs("b")[0]["id"]))
    assert lab.work() == []
    lab.store.operations.reset("b")
    assert lab.work() == ["b"]


def test_a_running_run_is_canceled_through_its_worker(lab: Lab) -> None:
    """The worker hears of it with its heartbeat, ends the run, and nothing is published (docs/semantics.md#R5.3)."""
    queued(lab)
    run = lab.start()
    held = [{"id": run.id, "attempt": run.attempt}]
    assert lab.store.runs.renew_leases(held) == {(run.id, 1): False}
    assert lab.store.operations.cancel(run.id) == "running"
    assert lab.store.runs.renew_leases(held) == {(run.id, 1): True}
    lab.store.runs.cancel(run.id, run.attempt)
    assert lab.store.runs.renew_leases(held) == {}
    assert lab.work() == []
    assert lab.runs("b")[0]["status"] == "canceled"
    assert lab.rows("SELECT * FROM heads WHERE asset_id = 'b'") == []


def test_a_canceled_run_of_a_dead_worker_ends(lab: Lab) -> None:
    """Nobody has to live for a cancellation to take effect (docs/semantics.md#R5.3)."""
    queued(lab)
    run = lab.start()
    lab.store.operations.cancel(run.id)
    lab.advance(seconds=16)
    assert lab.store.runs.rescue(10) == 1
    assert lab.runs("b")[0]["status"] == "canceled"
    assert lab.work() == []
    assert lab.reason("b") == "canceled"


def test_a_canceled_run_that_is_handed_back_ends(lab: Lab) -> None:
    """A worker that leaves does not bring a canceled run back into the queue (docs/semantics.md#R5.3)."""
    queued(lab)
    run = lab.start()
    lab.store.operations.cancel(run.id)
    lab.store.runs.hand_back(run.id, run.attempt)
    assert lab.runs("b")[0]["status"] == "canceled"
    assert lab.work() == []


def _tries(lab: Lab) -> list[tuple[int, str, bool]]:
    """Return attempt, status and whether it has an end, of every try."""
    rows = lab.rows("SELECT attempt, status, finished_at IS NOT NULL AS ended FROM run_steps ORDER BY attempt, try")
    return [(row["attempt"], row["status"], row["ended"]) for row in rows]


def test_the_steps_of_a_canceled_run_end_with_it(lab: Lab) -> None:
    """A try that was running is `canceled`, with the time of the end; one that has ended stays as it is."""
    queued(lab)
    run = lab.start()
    lab.store.runs.begin_step(run.id, run.attempt, "one", 1)
    lab.store.runs.finish_step(run.id, run.attempt, "one", 1, error={"code": "job", "message": "no"})
    lab.store.runs.begin_step(run.id, run.attempt, "one", 2)
    lab.store.operations.cancel(run.id)
    assert _tries(lab) == [(1, "failed", True), (1, "running", False)]
    lab.store.runs.cancel(run.id, run.attempt)
    assert _tries(lab) == [(1, "failed", True), (1, "canceled", True)]


def test_the_steps_of_a_lost_worker_are_lost(lab: Lab) -> None:
    """The next attempt runs its own tries; a cancellation that meets a dead worker ends the last one."""
    queued(lab)
    run = lab.start()
    lab.store.runs.begin_step(run.id, run.attempt, "one", 1)
    lab.advance(seconds=16)
    assert lab.store.runs.rescue(10) == 1
    assert _tries(lab) == [(1, "lost", True)]
    again = lab.start()
    lab.store.runs.begin_step(again.id, again.attempt, "one", 1)
    lab.store.operations.cancel(again.id)
    lab.advance(seconds=16)
    assert lab.store.runs.rescue(10) == 1
    assert _tries(lab) == [(1, "lost", True), (2, "canceled", True)]


def test_canceling_what_is_over_or_unknown(lab: Lab) -> None:
    """A finished run stays as it is; an unknown one is an error that says where to look."""
    queued(lab)
    run = lab.start()
    lab.finish(run)
    assert lab.store.operations.cancel(run.id) == "succeeded"
    with pytest.raises(NotFoundError, match="freshline runs"):
        lab.store.operations.cancel("00000000-0000-7000-8000-000000000000")


def test_a_recovered_parent_rearms_its_child(lab: Lab) -> None:
    """A child of a failed parent runs when the parent recovers (docs/scenarios.md#scenario-19)."""
    lab.apply(workflow("b", "a"), workflow("c", "b"))
    lab.report("a", "1")
    lab.settle()
    lab.fail(lab.start())
    lab.settle()
    assert lab.reason("c") == "input-missing"
    lab.advance(minutes=3)
    assert lab.work() == ["b", "c"]


def test_a_failed_run_publishes_nothing(lab: Lab) -> None:
    """Outputs that were staged before the failure stay invisible (docs/scenarios.md#scenario-20)."""
    queued(lab)
    run = lab.start()
    lab.store.runs.begin_step(run.id, run.attempt, "work", 1)
    lab.store.runs.finish_step(run.id, run.attempt, "work", 1, outputs=[])
    lab.fail(run)
    assert lab.rows("SELECT * FROM snapshots WHERE asset_id = 'b'") == []
    assert [event["subject"] for event in lab.events("asset.produced")] == ["a"]


def test_a_poisonous_run_fails_after_five_workers(lab: Lab) -> None:
    """A run that kills its workers has a finite number of attempts, and then its cooldown.

    See docs/scenarios.md#scenario-21, docs/semantics.md#R12.2.
    """
    queued(lab)
    for _ in range(5):
        lab.start()
        lab.advance(seconds=16)
        assert lab.store.runs.rescue(10) == 1
    [run] = lab.runs("b")
    assert (run["status"], run["error"]["code"], run["attempt"]) == ("failed", "poison", 5)
    assert lab.work() == []
    assert lab.reason("b") == "cooling-down"


def test_lost_leases_and_hand_backs_are_no_failures(lab: Lab) -> None:
    """A lost worker is not counted as a failure, a hand-back not even as a crash.

    See docs/semantics.md#R7.1, docs/semantics.md#R12.2.
    """
    queued(lab)
    for _ in range(10):
        run = lab.start()
        lab.store.runs.hand_back(run.id, run.attempt)
    lab.start()
    lab.advance(seconds=16)
    lab.store.runs.rescue(10)
    assert lab.runs("b")[0]["crashed"] == [11]
    assert lab.work() == ["b"]
    assert lab.state("b")["failures"] == 0


@pytest.mark.parametrize("rescued", [False, True])
def test_a_lease_that_was_lost_without_a_crash_is_no_step_towards_poison(lab: Lab, *, rescued: bool) -> None:
    """A worker that was only stopped, or cut off from the database, says so when it comes back.

    See docs/semantics.md#R12.2.
    """
    queued(lab)
    for attempt in range(1, 11):
        run = lab.start()
        lab.advance(seconds=16)
        if rescued:
            assert lab.store.runs.rescue(10) == 1
        lab.store.runs.give_up(run.id, run.attempt)
        [row] = lab.runs("b")
        assert (row["status"], row["attempt"], row["crashed"]) == ("queued", attempt, [])


def test_a_run_that_takes_spark_along_again_and_again_fails(lab: Lab) -> None:
    """Losing Spark is no failure of the workflow, but not without end: the job may be the cause.

    See docs/semantics.md#R7.1, docs/semantics.md#R12.2.
    """
    queued(lab)
    for _ in range(5):
        run = lab.start()
        lab.store.runs.hand_back(run.id, run.attempt, crashed=True)
    [row] = lab.runs("b")
    assert (row["status"], row["error"]["code"], row["attempt"]) == ("failed", "poison", 5)


def test_a_worker_that_comes_back_excuses_its_own_attempt_only(lab: Lab) -> None:
    """Attempts of others count on, and so does the lease of who has the run now (docs/semantics.md#R12.2)."""
    queued(lab)
    for _ in range(2):
        run = lab.start()
        lab.advance(seconds=16)
        lab.store.runs.rescue(10)
    lab.start()
    lab.store.runs.give_up(run.id, 2)
    [row] = lab.runs("b")
    assert (row["status"], row["attempt"], row["crashed"]) == ("running", 3, [1])


def test_a_broken_policy_stays_in_its_own_workflow(lab: Lab) -> None:
    """A definition that cannot be read is a visible failed decision; the others run (docs/scenarios.md#scenario-22)."""
    lab.apply(*(workflow(slug, "a") for slug in "bcdef"))
    lab.rows("UPDATE workflows SET policy = '{}' WHERE slug = 'd' RETURNING 1")
    lab.report("a", "1")
    assert sorted(lab.work()) == ["b", "c", "e", "f"]
    decision = lab.decision("d")
    assert (decision["outcome"], decision["reason"]) == ("error", "evaluation-failed")
    assert "when" in decision["evidence"]["error"]
    lab.advance(minutes=20)
    assert lab.work() == []
    assert lab.one("SELECT count(*) FROM decisions WHERE outcome = 'error'") == 1, "it is counted, not repeated"
    lab.apply(*(workflow(slug, "a", auto={"onUpstreamUpdate": True, "priority": 1}) for slug in "bcdef"))
    assert lab.work() == ["d"], "a new definition heals it"


def test_a_broken_policy_does_not_stop_timers(lab: Lab) -> None:
    """The timers of other assets fire, and the broken one is told as well (docs/scenarios.md#scenario-22)."""
    definitions = [workflow(slug, "a", freshness={"ttlMs": MINUTE}) for slug in "bc"]
    lab.apply(*definitions)
    lab.report("a", "1")
    lab.work()
    lab.rows("UPDATE workflows SET policy = '{}' WHERE slug = 'b' RETURNING 1")
    lab.advance(minutes=1)
    assert lab.work() == ["c"]
    assert lab.reason("b") == "evaluation-failed"


def test_an_evaluation_that_raises_stays_in_its_own_workflow(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error while deciding is stored with its text, has its own backoff, and heals by itself.

    See docs/scenarios.md#scenario-22.
    """
    lab.apply(workflow("b", "a"), workflow("c", "a"))

    def raising(policy: Policy, state: State, now: datetime, walk: Walk) -> Decision:
        if state.slug == "b":
            raise ZeroDivisionError("planted")
        return decide(policy, state, now, walk)

    with monkeypatch.context() as patched:
        patched.setattr(reconciler, "decide", raising)
        lab.report("a", "1")
        assert lab.work() == ["c"]
        assert lab.decision("b")["evidence"] == {"error": "ZeroDivisionError: planted"}
        assert lab.forgotten() == 0
    lab.advance(seconds=30)
    assert lab.work() == ["b"]


def test_a_success_that_leaves_its_cause_is_an_error_and_no_loop(lab: Lab) -> None:
    """A workflow whose success never brings its output is stopped after two repetitions (docs/semantics.md#R1.5)."""
    lab.apply(workflow("b", "a", outputs=["b", "never"]))
    lab.report("a", "1")
    for _ in range(3):
        lab.settle()
        lab.finish(lab.start(), without={"never"})
    assert lab.work() == []
    assert lab.reason("b") == "evaluation-failed"


def test_an_optional_output_may_be_left_out(lab: Lab) -> None:
    """It is not missing afterwards, and its freshness clock restarts (docs/semantics.md#R7.4)."""
    definition = workflow("b", "a", outputs=["b", "extra"], freshness={"ttlMs": 10 * MINUTE})
    definition["steps"][0]["produces"][1]["optional"] = True
    lab.apply(definition)
    lab.report("a", "1")
    for _ in range(4):
        lab.settle()
        lab.finish(lab.start(), without={"extra"})
        lab.settle()
        assert lab.active() == []
        assert lab.reason("b") == "up-to-date"
        due = lab.rows("SELECT asset_id, due_at, expired_at FROM timers ORDER BY asset_id")
        assert [(row["asset_id"], row["due_at"] - lab.now, row["expired_at"]) for row in due] == [
            ("b", timedelta(minutes=10), None),
            ("extra", timedelta(minutes=10), None),
        ]
        lab.advance(minutes=10)
    assert [run["trigger"]["reason"] for run in lab.runs("b")] == ["missing", *["expired"] * 3]


def test_a_manual_run_ignores_holds_and_its_success_counts(lab: Lab) -> None:
    """It is pinned when requested, comes first, closes the breaker, and what it read is handled.

    See docs/semantics.md#R6.5.
    """
    queued(lab, backoff={"baseMs": MINUTE, "maxMs": MINUTE, "budget": 1})
    lab.fail(lab.start())
    lab.settle()
    assert len(lab.events("materializer.breaker.opened")) == 1
    lab.store.operations.pause("b")
    lab.report("a", "2")
    run_id = lab.store.operations.request_run("b", {"day": 3})
    lab.report("a", "3")
    lab.settle()
    run = lab.start()
    assert (run.id, run.trigger["type"], dict(run.parameters)) == (run_id, "manual", {"day": 3})
    assert run.inputs["a"].data_version == "2"
    lab.finish(run)
    assert len(lab.events("materializer.breaker.closed")) == 1
    lab.settle()
    lab.store.operations.resume("b")
    assert lab.work() == ["b"]
    assert lab.reads("b")[-1] == {"a": "3"}


def test_a_manual_failure_is_not_counted(lab: Lab) -> None:
    """Manual runs neither cool a workflow down nor open its breaker (docs/semantics.md#R7.1)."""
    queued(lab)
    assert lab.work() == ["b"]
    lab.store.operations.request_run("b")
    lab.fail(lab.start())
    assert lab.state("b")["failures"] == 0


def test_a_request_with_a_known_key_is_the_same_run(lab: Lab) -> None:
    """A repeated request returns the first run; its key for another request is refused (docs/semantics.md#R3.3)."""
    lab.apply(workflow("b", "a"), workflow("c", "a"))
    lab.report("a", "1")
    lab.work()
    first = lab.store.operations.request_run("b", key="k")
    assert lab.store.operations.request_run("b", key="k") == first
    with pytest.raises(ConflictError, match="'k'"):
        lab.store.operations.request_run("c", key="k")
    with pytest.raises(KeyReusedError, match=r"'k' was used for run .* with other parameters"):
        lab.store.operations.request_run("b", {"n": 1}, key="k")
    with pytest.raises(KeyReusedError, match=r"'k' was used for run .* with another full refresh"):
        lab.store.operations.request_run("b", key="k", full_refresh=True)
    assert lab.work() == ["b"]


def test_a_manual_run_without_data_is_refused(lab: Lab) -> None:
    """An input that has no data yet is named, with what to do."""
    lab.apply(workflow("b", "a"))
    with pytest.raises(ConflictError, match="'a' has no data yet"):
        lab.store.operations.request_run("b")


def test_automatic_runs_wait_for_a_manual_one(lab: Lab) -> None:
    """At most one run of a workflow runs; the automatic one follows if something is still stale.

    See docs/semantics.md#R6.4.
    """
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.work()
    lab.store.operations.request_run("b")
    lab.report("a", "2")
    lab.settle()
    assert lab.reason("b") == "in-flight"
    assert lab.work() == ["b", "b"]
    assert [run["trigger_type"] for run in lab.runs("b")] == ["auto-materialize", "manual", "auto-materialize"]


@pytest.mark.parametrize("how", ["reset", "definition"])
def test_a_reset_or_a_new_definition_closes_the_breaker(lab: Lab, how: str) -> None:
    """Failures are forgotten, the closing is told once, and the workflow runs at once (docs/semantics.md#R7.3)."""
    queued(lab, backoff={"baseMs": MINUTE, "maxMs": MINUTE, "budget": 1})
    lab.fail(lab.start())
    lab.settle()
    assert lab.reason("b") == "breaker-open"
    if how == "reset":
        lab.store.operations.reset("b")
    else:
        lab.apply(workflow("b", "a", backoff={"budget": 3}))
    assert lab.work() == ["b"]
    assert len(lab.events("materializer.breaker.closed")) == 1
    lab.store.operations.reset("b")
    assert len(lab.events("materializer.breaker.closed")) == 1
