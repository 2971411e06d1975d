"""Causes of a run and their order.

See docs/semantics.md#R1, docs/semantics.md#R2.3, docs/semantics.md#R2.4, docs/semantics.md#R5.1.
"""

from __future__ import annotations

import pytest

from freshline.decide.causes import first_change
from freshline.model.enums import Reason
from tests.decide.builders import Scenario, clock, fresh, given, stale

MISSING = fresh().output("c", head=None)
DEFINITION = fresh().redefined()
EXPIRED = given().input("a", head="1", read="1").output("b", expired="08:45")


def test_nothing_to_do() -> None:
    """A workflow whose vector equals the heads, whose outputs are there and not expired, is up to date."""
    assert fresh().decides("skip", "up-to-date").next_evaluation is None


def test_versions_are_compared_and_times_are_not() -> None:
    """A later snapshot with the same data version is not a cause. An earlier one with another version is."""
    fresh().input("late", head="1", read="1", sequence=9, at="08:59").decides("skip", "up-to-date")
    given().input("early", head="2", read="1", at="06:00").output("b").decides("run", "upstream-update")


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        (MISSING, "missing"),
        (stale().failed(), "retry"),
        (DEFINITION, "definition-changed"),
        (stale(), "upstream-update"),
        (EXPIRED, "expired"),
    ],
)
def test_each_cause(scenario: Scenario, reason: str) -> None:
    """Each cause leads to a run that says so, in the decision and in the trigger."""
    run = scenario.decides("run", reason).run
    assert run is not None
    assert run.trigger["reason"] == reason


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        (MISSING.failed(), "missing"),
        (DEFINITION.failed(), "retry"),
        (stale().redefined(), "definition-changed"),
        (given().input("a", head="2", read="1").output("b", expired="08:45"), "upstream-update"),
        (MISSING.redefined().input("x", head="2", read="1").output("y", expired="08:45").failed(), "missing"),
    ],
)
def test_the_first_cause_wins(scenario: Scenario, reason: str) -> None:
    """Of two causes that hold, the earlier in missing, retry, definition-changed, upstream-update, expired counts."""
    scenario.decides("run", reason)


def test_a_retry_keeps_what_lies_under_it() -> None:
    """A retry of an expiry still waits and counts as an expiry."""
    cause = EXPIRED.failed().cause()
    assert cause is not None
    assert (cause.reason, cause.base) == (Reason.RETRY, Reason.EXPIRED)


def test_a_failure_without_a_cause_is_not_retried() -> None:
    """When the input went back to what was read, there is nothing left to run for."""
    fresh().failed().decides("skip", "up-to-date")


def test_a_pinned_input_is_recorded_and_never_a_cause() -> None:
    """`onUpstreamUpdate: false` on an input is read and shown, and causes nothing (docs/semantics.md#R2.3)."""
    pinned = fresh().input("p", head="2", read="1", triggers=False)
    decision = pinned.decides("skip", "up-to-date")
    assert decision.evidence["inputs"][1] | {"changed": True, "triggers": False} == decision.evidence["inputs"][1]
    run = pinned.input("t", head="2", read="1").decides("run", "upstream-update").run
    assert run is not None
    assert set(run.pins) == {"a", "p", "t"}
    assert [one["assetId"] for one in run.trigger["upstream"]] == ["t"]


def test_an_expiry_needs_an_enabled_block() -> None:
    """An expired output without an enabled block causes nothing, whatever the other outputs have.

    See docs/semantics.md#R2.4.
    """
    given().output("b", expired="08:45", enabled=False).output("c").decides("skip", "up-to-date")
    given().output("b", enabled=False).output("c", expired="08:45").decides("run", "expired")


@pytest.mark.parametrize("flags", [{"on_missing": False}, {"debounce_ms": 10**9}, {"max_wait_ms": 0}])
def test_an_expiry_does_not_care_about_other_flags(flags: dict[str, int]) -> None:
    """Whatever the block's other flags, an expiry causes a run (docs/semantics.md#R2.4)."""
    given(**flags).input("a", head="1", read="1", triggers=False).output("b", expired="08:45").decides("run", "expired")


def test_an_expiry_is_not_lost_behind_an_update_that_waits_for_all() -> None:
    """An update of one of two inputs is not a cause under `when: all`, so the expiry is the cause.

    See docs/semantics.md#R1.4.
    """
    half = given().all_of_them().input("a", head="2", read="1").input("z", head="1", read="1")
    half.output("b").decides("hold", "waiting-for-all")
    half.output("b", expired="08:45").decides("run", "expired")


def test_an_expiry_is_not_lost_behind_a_debounce() -> None:
    """Updates without end and without a max delay do not keep an expired output from being refreshed."""
    busy = given(debounce_ms=600_000).input("a", head="2", read="1", at="08:59")
    busy.output("b").decides("hold", "debouncing")
    run = busy.output("b", expired="08:45").decides("run", "upstream-update").run
    assert run is not None
    assert run.trigger["expiry"] == {"reason": "ttl", "expiresAt": "2026-01-05T08:45:00Z"}


