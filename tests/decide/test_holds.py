"""What each hold depends on, and when it ends.

See docs/semantics.md#R4.4, docs/semantics.md#R4.5, docs/semantics.md#R5.3, docs/semantics.md#R5.4,
docs/semantics.md#R7, docs/semantics.md#R8.3.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from freshline.decide.holds import LONGEST_RECHECK, LONGEST_WAIT_RECHECK
from freshline.model.enums import TriggerType
from tests.decide.builders import HOUR, MINUTE, Scenario, clock, fresh, given, stale


def until(scenario: Scenario, reason: str) -> datetime:
    """Return the next evaluation of a hold, and assert that the hold ends exactly then."""
    look = scenario.decides("hold", reason).next_evaluation
    assert look is not None
    scenario.at(look - timedelta(microseconds=1)).decides("hold", reason)
    assert scenario.at(look).decide().reason != reason
    return look


# In flight (docs/semantics.md#R6.3)


@pytest.mark.parametrize("trigger", TriggerType)
def test_any_active_run_holds(trigger: TriggerType) -> None:
    """A run of any trigger that is queued or running is awaited."""
    decision = stale().active("running", {"a": "1"}, trigger=trigger).decides("hold", "in-flight")
    assert decision.evidence["runId"] == "run-1"
    assert decision.renewal is None


def test_a_queued_run_takes_the_new_heads() -> None:
    """Considering a queued automatic run again moves its pins, and says so (docs/semantics.md#R6.3)."""
    decision = stale().active("queued", {"a": "1"}).decides("hold", "in-flight")
    assert decision.renewal is not None
    assert decision.renewal.run_id == "run-1"
    assert {asset: pin.data_version for asset, pin in decision.renewal.pins.items()} == {"a": "2"}
    assert decision.evidence["renewed"] is True


def test_a_renewed_run_has_the_cause_of_a_new_one() -> None:
    """The safety net of docs/semantics.md#R1.5 and the trigger see the versions that the run reads in the end."""
    renewal, run = stale().active("queued", {"a": "1"}).decide().renewal, stale().decide().run
    assert renewal is not None
    assert run is not None
    assert (renewal.cause, renewal.trigger) == (run.cause, run.trigger)


@pytest.mark.parametrize(
    "scenario",
    [
        stale().active("queued", {"a": "2"}),
        stale().active("running", {"a": "1"}),
        stale().active("queued", {"a": "1"}, attempt=1),
        stale().active("queued", {"a": "1"}, trigger=TriggerType.MANUAL),
        stale().active("queued", {"a": "1"}, definition=0),
        stale().active("queued", {"a": "1"}).blocked(),
    ],
    ids=["same pins", "running", "begun before", "manual", "old definition", "blocked"],
)
def test_a_run_that_is_not_renewed(scenario: Scenario) -> None:
    """Pins stay where nothing is new, where a worker has begun, where a user pinned them, and where a mix threatens."""
    decision = scenario.decides("hold", "in-flight")
    assert decision.renewal is None
    assert "renewed" not in decision.evidence


@pytest.mark.parametrize(
    "scenario",
    [stale().blocked(cannot_run=True), stale().blocked(until="23:00"), stale(max_wait_ms=1).blocked().waited(1)],
    ids=["cannot run", "ends too late", "waited out"],
)
def test_a_queued_run_that_takes_what_may_be_a_mix_says_so(scenario: Scenario) -> None:
    """Also a run that got its pins by renewal has `mixed`, and loses it with the next renewal that is none.

    See docs/semantics.md#R4.5.
    """
    renewal = scenario.active("queued", {"a": "1"}).decides("hold", "in-flight").renewal
    assert renewal is not None
    assert renewal.mixed
    clean = stale().active("queued", {"a": "1"}).decides("hold", "in-flight").renewal
    assert clean is not None
    assert not clean.mixed


def test_a_queued_run_whose_cause_is_gone_is_superseded() -> None:
    """Nothing is stale any more, or the policy is off, or gone: the queued run goes too (docs/semantics.md#R6.3)."""
    fresh_again = fresh().active("queued", {"a": "2"})
    decision = fresh_again.decides("skip", "up-to-date")
    assert decision.superseded == decision.evidence["superseded"] == "run-1"
    assert fresh_again.auto(automatic=False).decides("skip", "policy-off").superseded == "run-1"
    assert fresh_again.auto(declared=False).decides("skip", "not-auto").superseded == "run-1"


@pytest.mark.parametrize(
    "scenario",
    [
        fresh(),
        fresh().active("running", {"a": "1"}),
        fresh().active("queued", {"a": "1"}, attempt=1),
        fresh().active("queued", {"a": "1"}, trigger=TriggerType.MANUAL),
    ],
)
def test_a_run_that_is_not_superseded(scenario: Scenario) -> None:
    """What a worker has begun or a user asked for stays."""
    assert scenario.decides("skip", "up-to-date").superseded is None


# Paused, quiet


def test_a_pause_with_an_end_ends() -> None:
    """A pause with an end is evaluated at its end."""
    assert until(stale().paused(until="12:00"), "paused") == clock("12:00")


def test_a_pause_that_is_over_holds_nothing() -> None:
    """After its end a pause is as if it never was."""
    stale().paused(until="08:00").decides("run", "upstream-update")


def test_quiet_hours_end() -> None:
    """The next evaluation is the end of the quiet hours. Adjacent windows count as one."""
    assert until(stale().quiet("08:00", "10:00"), "quiet-hours") == clock("10:00")
    assert until(stale().quiet("08:00", "10:00").quiet("10:00", "11:30"), "quiet-hours") == clock("11:30")


# Failures (docs/semantics.md#R7.2, docs/semantics.md#R7.3)


def test_a_cooldown_ends_by_itself() -> None:
    """When the cooldown ends, the run comes as a retry."""
    scenario = stale().failed(1, at="08:59", eligible="09:01")
    end = until(scenario, "cooling-down")
    scenario.at(end).decides("run", "retry")


def test_an_open_breaker_waits_long_without_new_data() -> None:
    """With the versions of the last failure the next probe comes after `probeMs` (docs/semantics.md#R7.3)."""
    scenario = stale().failed(5, at="08:00", breaker="08:00", probed_versions={"a": "2"})
    assert until(scenario, "breaker-open") == clock("14:00")


def test_new_data_lets_a_probe_through_an_open_breaker() -> None:
    """With other versions than those of the last failure a probe comes `maxMs` after it, never earlier.

    See docs/semantics.md#R7.3.
    """
    scenario = stale().failed(9, at="08:50", breaker="07:00", probed_versions={"a": "1"})
    end = until(scenario, "breaker-open")
    assert end == clock("09:20")
    scenario.at(end).decides("run", "retry")


def test_a_probe_time_shorter_than_the_longest_cooldown_does_not_count() -> None:
    """Never earlier than `maxMs` after the last failure, however small `probeMs` is (docs/semantics.md#R7.3)."""
    scenario = stale().failed(5, at="08:50", breaker="08:50", probed_versions={"a": "2"})
    backoff = scenario.policy.backoff.__class__(base_ms=MINUTE, max_ms=30 * MINUTE, probe_ms=MINUTE)
    assert until(scenario.auto(backoff=backoff), "breaker-open") == clock("09:20")


def test_a_breaker_without_a_failure_time_holds_nothing() -> None:
    """An incomplete record of failures does not hold a workflow."""
    scenario = stale().failed(5, breaker="08:59")
    failures = scenario.state.failures
    scenario.facts(failures=failures.__class__(5, None, None, failures.breaker_at)).decides("run", "retry")


# Canceled (docs/semantics.md#R5.3)

CANCELED = stale().canceled({"a": "2"})


def test_a_canceled_run_is_not_asked_for_again() -> None:
    """A second run with the same versions is not queued."""
    CANCELED.decides("hold", "canceled")
    CANCELED.at(clock("09:00") + timedelta(days=30)).decides("hold", "canceled")


def test_other_versions_end_a_cancellation() -> None:
    """A newer head is asked for."""
    given().input("a", head="3", read="1").output("b").canceled({"a": "2"}).decides("run", "upstream-update")


def test_a_new_definition_version_ends_a_cancellation() -> None:
    """The run that was canceled was of another definition."""
    CANCELED.facts(version=2).decides("run", "upstream-update")


EXPIRED = given().input("a", head="1", read="1")


def test_the_next_expiry_period_ends_a_cancellation() -> None:
    """A run for one period was canceled; the next period has its own."""
    EXPIRED.output("b", expired="08:00").canceled({"a": "1"}, expired="08:00").decides("hold", "canceled")
    EXPIRED.output("b", expired="08:30").canceled({"a": "1"}, expired="08:00").decides("run", "expired")


def test_an_expiry_ends_the_cancellation_of_an_update() -> None:
    """An output that expires after its update was canceled is refreshed, though the update is still there."""
    both = given().input("a", head="2", read="1").output("b", expired="08:45")
    both.canceled({"a": "2"}).decides("run", "upstream-update")
    both.canceled({"a": "2"}, expired="08:45").decides("hold", "canceled")


def test_the_trigger_of_an_update_remembers_the_expiry_that_it_serves() -> None:
    """So that canceling it cancels this period, not the next one."""
    run = given().input("a", head="2", read="1").output("b", expired="08:45").decides("run", "upstream-update").run
    assert run is not None
    assert run.trigger["expiry"] == {"reason": "ttl", "expiresAt": "2026-01-05T08:45:00Z"}


def test_a_manual_expiry_ends_a_cancellation_once() -> None:
    """Expiring by hand asks for a run; canceling that run is not undone by the same request."""
    by_hand = EXPIRED.output("b", expired="08:45", reason="manual")
    by_hand.canceled({"a": "1"}).decides("run", "expired")
    by_hand.canceled({"a": "1"}, expired="08:00").decides("run", "expired")
    by_hand.canceled({"a": "1"}, expired="08:45").decides("hold", "canceled")


def test_a_cancellation_covers_all_periods_up_to_its_own() -> None:
    """Two expired outputs, one canceled run: an older period of the other output does not ask again."""
    two = EXPIRED.output("b", expired="08:10").output("c", expired="08:20")
    two.canceled({"a": "1"}, expired="08:20").decides("hold", "canceled")


# Too old


def test_an_input_that_is_too_old_holds() -> None:
    """`maxAgeMs` on an input holds while its head is older; exactly as old is still good."""
    scenario = given().input("a", head="2", read="1", at="08:30", max_age_ms=HOUR).output("b")
    scenario.at("09:30").decides("run", "upstream-update")
    decision = scenario.at("09:31").decides("hold", "input-too-old")
    assert decision.evidence["assetId"] == "a"
    assert decision.evidence["maxAgeMs"] == HOUR


# Debounce (docs/semantics.md#R5.4)


def test_debounce_counts_from_the_last_change() -> None:
    """Every update prolongs the wait."""
    scenario = given(debounce_ms=10 * MINUTE).input("a", head="2", read="1", first="08:00", at="08:55").output("b")
    assert until(scenario, "debouncing") == clock("09:05")


def test_the_max_delay_counts_from_the_first_change() -> None:
    """Updates without end do not hold for ever."""
    scenario = given(debounce_ms=10 * MINUTE, max_delay_ms=65 * MINUTE)
    scenario = scenario.input("a", head="2", read="1", first="08:00", at="08:59").output("b")
    assert until(scenario, "debouncing") == clock("09:05")


def test_debounce_looks_at_all_triggering_inputs() -> None:
    """The last change of any of them counts, those of pinned inputs do not."""
    scenario = given(debounce_ms=10 * MINUTE, max_delay_ms=HOUR).output("b")
    scenario = scenario.input("a", head="2", read="1", at="08:52").input("z", head="2", read="1", at="08:56")
    scenario = scenario.input("p", head="2", read="1", first="01:00", at="08:59", triggers=False)
    assert until(scenario, "debouncing") == clock("09:06")


def test_debounce_is_for_updates_only() -> None:
    """A first run, a changed definition and an expiry are not debounced; the retry of an update is."""
    busy = given(debounce_ms=HOUR).input("a", head="2", read="1", at="08:59")
    busy.output("b", head=None).decides("run", "missing")
    busy.output("b").redefined().decides("run", "definition-changed")
    busy.output("b").failed().decides("hold", "debouncing")


def test_updates_for_ever_still_run() -> None:
    """Updates every 2 s, a debounce of 10 s and a max delay of 60 s give a run every 60 s.

    See docs/scenarios.md#scenario-4.
    """
    scenario = given(debounce_ms=10_000, max_delay_ms=60_000).output("b")
    start, read, ran = clock("09:00"), 0, []
    first = start
    for tick in range(1, 301):
        now = start + timedelta(seconds=2 * tick)
        first = now if tick == read + 1 else first
        here = scenario.input("a", head=str(tick), read=str(read), first=first, at=now).at(now)
        if here.decide().run:
            ran.append(now)
            read = tick
    assert [later - earlier for earlier, later in pairwise(ran)] == [timedelta(seconds=62)] * 8


def test_the_minimum_interval_counts_from_the_last_start() -> None:
    """Two automatic runs start at least so far apart, whatever the cause."""
    scenario = stale(min_interval_ms=HOUR).facts(started_at=clock("08:30"))
    assert until(scenario, "min-interval") == clock("09:30")
    stale(min_interval_ms=HOUR).decides("run", "upstream-update")
    expired = given(min_interval_ms=HOUR).output("b", expired="08:45").facts(started_at=clock("08:30"))
    assert until(expired, "min-interval") == clock("09:30")


# Waiting (docs/semantics.md#R4.4, docs/semantics.md#R4.5)


def test_waiting_ends_at_the_deadline_and_the_run_says_mixed() -> None:
    """After it has waited for `maxWaitMs` it runs on the heads and names whom it did not wait for.

    See docs/semantics.md#R4.5.
    """
    scenario = stale(max_wait_ms=HOUR).blocked()
    decision = scenario.decides("hold", "waiting-for-upstream")
    assert decision.evidence["deadline"] == "2026-01-05T10:00:00Z"
    assert decision.evidence["blockers"] == [{"workflowSlug": "w7", "motion": "running", "until": None}]
    assert decision.blocker_id == 7
    nearly = scenario.waited(HOUR - 1).decides("hold", "waiting-for-upstream")
    assert nearly.evidence["deadline"] == "2026-01-05T09:00:00.001000Z"
    late = scenario.waited(HOUR).decides("run", "upstream-update")
    assert late.run is not None
    assert late.run.mixed
    assert [one["workflowSlug"] for one in late.evidence["waitedOut"]] == ["w7"]


def test_a_run_that_waited_for_nobody_is_not_mixed() -> None:
    """Nothing in motion, no flag, no evidence."""
    decision = stale().decides("run", "upstream-update")
    assert decision.run is not None
    assert not decision.run.mixed
    assert "waitedOut" not in decision.evidence


@pytest.mark.parametrize(
    ("motion", "end", "cannot_run", "waits"),
    [
        ("running", None, False, True),
        ("cooling-down", "09:59", False, True),
        ("cooling-down", "10:00", False, False),
        ("quiet-hours", "18:00", False, False),
        ("breaker-open", None, True, False),
    ],
)
def test_who_is_worth_waiting_for(motion: str, end: str | None, cannot_run: bool, waits: bool) -> None:
    """An active ancestor, or one whose hold ends before the deadline; else it runs at once, and says mixed.

    See docs/semantics.md#R4.4.
    """
    scenario = stale(max_wait_ms=HOUR).blocked(7, motion, end, cannot_run=cannot_run)
    if waits:
        scenario.decides("hold", "waiting-for-upstream")
        return
    run = scenario.decides("run", "upstream-update").run
    assert run is not None
    assert run.mixed


def test_it_waits_for_one_and_not_for_the_other() -> None:
    """A blocker that cannot run does not end the wait for one that can."""
    scenario = stale().blocked(6, "breaker-open", cannot_run=True).blocked(7)
    assert [b["workflowSlug"] for b in scenario.decides("hold", "waiting-for-upstream").evidence["blockers"]] == ["w7"]


def test_waiting_can_be_switched_off() -> None:
    """`waitForUpstream: false` runs at once, and takes what comes."""
    run = stale(wait_for_upstream=False).blocked().decides("run", "upstream-update").run
    assert run is not None
    assert not run.mixed


def test_the_age_of_a_change_does_not_shorten_the_wait() -> None:
    """Only waiting counts: not a downtime, a pause, quiet hours, nor the age of an input that may not trigger."""
    old = clock("08:10") - timedelta(days=30)
    scenario = stale(max_wait_ms=HOUR).input("p", head="2", read="1", first=old, at=old, triggers=False).blocked()
    assert scenario.decides("hold", "waiting-for-upstream").evidence["deadline"] == "2026-01-05T10:00:00Z"
    expired = given(max_wait_ms=HOUR).output("b", expired=old).blocked()
    assert expired.decides("hold", "waiting-for-upstream").evidence["deadline"] == "2026-01-05T10:00:00Z"
    redefined = fresh(max_wait_ms=HOUR).redefined().facts(applied_at=old).blocked().waited(10 * MINUTE)
    assert redefined.decides("hold", "waiting-for-upstream").evidence["deadline"] == "2026-01-05T09:50:00Z"
    new = given(max_wait_ms=HOUR).input("a", head="5", first=old, at=old).output("b", head=None).never_ran().blocked()
    assert new.decides("hold", "waiting-for-upstream").evidence["deadline"] == "2026-01-05T10:00:00Z"


def test_waits_double_and_never_pass_the_deadline() -> None:
    """A wait is evaluated after 1 s, 2 s, 4 s … 30 s, and not after its deadline (docs/semantics.md#R11.4)."""
    scenario = stale(max_wait_ms=31 * MINUTE).blocked()
    delays = []
    for count in range(8):
        decision = scenario.facts(evaluations=count).decides("hold", "waiting-for-upstream")
        assert decision.next_evaluation is not None
        delays.append((decision.next_evaluation - scenario.now).total_seconds())
    assert delays == [1, 2, 4, 8, 16, 30, 30, 30]
    last = scenario.waited(31 * MINUTE - 10_000).facts(evaluations=9).decides("hold", "waiting-for-upstream")
    assert last.next_evaluation == clock("09:00:10")


def test_patience_is_bounded() -> None:
    """A hold without a known end is evaluated after 30 s, then twice as long, at most 10 minutes."""
    delays = []
    for count in (0, 1, 2, 3, 4, 5, 10_000):
        decision = CANCELED.facts(evaluations=count).decide()
        assert decision.next_evaluation is not None
        delays.append((decision.next_evaluation - CANCELED.now).total_seconds())
    assert delays == [30, 60, 120, 240, 480, 600, 600]
    assert LONGEST_RECHECK.total_seconds() == 600
    assert LONGEST_WAIT_RECHECK.total_seconds() == 30
