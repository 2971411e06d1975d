"""Pools and maxConcurrency: how many runs run at once, and who goes first (docs/semantics.md#R11.8)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from freshline.model.run import ClaimedRun
from tests.store_harness import Lab, workflow

ONE = {"narrow": 1}


def pooled(slug: str, priority: int = 100, **more: Any) -> dict[str, Any]:
    """Return a workflow on the source `a` in the pool `narrow`."""
    return workflow(slug, "a", auto={"onUpstreamUpdate": True, "priority": priority}, pool="narrow", **more)


def begin(lab: Lab) -> list[str]:
    """Claim until no run may start; return the slugs in order."""
    started = []
    while run := lab.claim():
        started.append(run.slug)
    return started


def test_a_pool_takes_no_more_runs_than_its_slots(lab: Lab) -> None:
    """Two slots, three runs: the third begins when one of the first ends."""
    lab.apply(*(pooled(slug) for slug in "bcd"), pools={"narrow": 2})
    lab.report("a")
    lab.settle()
    first, second = lab.start(), lab.start()
    assert lab.claim() is None
    lab.finish(first)
    third = lab.start()
    assert {first.slug, second.slug, third.slug} == {"b", "c", "d"}


def test_a_full_pool_holds_up_nobody_else(lab: Lab) -> None:
    """Runs outside of it begin, although more urgent ones wait for a slot."""
    lab.apply(pooled("b", 1), pooled("c", 1), workflow("d", "a"), pools=ONE)
    lab.report("a")
    lab.settle()
    assert begin(lab) == ["b", "d"]


def cancel(lab: Lab, run: ClaimedRun) -> None:
    """Cancel a run as a user, and acknowledge it as the worker."""
    lab.store.operations.cancel(run.id)
    lab.store.runs.cancel(run.id, run.attempt)


def lose(lab: Lab, run: ClaimedRun) -> None:
    """Let the lease of the first attempt expire, and rescue the run."""
    lab.advance(seconds=60)
    assert run.attempt == 1
    lab.store.runs.rescue(10)


ENDS: dict[str, Callable[[Lab, ClaimedRun], None]] = {
    "published": lambda lab, run: lab.finish(run),
    "failed": lambda lab, run: lab.fail(run),
    "canceled": cancel,
    "lost": lose,
    "handed back": lambda lab, run: lab.store.runs.hand_back(run.id, run.attempt),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_slot_is_free_however_its_run_ends(lab: Lab, how: str) -> None:
    """No end of a run leaves its slot taken: there is nothing to release."""
    lab.apply(pooled("b", 1), pooled("c", 2), pools=ONE)
    lab.report("a")
    lab.settle()
    ENDS[how](lab, lab.start())
    assert lab.claim() is not None
    assert lab.claim() is None


def test_workers_that_claim_at_once_never_overfill_a_pool(lab: Lab) -> None:
    """Eight workers, three slots, thirty runs: three run, whatever the interleaving, and no slot stays empty."""
    lab.apply(*(pooled(f"w{n}") for n in range(30)), pools={"narrow": 3})
    lab.report("a")
    lab.settle()

    with ThreadPoolExecutor(8) as workers:
        for _ in range(5):
            claimed = [run for run in workers.map(lambda _: lab.claim(), range(8)) if run]
            claimed += [run for run in iter(lab.claim, None) if run]
            assert lab.one("SELECT count(*) FROM runs WHERE status = 'running'") == 3
            assert len({row["slot"] for row in lab.rows("SELECT slot FROM runs WHERE status = 'running'")}) == 3
            assert len(claimed) == 3
            for run in claimed:
                lab.finish(run)


def test_a_smaller_limit_is_kept_as_runs_end(lab: Lab) -> None:
    """After an apply with a lower limit nothing begins until the runs are fewer than that; more begin after a raise."""
    flows = [pooled(f"w{n}") for n in range(5)]
    lab.apply(*flows, pools={"narrow": 3})
    lab.report("a")
    lab.settle()
    runs = [lab.start() for _ in range(3)]
    plan = lab.apply(*flows, pools=ONE)
    assert plan.pools == {"narrow": (3, 1)}
    assert not plan.empty
    for run in runs[:2]:
        lab.finish(run)
        assert lab.claim() is None
    lab.finish(runs[2])
    assert len(begin(lab)) == 1
    lab.apply(*flows, pools={"narrow": 2})
    assert len(begin(lab)) == 1


def test_a_pool_that_is_gone_still_limits_what_was_queued_in_it(lab: Lab) -> None:
    """A manual run of the old definition neither waits for ever nor exceeds the last limit."""
    lab.apply(pooled("b"), pools=ONE)
    lab.report("a")
    run = lab.store.operations.request_run("b")
    lab.apply(workflow("b", "a"))
    claimed = lab.start()
    assert claimed.id == run
    assert lab.rows("SELECT pool, slot FROM runs WHERE id = %s", run) == [{"pool": "narrow", "slot": 1}]


def test_max_concurrency_counts_all_partitions(lab: Lab) -> None:
    """A workflow with maxConcurrency 2 has two running runs at most, whatever their partitions."""
    lab.apply(workflow("b", "a", maxConcurrency=2))
    lab.report("a")
    lab.settle()
    for partition in ("x", "y"):
        lab.rows(
            "INSERT INTO runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid(),"
            " 'partition_key', %s::text))).* FROM runs r WHERE partition_key = '' RETURNING id",
            partition,
        )
    first, _ = lab.start(), lab.start()
    assert lab.claim() is None
    lab.store.runs.fail(first.id, first.attempt, {"code": "job", "message": "boom"})
    assert lab.claim() is not None
    assert lab.claim() is None


def test_a_blocker_is_as_urgent_as_its_waiter(lab: Lab) -> None:
    """Who everybody urgent waits for does not stand behind less urgent runs (docs/semantics.md#R11.8)."""
    slow, urgent = {"onUpstreamUpdate": True, "priority": 100}, {"onUpstreamUpdate": True, "priority": 1}
    middle = [workflow(f"m{n}", "other", auto={"onUpstreamUpdate": True, "priority": 50}) for n in range(3)]
    lab.apply(
        workflow("b", "a", auto=slow), workflow("c", "a", auto=urgent), workflow("d", "b c", auto=urgent), *middle
    )
    lab.report("a", "1")
    lab.report("other", "1")
    lab.work()
    lab.report("other", "2")
    lab.report("a", "2")
    lab.settle()
    lab.finish(lab.start_of("c"))
    lab.settle()
    assert lab.reason("d") == "waiting-for-upstream"
    assert lab.start().slug == "b"


def test_urgency_reaches_the_blocker_of_a_blocker(lab: Lab) -> None:
    """d waits for c, which waits for b: b inherits from d through c, within c's next look."""
    slow, urgent = {"onUpstreamUpdate": True, "priority": 100}, {"onUpstreamUpdate": True, "priority": 1}
    middle = [workflow(f"m{n}", "other", auto={"onUpstreamUpdate": True, "priority": 50}) for n in range(3)]
    lab.apply(
        workflow("b", "a", auto=slow),
        workflow("c", "a b", auto=slow),
        workflow("d", "a c", auto=urgent),
        *middle,
    )
    lab.report("a", "1")
    lab.report("other", "1")
    lab.work()
    lab.report("other", "2")
    lab.report("a", "2")
    lab.settle()
    assert {lab.reason(slug) for slug in "cd"} == {"waiting-for-upstream"}
    lab.advance(seconds=31)
    lab.settle()
    assert lab.start().slug == "b"
