"""Of two reasons that match, the first is the answer, and the other is in the evidence (docs/semantics.md#R5.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import pytest

from freshline.model.enums import BLOCKING_HOLDS, OnRetire, Reason
from freshline.model.staleness import Listed, Staleness
from tests.decide.builders import HOUR, MINUTE, Scenario, clock, fresh, given, stale

Step = Callable[[Scenario], Scenario]


def _breaker(scenario: Scenario) -> Scenario:
    heads = {i.asset_id: i.head.data_version for i in scenario.state.inputs if i.head}
    failures = replace(scenario.state.failures, count=5, breaker_at=clock("08:59"), last_at=clock("08:59"))
    return scenario.facts(failures=replace(failures, probed_versions=heads))


def _cooldown(scenario: Scenario) -> Scenario:
    failures = scenario.state.failures
    return scenario.facts(
        failures=replace(failures, count=failures.count or 1, last_at=clock("08:59"), eligible_at=clock("09:10"))
    )


def _too_old(scenario: Scenario) -> Scenario:
    return scenario.auto(inputs=tuple(replace(one, max_age_ms=5 * MINUTE) for one in scenario.policy.inputs))


def _sealed(scenario: Scenario) -> Scenario:
    *others, last = scenario.state.inputs
    return scenario.facts(inputs=(*others, replace(last, retired=OnRetire.KEEP)))


# Each holds a stale workflow (`a` moved from "1" to "2" at 08:30, now it is 09:00).
# The order is that of docs/semantics.md#R5.1.
# A missing input comes last to be added and first to be answered; `all` adds an input, so the others follow it.
HOLDS: dict[str, Step] = {
    "input-missing": lambda s: s.input("nowhere", head=None, triggers=False),
    "input-retired": lambda s: _sealed(s.input("gone", head="1", read="1", triggers=False)),
    "frozen": lambda s: s.auto(frozen_after_ms=HOUR).facts(window_ends=clock("07:30")),
    "in-flight": lambda s: s.active("running", {"a": "1"}),
    "paused": lambda s: s.paused(),
    "breaker-open": _breaker,
    "cooling-down": _cooldown,
    "canceled": lambda s: s.canceled({i.asset_id: i.head.data_version for i in s.state.inputs if i.head}),
    "backfill-proposed": lambda s: s.facts(listed=Listed("one", Staleness({"a": "2"}))),
    "quiet-hours": lambda s: s.quiet("08:00", "10:00"),
    "input-too-old": _too_old,
    "waiting-for-all": lambda s: s.all_of_them().input("z", head="1", read="1"),
    "waiting-for-upstream": lambda s: s.blocked(),
    "debouncing": lambda s: s.auto(debounce_ms=HOUR),
    "min-interval": lambda s: s.auto(min_interval_ms=HOUR).facts(started_at=clock("08:30")),
}
ORDER = list(HOLDS)


def held_by(*reasons: str) -> Scenario:
    """Return a stale workflow with all of these holds."""
    scenario = stale()
    for reason in reversed(ORDER):
        if reason in reasons:
            scenario = HOLDS[reason](scenario)
    return scenario


def test_the_table_knows_every_hold() -> None:
    """A hold that is added to the words has to be added here."""
    runs_and_skips = {"missing", "retry", "definition-changed", "upstream-update", "expired", "backfill"}
    runs_and_skips |= {"up-to-date", "policy-off", "not-auto", "evaluation-failed"}
    assert set(ORDER) == set(Reason) - runs_and_skips


@pytest.mark.parametrize("reason", ORDER)
def test_each_hold(reason: str) -> None:
    """A single hold is the reason. It names no other holds, and its next evaluation is in the future."""
    scenario = held_by(reason)
    decision = scenario.decides("hold", reason)
    assert "alsoHeldBy" not in decision.evidence
    assert decision.run is None
    assert decision.next_evaluation is not None
    assert decision.next_evaluation > scenario.now


@pytest.mark.parametrize(("first", "second"), list(combinations(ORDER, 2)))
def test_the_first_hold_wins(first: str, second: str) -> None:
    """Of any two holds that match, the earlier is the answer, the later is in the evidence (docs/semantics.md#R5.1)."""
    decision = held_by(first, second).decides("hold", first)
    assert decision.evidence["alsoHeldBy"] == [second]


def test_all_holds_at_once() -> None:
    """All that match are in the evidence, in order."""
    assert held_by(*ORDER).decides("hold", ORDER[0]).evidence["alsoHeldBy"] == ORDER[1:]


def test_what_is_not_declared_is_not_automatic() -> None:
    """`not-auto` comes before everything else, `policy-off` after it and before a missing input."""
    nothing = {"declared": False, "automatic": False}
    given(**nothing).input("a", head=None).output("b", head=None).decides("skip", "not-auto")
    off = given(automatic=False).input("a", head=None).output("b", head=None)
    off.decides("skip", "policy-off")
    off.auto(automatic=True).decides("hold", "input-missing")


def test_a_missing_input_comes_before_up_to_date() -> None:
    """A workflow that misses an input says so, also when it has nothing to do."""
    decision = fresh().input("z", head=None, triggers=False).decides("hold", "input-missing")
    assert decision.evidence["missing"] == ["z"]


@pytest.mark.parametrize("reason", [one for one in ORDER if one not in {"input-missing", "waiting-for-all"}])
def test_up_to_date_comes_before_every_hold_that_follows(reason: str) -> None:
    """A workflow that has nothing to do is not held by anything."""
    HOLDS[reason](fresh()).decides("skip", "up-to-date")


@pytest.mark.parametrize("reason", ORDER)
def test_only_holds_with_a_known_end_block(reason: str) -> None:
    """Debouncing, min-interval, cooling-down and quiet-hours have an end that others may wait for.

    See docs/semantics.md#R4.4.
    """
    decision = held_by(reason).decides("hold", reason)
    blocking = reason in BLOCKING_HOLDS and reason != "paused"
    assert (decision.blocks_until is not None) == blocking


def test_a_pause_blocks_only_if_it_ends() -> None:
    """A pause with an end is worth waiting for (docs/semantics.md#R4.4)."""
    assert stale().paused(until="12:00").decides("hold", "paused").blocks_until == clock("12:00")
    assert stale().paused().decides("hold", "paused").blocks_until is None
