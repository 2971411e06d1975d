"""Graphs: joins read one generation, chains keep flowing, cycles are refused (docs/scenarios.md#graphs)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from freshline.errors import FreshlineError
from tests.store_harness import Lab, workflow

DIAMOND = (workflow("b", "a"), workflow("c", "a"), workflow("d", "b c"))
LONG_DIAMOND = (workflow("b", "a"), workflow("c", "b"), workflow("d", "a c"))


def settled(lab: Lab, *definitions: dict[str, object]) -> None:
    """Produce everything once from version 0 of `a`."""
    lab.apply(*definitions)
    lab.report("a", "0")
    lab.work()


@pytest.mark.parametrize("shape", [DIAMOND, LONG_DIAMOND], ids=["two-branches", "short-cut"])
@pytest.mark.parametrize("first", ["b", "c"])
def test_a_diamond_joins_once(lab: Lab, shape: tuple[dict[str, object], ...], first: str) -> None:
    """D runs once per settled change of A, whichever branch is faster, on one generation.

    See docs/scenarios.md#scenario-11.
    """
    settled(lab, *shape)
    before = len(lab.runs("d"))
    lab.report("a", "1")
    lab.settle()
    if first in lab.active():
        lab.finish(lab.start_of(first))
        lab.settle()
        assert "d" not in lab.active()
        assert lab.reason("d") == "waiting-for-upstream"
        lab.advance(seconds=40)
    lab.work()
    assert len(lab.runs("d")) == before + 1
    assert not any(run["mixed"] for run in lab.runs())
    assert lab.reads("d")[-1].items() >= {"c": lab.head("c")["data_version"]}.items()


def test_several_diamonds_in_a_row_join_once_each(lab: Lab) -> None:
    """Every workflow of a ladder of diamonds runs once per change of its source (docs/scenarios.md#scenario-11)."""
    ladder = [workflow("a1", "a"), workflow("a2", "a"), workflow("b", "a1 a2")]
    ladder += [workflow("b1", "b"), workflow("b2", "b"), workflow("c", "b1 b2 a1")]
    settled(lab, *ladder)
    lab.report("a", "1")
    assert sorted(lab.work()) == ["a1", "a2", "b", "b1", "b2", "c"]
    assert not any(run["mixed"] for run in lab.runs())


def test_a_branch_that_did_not_change_is_cut_off(lab: Lab) -> None:
    """D joins once when one branch brings nothing new, and not at all when both do (docs/scenarios.md#scenario-11)."""
    settled(lab, *DIAMOND)
    same = lab.head("c")["data_version"]
    lab.report("a", "1")
    assert sorted(lab.work(c=same)) == ["b", "c", "d"]
    lab.report("a", "2")
    both = {"b": lab.head("b")["data_version"], "c": same}
    assert sorted(lab.work(**both)) == ["b", "c"]


@pytest.mark.parametrize("end", ["b-first", "c-first"])
def test_a_second_change_while_a_branch_runs_joins_once(lab: Lab, end: str) -> None:
    """A changes again while C runs: D waits until both branches have the new generation.

    See docs/scenarios.md#scenario-11.
    """
    settled(lab, *DIAMOND)
    before = len(lab.runs("d"))
    lab.report("a", "1")
    lab.settle()
    running = {run.slug: run for run in (lab.start(), lab.start())}
    lab.report("a", "2")
    lab.settle()
    for slug in sorted(running, reverse=end == "c-first"):
        lab.finish(running[slug])
        lab.settle()
    assert "d" not in lab.active()
    lab.work()
    assert len(lab.runs("d")) == before + 1
    assert not any(run["mixed"] for run in lab.runs())


def test_a_second_change_while_the_join_is_queued_moves_it_as_a_whole(lab: Lab) -> None:
    """A queued join is not renewed to half a generation (docs/scenarios.md#scenario-11, docs/semantics.md#R6.3)."""
    settled(lab, *DIAMOND)
    lab.report("a", "1")
    lab.settle()
    lab.finish(lab.start())
    lab.finish(lab.start())
    lab.settle()
    assert lab.active() == ["d"]
    first = lab.reads("d")[-1]
    lab.report("a", "2")
    lab.settle()
    lab.finish(lab.start_of("b"))
    lab.settle()
    assert lab.reads("d")[-1] == first, "it keeps the whole old generation while c is in motion"
    lab.finish(lab.start_of("c"))
    lab.settle()
    assert lab.reads("d")[-1] == {slug: lab.head(slug)["data_version"] for slug in "bc"}
    assert lab.work() == ["d"]


def test_a_retry_before_the_deadline_is_waited_for(lab: Lab) -> None:
    """One branch fails and its retry comes in time: D runs once, unmixed (docs/scenarios.md#scenario-11)."""
    settled(lab, *DIAMOND)
    lab.report("a", "1")
    lab.settle()
    lab.fail(lab.start_of("c"))
    assert lab.work() == ["b"]
    assert lab.reason("d") == "waiting-for-upstream"
    assert lab.decision("d")["evidence"]["blockers"][0]["motion"] == "cooling-down"
    lab.advance(minutes=3)
    assert lab.work() == ["c", "d"]
    assert not any(run["mixed"] for run in lab.runs())


def test_a_branch_that_cannot_run_in_time_is_left_out_once(lab: Lab) -> None:
    """D runs once without the failing branch and says so, and again when it recovers.

    See docs/scenarios.md#scenario-11, docs/semantics.md#R4.5.
    """
    quick = {"onUpstreamUpdate": True, "maxWaitMs": 60_000}
    settled(lab, workflow("b", "a"), workflow("c", "a"), workflow("d", "b c", auto=quick))
    lab.report("a", "1")
    lab.settle()
    lab.fail(lab.start_of("c"))
    assert lab.work() == ["b", "d"], "the retry comes after the deadline: waiting would bring nothing"
    assert lab.runs("d")[-1]["mixed"] is True
    assert lab.decision("d")["reason"] == "up-to-date"
    waited = lab.rows("SELECT evidence FROM decisions WHERE run_id = %s", lab.runs("d")[-1]["id"])
    assert waited[0]["evidence"]["waitedOut"][0]["workflowSlug"] == "c"
    lab.advance(minutes=3)
    assert lab.work() == ["c", "d"]
    assert lab.runs("d")[-1]["mixed"] is False


def test_a_dead_branch_blocks_no_longer_than_the_wait(lab: Lab) -> None:
    """A branch that runs for ever delays the join until it has waited for `maxWaitMs`.

    See docs/scenarios.md#scenario-13.
    """
    settled(lab, workflow("b", "a"), workflow("c", "a"), workflow("d", "b c", auto={"onUpstreamUpdate": True}))
    lab.report("a", "1")
    lab.settle()
    stuck = lab.start_of("c")
    assert lab.work() == ["b"]
    for _ in range(11):
        lab.live(minutes=5)
        lab.store.runs.renew_leases([{"id": stuck.id, "attempt": stuck.attempt}])
        assert lab.work() == []
    lab.live(minutes=5)
    assert lab.work() == ["d"]
    assert lab.runs("d")[-1]["mixed"] is True
    lab.finish(stuck)
    assert lab.work() == ["d"]
    assert lab.runs("d")[-1]["mixed"] is False


def test_a_pause_with_an_end_blocks_and_one_without_does_not(lab: Lab) -> None:
    """A paused branch is waited for if its end comes before the deadline, never if it has none.

    See docs/semantics.md#R4.4.
    """
    settled(lab, *DIAMOND)
    lab.store.operations.pause("c", lab.now + timedelta(minutes=30))
    lab.report("a", "1")
    assert lab.work() == ["b"]
    assert lab.reason("d") == "waiting-for-upstream"
    lab.store.operations.pause("c")
    assert lab.work() == ["d"], "what ends the wait wakes the waiting one at once"
    assert lab.runs("d")[-1]["mixed"] is True
    lab.store.operations.resume("c")
    assert lab.work() == ["c", "d"]


def test_a_retired_blocker_frees_its_waiters(lab: Lab) -> None:
    """Retiring the workflow that somebody waits for wakes the waiting one at once (docs/semantics.md#R11.4)."""
    settled(lab, *DIAMOND)
    lab.report("a", "1")
    lab.settle()
    lab.start_of("c")
    assert lab.work() == ["b"]
    lab.apply(workflow("b", "a"), workflow("d", "b c"))
    assert lab.work() == ["d"]


def test_whoever_does_not_wait_runs_at_once(lab: Lab) -> None:
    """`waitForUpstream: false` reads the heads of the moment (docs/semantics.md#R2.2)."""
    settled(
        lab,
        workflow("b", "a"),
        workflow("c", "a"),
        workflow("d", "b c", auto={"onUpstreamUpdate": True, "waitForUpstream": False}),
    )
    lab.report("a", "1")
    lab.settle()
    lab.finish(lab.start_of("b"))
    lab.settle()
    assert lab.active() == ["c", "d"]


def test_when_all_waits_for_every_input(lab: Lab) -> None:
    """Inputs of different rhythm: a round is complete when each has a newer snapshot.

    See docs/scenarios.md#scenario-12, docs/semantics.md#R1.4.
    """
    lab.apply(workflow("d", "x y", auto={"onUpstreamUpdate": True, "when": "all"}))
    lab.report("x", "1")
    lab.report("y", "1")
    assert lab.work() == ["d"]
    for version in "234":
        lab.report("x", version)
        assert lab.work() == []
    assert lab.reason("d") == "waiting-for-all"
    assert lab.decision("d")["evidence"]["waitingFor"] == ["y"]
    lab.report("y", "1")
    assert lab.work() == ["d"], "an unchanged snapshot completes the round"
    assert lab.reads("d")[-1] == {"x": "4", "y": "1"}
    lab.report("x", "4")
    lab.report("y", "1")
    assert lab.work() == [], "a round without any change is no cause"


def test_cycles_are_refused_with_their_path(lab: Lab) -> None:
    """A cycle over the workflows of several projects is refused, and nothing is stored.

    See docs/scenarios.md#scenario-14, docs/semantics.md#R10.1.
    """
    lab.apply(workflow("b", "a"), workflow("c", "b"), name="one")
    with pytest.raises(FreshlineError, match=r"a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c"):
        lab.apply(workflow("a", "c"), name="two")
    assert lab.one("SELECT count(*) FROM workflows") == 2
    assert lab.one("SELECT producer_id FROM assets WHERE id = 'a'") is None


def test_a_workflow_that_reads_its_own_output_does_not_trigger_itself(lab: Lab) -> None:
    """The first run reads nothing of its own, the next one the previous output.

    See docs/scenarios.md#scenario-14, docs/semantics.md#R1.3.
    """
    lab.apply(workflow("total", "a total"))
    lab.report("a", "1")
    lab.settle()
    run = lab.start()
    assert set(run.inputs) == {"a"}
    lab.finish(run)
    assert lab.work() == []
    before = lab.head("total")["data_version"]
    lab.report("a", "2")
    lab.settle()
    run = lab.start()
    assert run.inputs["total"].data_version == before
    lab.finish(run)
    assert lab.work() == []
    assert set(lab.reads("total")[-1]) == {"a"}


def test_the_steps_of_a_workflow_are_one_run(lab: Lab) -> None:
    """What one step makes for the next is no outside input, and all outputs appear together.

    See docs/semantics.md#R9.1.
    """
    steps = [
        {
            "id": "one",
            "job": {"kind": "python", "entrypoint": "jobs:one"},
            "consumes": [{"assetId": "a"}],
            "produces": [{"assetId": "m", "autoMaterialize": {"onUpstreamUpdate": True}}],
        },
        {
            "id": "two",
            "job": {"kind": "python", "entrypoint": "jobs:two"},
            "consumes": [{"assetId": "m"}],
            "produces": [{"assetId": "n"}],
        },
    ]
    lab.apply({"slug": "both", "steps": steps}, workflow("z", "m n"))
    lab.report("a", "1")
    assert lab.work() == ["both", "z"]
    lab.report("a", "2")
    assert lab.work(n="same") == ["both", "z"]
    lab.report("a", "3")
    assert lab.work(n="same") == ["both", "z"]
    snapshots = lab.rows("SELECT asset_id, step_id FROM snapshots WHERE run_id IS NOT NULL AND sequence = 1")
    assert {(row["asset_id"], row["step_id"]) for row in snapshots} >= {("m", "one"), ("n", "two")}
    assert not any(run["mixed"] for run in lab.runs())


def test_an_input_that_may_not_trigger_is_pinned_and_no_cause(lab: Lab) -> None:
    """`onUpstreamUpdate` on an input speaks for that input alone, both ways (docs/semantics.md#R2.3)."""
    quiet = {"assetId": "x", "autoMaterialize": {"onUpstreamUpdate": False}}
    lab.apply(workflow("b", ["a", quiet]))
    lab.report("a", "1")
    lab.report("x", "1")
    assert lab.work() == ["b"]
    lab.report("x", "2")
    assert lab.work() == []
    assert lab.reason("b") == "up-to-date"
    lab.report("a", "2")
    assert lab.work() == ["b"]
    assert lab.reads("b")[-1] == {"a": "2", "x": "2"}


def test_an_input_that_is_too_old_holds_the_run(lab: Lab) -> None:
    """`freshness.maxAgeMs` on an input holds runs until it was produced again, changed or not.

    See docs/semantics.md#R9.3.
    """
    lab.apply(workflow("b", ["a", {"assetId": "x", "freshness": {"maxAgeMs": 3_600_000}}]))
    lab.report("a", "1")
    lab.report("x", "1")
    assert lab.work() == ["b"]
    lab.advance(hours=2)
    lab.report("a", "2")
    assert lab.work() == []
    assert lab.reason("b") == "input-too-old"
    lab.report("x", "1")
    assert lab.work() == ["b"]


def test_priorities_decide_who_starts_first(lab: Lab) -> None:
    """The lower number starts first; ten seconds of waiting make up for one (docs/semantics.md#R11.8)."""
    lab.apply(
        workflow("late", "a", auto={"onUpstreamUpdate": True, "priority": 50}),
        workflow("soon", "x", auto={"onUpstreamUpdate": True, "priority": 1}),
    )
    lab.report("a", "1")
    lab.settle()
    lab.advance(seconds=1)
    lab.report("x", "1")
    assert lab.work() == ["soon", "late"]
    lab.report("a", "2")
    lab.settle()
    lab.advance(minutes=10)
    lab.report("x", "2")
    assert lab.work() == ["late", "soon"]


def test_a_canceled_blocker_frees_its_waiters(lab: Lab) -> None:
    """When the run that somebody waits for is canceled, the waiting one looks at once (docs/semantics.md#R11.4)."""
    settled(lab, *DIAMOND)
    lab.report("a", "1")
    lab.settle()
    lab.finish(lab.start_of("b"))
    lab.settle()
    assert lab.reason("d") == "waiting-for-upstream"
    lab.store.operations.cancel(str(lab.runs("c")[-1]["id"]))
    assert lab.work() == ["d"]
    assert lab.runs("d")[-1]["mixed"] is True
