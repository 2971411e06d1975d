"""Which workflows are evaluated again, and when, to the second (docs/semantics.md#R11.4, docs/semantics.md#R9.3)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from freshline.simulation import Simulator
from freshline.testing import Chain, given
from tests.store_harness import workflow

ON_UPDATE: dict[str, Any] = {"onUpstreamUpdate": True}


def active(simulator: Simulator) -> set[str]:
    """Return the queued and running workflows."""
    return {run.slug for run in simulator.active.values()}


def test_the_end_of_a_blocker_wakes_who_waits_for_it() -> None:
    """b fails and cools down for longer than d may wait: d runs at once, and says that it is mixed."""
    failing = workflow("b", "a", backoff={"baseMs": 7_200_000, "maxMs": 7_200_000})
    waiting = given([failing, workflow("d", "a b")]).report("a").advance(minutes=10)
    waiting.expect_held("d", "waiting-for-upstream").fail("b").expect_run("d", mixed=True)


def test_a_blocker_that_is_held_too_long_is_noticed_at_the_next_evaluation() -> None:
    """b waited for r and is then held for hours. This wakes no workflow, and d is evaluated within 30 s."""
    flows = [
        workflow("r", "s"),
        workflow("b", "s r", auto={**ON_UPDATE, "minIntervalMs": 36_000_000}),
        workflow("d", "s b"),
    ]
    again = given(flows).report("s").work().advance(minutes=1).report("s").start("r").advance(seconds=100)
    held = again.expect_held("b", "waiting-for-upstream").succeed("r", changed=False).expect_held("b", "min-interval")
    assert "d" not in active(held.simulator)
    held.advance(seconds=30).expect_run("d", mixed=True)


def test_an_equal_production_completes_a_round() -> None:
    """`when: all` counts productions, changed or not (docs/semantics.md#R1.4, docs/semantics.md#R9.3)."""
    flow = workflow("c", "a b", auto={**ON_UPDATE, "when": "all"})
    one = given(flow).report("a").expect_held("c", "waiting-for-all")
    one.report("b", version="b@1").expect_run("c", "upstream-update")


def test_a_queued_run_takes_new_heads_once_nothing_blocks() -> None:
    """r makes the same again, which wakes no queued run: it is renewed at its next evaluation."""
    queued = given([workflow("r", "s"), workflow("d", "s r")]).report("s", version="2").succeed("r").expect_runs("d")
    blocked = queued.report("s", version="3").expect_runs("d", "r").succeed("r", changed=False)
    assert reads(blocked) == "2"
    assert reads(blocked.advance(seconds=60)) == "3"


def reads(chain: Chain) -> str:
    """Return the version of s that the queued run of d would read."""
    (run,) = [run for run in chain.simulator.active.values() if run.slug == "d"]
    return run.pins["s"].data_version


def test_a_wait_ends_at_its_deadline() -> None:
    """An hour after the first change, not a second earlier or later."""
    start = given([workflow("b", "a"), workflow("d", "a b")]).report("a").start("b")
    almost = start.advance(seconds=3_599).expect_held("d", "waiting-for-upstream")
    assert almost.now + timedelta(seconds=1) == almost.advance(seconds=1).expect_run("d", mixed=True).now


def test_who_waits_for_a_superseded_run_is_woken() -> None:
    """s is as it was: the queued run of x has no cause any more, and d, which waited for x, waits no longer.

    See docs/semantics.md#R11.4.
    """
    flows = [workflow("u", "s"), workflow("x", "s"), workflow("d", "u x")]
    waiting = given(flows).report("s", version="2").start("x", "u").succeed("x").report("s", version="3")
    held = waiting.succeed("u").expect_runs("u", "x").expect_held("d", "waiting-for-upstream")
    held.report("s", version="2").expect_runs("d")


def test_who_waits_for_one_that_can_no_longer_run_is_woken() -> None:
    """b waits for r until its input is too old, which no event tells: d runs in that moment, and says `mixed`."""
    flows = [
        workflow("r", "t"),
        workflow("b", [{"assetId": "s", "freshness": {"maxAgeMs": 60_000}}, "t", "r"]),
        workflow("d", "s b"),
    ]
    waiting = given(flows).report("t", "s").start("r").advance(seconds=60).expect_held("d", "waiting-for-upstream")
    waiting.advance(seconds=2).expect_held("b", "input-too-old").expect_run("d", mixed=True)


def test_an_end_without_a_change_wakes_who_waits_further_down() -> None:
    """x makes the same again: y, between x and d, never hears of it, and d does.

    See docs/semantics.md#R9.3, docs/semantics.md#R11.4.
    """
    flows = [workflow("x", "s"), workflow("y", "x"), workflow("d", "s y")]
    waiting = given(flows).report("s").expect_runs("x").expect_held("d", "waiting-for-upstream")
    waiting.succeed("x", changed=False).expect_run("d", mixed=False)


def test_a_mix_that_was_read_is_remembered() -> None:
    """d read u of one generation and x of another: its next run waits for whichever of both moves (ADR 0004)."""
    failing = workflow("x", "s", backoff={"baseMs": 7_200_000, "maxMs": 7_200_000})
    flows = [workflow("u", "s"), failing, workflow("d", "u x")]
    mixed = given(flows).report("s").succeed("u").fail("x").expect_run("d", mixed=True).succeed("d")
    mixed.report("s").start("u").report("s").succeed("u").expect_runs("u").expect_held("d", "waiting-for-upstream")
