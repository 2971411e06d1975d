"""A batch is decided ancestors first, each workflow on its own, and what was decided counts for those below."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from freshline.decide.batch import with_defaults
from freshline.decide.causes import find_cause
from freshline.decide.motion import Moving, Walk
from freshline.graph import Graph
from freshline.model.policy import Backoff
from freshline.services.reconciler import evaluate
from freshline.settings import Settings
from freshline.store.evaluation.load_state import BatchState, LoadedWorkflow
from tests.decide.builders import Flow, Scenario, clock, fresh, given, graph_of, stale

SETTINGS = Settings(project=Path("/nowhere"), base_backoff_ms=5, max_backoff_ms=50)


def loaded(number: int, scenario: Scenario, *, retired: bool = False) -> LoadedWorkflow:
    """Return the workflow `number` as the store loads it."""
    state = replace(scenario.state, workflow_id=number, slug=f"w{number}")
    return LoadedWorkflow(scenario.policy, state, "lab", "code", needs_spark=False, retired=retired, last_decision=None)


def diamond() -> Graph:
    """s -> 9 -> b, s -> 8 -> c, (b, c) -> 1: the join has the smallest number."""
    return graph_of([Flow(9, ("s",), ("b",)), Flow(8, ("s",), ("c",)), Flow(1, ("b", "c"), ("d",))])


def decided(*batch: LoadedWorkflow, moving: dict[int, Moving] | None = None) -> dict[int, str]:
    """Return the reason for each workflow. Those of the batch are due."""
    motion = {one.state.workflow_id: Moving("due") for one in batch} | (moving or {})
    decisions = evaluate(diamond(), BatchState(1, clock("09:00"), motion, batch), SETTINGS)
    return {one["workflow_id"]: str(one["reason"]) for one in decisions.decisions}


SOURCE_MOVED = given().input("s", "2", "1")
JOIN = given().input("b", "2", "1").input("c", "1", "1").output("d")


def test_ancestors_are_decided_first() -> None:
    """The other branch gets its run in this batch, so the join waits for it, in whatever order they are given."""
    batch = [loaded(1, JOIN), loaded(8, SOURCE_MOVED.output("c"))]
    for order in (batch, batch[::-1]):
        assert decided(*order) == {8: "upstream-update", 1: "waiting-for-upstream"}


def test_an_ancestor_that_rests_blocks_no_longer() -> None:
    """It was due, and there was nothing to do: the join runs in the same batch."""
    assert decided(loaded(1, JOIN), loaded(8, fresh())) == {8: "up-to-date", 1: "upstream-update"}


def test_an_ancestor_that_is_held_blocks_as_its_hold_says() -> None:
    """A cooldown that ends in time is waited for; a breaker is not, and neither is what is superseded."""
    cooling = SOURCE_MOVED.output("c").failed(1, eligible="09:05")
    assert decided(loaded(1, JOIN), loaded(8, cooling))[1] == "waiting-for-upstream"
    broken = SOURCE_MOVED.output("c").failed(5, breaker="08:59", probed_versions={"s": "2"})
    assert decided(loaded(1, JOIN), loaded(8, broken))[1] == "upstream-update"
    gone = given().input("s", "1", "1").output("c").active("queued", {"s": "2"})
    assert decided(loaded(1, JOIN), loaded(8, gone))[1] == "upstream-update"


def test_an_ancestor_with_a_run_stays_in_motion() -> None:
    """The workflow was evaluated, and its run continues."""
    running = SOURCE_MOVED.output("c").active("running", {"s": "1"})
    assert decided(loaded(1, JOIN), loaded(8, running)) == {8: "in-flight", 1: "waiting-for-upstream"}
    satisfied = given().input("s", "1", "1").output("c").active("running", {"s": "1"})
    assert decided(loaded(1, JOIN), loaded(8, satisfied)) == {8: "up-to-date", 1: "waiting-for-upstream"}


def test_an_ancestor_that_waits_is_in_motion() -> None:
    """s -> y, s -> z, (y, z) -> x, y -> u, (u, x) -> d: while x waits for y, d must not read u beside an older x."""
    flows = [Flow(1, ("s",), ("y",)), Flow(2, ("s",), ("z",)), Flow(3, ("y", "z"), ("x",)), Flow(4, ("y",), ("u",))]
    graph = graph_of([*flows, Flow(5, ("u", "x"), ("d",))])
    x = given().input("y", "2", "1").input("z", "3", "1").output("x")
    d = given().input("u", "2", "1").input("x", "1", "1").output("d")
    motion = {1: Moving("running"), 3: Moving("due"), 5: Moving("due")}
    moment = BatchState(1, clock("09:00"), motion, [loaded(5, d), loaded(3, x)])
    reasons = [str(one["reason"]) for one in evaluate(graph, moment, SETTINGS).decisions]
    assert reasons == ["waiting-for-upstream"] * 2


def test_a_retired_workflow_is_only_put_away() -> None:
    """There is no decision and no further evaluation."""
    decisions = evaluate(diamond(), BatchState(1, clock("09:00"), {}, [loaded(1, stale(), retired=True)]), SETTINGS)
    assert (decisions.done, decisions.decisions) == ([(1, "")], [])


def test_an_error_stays_in_its_own_workflow(capsys: pytest.CaptureFixture[str]) -> None:
    """A policy that cannot be evaluated is a visible failed decision, and the others are decided."""
    broken = stale().quiet("25:99", "26:00")
    assert decided(loaded(9, broken), loaded(8, SOURCE_MOVED.output("c"))) == {
        9: "evaluation-failed",
        8: "upstream-update",
    }


def test_the_workflow_says_nothing_about_backoff() -> None:
    """Then the materializer's own setting counts, and what it does say stays."""
    assert with_defaults(given(backoff=Backoff()).policy, SETTINGS).backoff == Backoff(5, 50)
    own = Backoff(7, None, budget=2)
    assert with_defaults(given(backoff=own).policy, SETTINGS).backoff == Backoff(7, 50, budget=2)