def test_missing_can_be_switched_off() -> None:
    """With `onMissing: false`, an output that was never produced is not a cause."""
    given(on_missing=False).output("b", head=None).never_ran().decides("skip", "up-to-date")


def test_no_inputs_means_that_all_inputs_exist() -> None:
    """A workflow that reads nothing gets its first run (docs/semantics.md#R8.2)."""
    given().output("b", head=None).never_ran().decides("run", "missing")


def test_an_optional_output_is_missing_until_the_first_success() -> None:
    """After a success, an optional output that was not returned is not a cause (docs/semantics.md#R7.4)."""
    optional = given().output("b").output("c", head=None, optional=True)
    optional.never_ran().decides("run", "missing")
    optional.decides("skip", "up-to-date")
    given().output("b").output("c", head=None).decides("run", "missing")


def test_a_workflow_that_never_succeeded_has_no_changed_definition() -> None:
    """Without a success there is nothing to compare the job with (docs/semantics.md#R1.2)."""
    given(on_missing=False).output("b", head=None).never_ran().redefined().decides("skip", "up-to-date")


def test_a_workflow_without_outputs_can_still_follow_its_inputs() -> None:
    """A sink is stale by its inputs alone."""
    run = given().input("a", head="2", read="1").decides("run", "upstream-update").run
    assert run is not None
    assert run.trigger["assetId"] == ""


def test_all_means_a_newer_snapshot_of_every_triggering_input() -> None:
    """Newer counts, changed or not; at least one must differ; inputs that do not trigger are not waited for.

    See docs/semantics.md#R1.4.
    """
    two = given().all_of_them().output("b").input("a", head="2", read="1")
    two.input("z", head="1", read="1").decides("hold", "waiting-for-all")
    two.input("z", head="1", read="1", sequence=2).decides("run", "upstream-update")
    two.input("z", head="1", read="1", triggers=False).decides("run", "upstream-update")
    given().all_of_them().output("b").input("a", head="1", read="1", sequence=2).decides("skip", "up-to-date")


def test_all_says_nothing_about_other_causes() -> None:
    """A first run and a changed definition do not wait for a complete round."""
    half = given().all_of_them().input("a", head="2", read="1").input("z", head="1", read="1")
    half.output("b", head=None).decides("run", "missing")
    half.output("b").redefined().decides("run", "definition-changed")


def test_a_success_that_leaves_its_cause_twice_is_an_error() -> None:
    """Two successes that left the same cause with the same versions are not followed by a third run.

    See docs/semantics.md#R1.5.
    """
    scenario = stale()
    run = scenario.decides("run", "upstream-update").run
    assert run is not None
    scenario.facts(success_cause=run.cause, cause_repeats=1).decides("run", "upstream-update")
    again = scenario.facts(success_cause=run.cause, cause_repeats=2)
    decision = again.decides("error", "evaluation-failed")
    assert decision.next_evaluation is not None
    assert decision.next_evaluation > again.now
    assert "2 successes" in decision.evidence["error"]
    moved = given().input("a", head="3", read="1").output("b").facts(success_cause=run.cause, cause_repeats=2)
    moved.decides("run", "upstream-update")


def test_the_safety_net_sees_through_expiries() -> None:
    """An update that is never consumed is the same cause however often the output expires in between."""
    ids = set()
    for expired in ("08:45", "08:50", None):
        run = given().input("a", head="2", read="1").output("b", expired=expired).decides("run", "upstream-update").run
        assert run is not None
        ids.add(run.cause)
    assert len(ids) == 1


def test_two_expiries_are_two_causes() -> None:
    """An output that expires again and again is refreshed again and again."""
    causes = [
        run.cause for at in ("08:45", "08:50") if (run := given().output("b", expired=at).decides("run", "expired").run)
    ]
    assert len(set(causes)) == 2


def test_of_several_expired_outputs_the_latest_is_named() -> None:
    """The trigger names the period that ended last."""
    both = given().output("b", expired="08:40").output("c", expired="08:50").output("d", expired="08:45")
    cause = both.cause()
    assert cause is not None
    assert cause.asset_id == "c"


def test_the_first_change_is_one_that_may_trigger() -> None:
    """The delay of a run is counted from the first unconsumed change of a triggering input."""
    two = stale().input("z", head="2", read="1", first="08:10")
    pinned = two.input("p", head="2", read="1", first="07:00", triggers=False)
    assert first_change(pinned.policy, pinned.state) == clock("08:10")
    bare = [one.__class__(one.asset_id, one.head, one.consumed) for one in stale().state.inputs]
    unknown = stale().facts(inputs=tuple(bare))
    assert first_change(unknown.policy, unknown.state) is None
