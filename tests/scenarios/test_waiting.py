"""Waiting itself is motion: the counter-example that the simulation found (ADR 0003)."""

from __future__ import annotations

from tests.store_harness import Lab, workflow


def test_a_workflow_that_waits_holds_up_those_who_would_mix(lab: Lab) -> None:
    """`c` waits for `a`; `d` reads both and waits for `c`, though all its inputs descend from what is in motion."""
    lab.apply(workflow("a", "s"), workflow("c", "s a"), workflow("d", "a c"))
    lab.report("s", "1")
    assert lab.work() == ["a", "c", "d"]
    lab.report("s", "2")
    lab.settle()
    lab.finish(lab.start())  # a, generation 2
    lab.report("s", "3")
    lab.settle()
    assert lab.reason("c") == "waiting-for-upstream"
    assert lab.reason("d") == "waiting-for-upstream"
    assert lab.work() == ["a", "c", "d"]
    assert not any(run["mixed"] for run in lab.runs())
    assert lab.forgotten() == 0


def test_a_second_mix_is_said_too(lab: Lab) -> None:
    """After a mixed run all inputs count as moved: the next run waits, or says `mixed` again (ADR 0004)."""
    auto = {"onUpstreamUpdate": True, "maxWaitMs": 1_000}
    lab.apply(workflow("a", "s"), workflow("d", "s a", auto=auto))
    lab.report("s", "1")
    assert lab.work() == ["a", "d"]
    lab.report("s", "2")
    lab.settle()
    slow = lab.start()
    lab.report("s", "3")
    lab.advance(seconds=2)
    lab.settle()
    lab.finish(lab.start())  # d: s of generation 3 beside a of generation 1
    lab.finish(slow)  # a, generation 2; it is in motion again, for generation 3
    lab.settle()
    assert lab.reason("d") == "waiting-for-upstream"
    assert lab.work() == ["a", "d"]
    assert [run["mixed"] for run in lab.runs("d")] == [False, True, False]


def test_a_source_that_comes_back_to_an_old_version_has_moved(lab: Lab) -> None:
    """`s` goes from 1 to 2 and back: `d` does not read `s` at 1 beside what `a` made of 2 (ADR 0004)."""
    lab.apply(workflow("a", "s"), workflow("d", "s a"))
    lab.report("s", "1")
    assert lab.work() == ["a", "d"]
    lab.report("s", "2")
    lab.settle()
    second = lab.start()
    lab.report("s", "1")
    lab.settle()
    lab.finish(second)
    lab.settle()
    assert lab.reason("d") == "waiting-for-upstream"
    assert lab.work() == ["a"], "a is back at what d has read"
    assert not any(run["mixed"] for run in lab.runs())


def test_a_new_input_can_be_older_than_the_others(lab: Lab) -> None:
    """`d` gets the input `b`, which is of generation 1, beside `a` of generation 2, which it has read already."""
    lab.apply(workflow("a", "s"), workflow("b", "s"), workflow("d", "a"))
    lab.report("s", "1")
    assert sorted(lab.work()) == ["a", "b", "d"]
    lab.store.operations.pause("b")
    lab.report("s", "2")
    assert lab.work() == ["a", "d"]
    lab.apply(workflow("a", "s"), workflow("b", "s"), workflow("d", "a b"))
    assert lab.work() == ["d"]
    lab.store.operations.resume("b")
    assert lab.work() == ["b", "d"]
    assert [run["mixed"] for run in lab.runs("d")] == [False, False, True, False]


def test_a_workflow_that_comes_back_above_a_join_makes_a_mix(lab: Lab) -> None:
    """While `b` was a source, `d` read it beside a later `s`. Now both descend from `s`, and `b` is behind."""
    a, b, d = workflow("a", "s"), workflow("b", "a"), workflow("d", "s b")
    lab.apply(a, b, d)
    lab.report("s", "1")
    assert lab.work() == ["a", "b", "d"]
    lab.report("s", "2")
    lab.settle()
    slow = lab.start()  # a
    lab.store.operations.pause("a")
    lab.apply(a, d)
    lab.report("s", "3")
    assert lab.work() == ["d"]
    lab.finish(slow)  # generation 2
    lab.apply(a, b, d)
    assert lab.work() == ["b", "d"]
    lab.store.operations.resume("a")
    assert lab.work() == ["a", "b", "d"]
    assert [run["mixed"] for run in lab.runs("d")] == [False, False, True, False]


def test_a_run_that_is_older_than_the_graph_makes_a_mix(lab: Lab) -> None:
    """`d` is pinned while `b` reads `t`, and ends when `b` reads `a`: what it consumed is a mix by then."""
    a, d = workflow("a", "s"), workflow("d", "s b")
    lab.apply(a, workflow("b", "t"), d)
    lab.report("s", "1")
    lab.report("t", "1")
    assert sorted(lab.work()) == ["a", "b", "d"]
    lab.store.operations.pause("a")
    lab.report("s", "2")
    lab.settle()
    run = lab.start()  # d
    lab.apply(a, workflow("b", "a"), d)
    lab.finish(run)
    assert lab.work() == ["b", "d"]
    lab.store.operations.resume("a")
    assert lab.work() == ["a", "b", "d"]
    assert [run["mixed"] for run in lab.runs("d")] == [False, False, True, False]