def blockers(scenario: Scenario, moving: int) -> list[int]:
    """Who blocks the join while one workflow moves."""
    walk = Walk(diamond(), {moving: Moving("running")})
    cause = find_cause(scenario.policy, replace(scenario.state, workflow_id=1), walk)
    return [one.workflow_id for one in cause.blockers] if cause else []


def test_waiting_follows_the_changed_inputs() -> None:
    """For an update and a first run, those inputs count that changed; also those that do not trigger.

    See docs/semantics.md#R4.2.
    """
    assert blockers(JOIN, 8) == [8]
    assert blockers(JOIN, 9) == []
    pinned = given().input("b", "2", "1", triggers=False).input("c", "2", "1").output("d")
    assert blockers(pinned, 8) == [8]
    first = given().input("b", "1").input("c", "1").output("d", head=None).never_ran()
    assert blockers(first, 9) == [9]


def test_other_causes_wait_for_any_ancestor() -> None:
    """An expiry, a changed definition, and a missing output although nothing changed (docs/semantics.md#R4.3)."""
    still = given().input("b", "1", "1").input("c", "1", "1")
    assert blockers(still.output("d", expired="08:45"), 9) == [9]
    assert blockers(still.output("d").redefined(), 9) == [9]
    assert blockers(still.output("d", head=None), 9) == [9]
    assert blockers(JOIN.redefined(), 9) == [9]
    assert blockers(JOIN.failed(), 9) == [], "the retry of an update is an update"


def test_who_has_no_cause_or_does_not_wait_has_no_blockers() -> None:
    """Nothing to run, or `waitForUpstream: false`."""
    assert blockers(given().input("b", "1", "1").output("d"), 8) == []
    assert blockers(JOIN.auto(wait_for_upstream=False), 8) == []
