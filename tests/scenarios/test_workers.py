"""Workers: any number of them make one run, and a stale one changes nothing (docs/scenarios.md#workers)."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import pytest

from freshline import failpoints
from freshline.errors import FencedError
from freshline.failpoints import FailpointError
from freshline.model.run import ClaimedRun, FinishedStep, StagedOutput
from freshline.services.reconciler import Reconciler
from freshline.worker.lease import LeaseKeeper
from tests.store.test_failpoints import crash
from tests.store_harness import CODE, Lab, workflow

ERROR = {"code": "job", "message": "boom"}
WRITES: dict[str, Callable[[Lab, ClaimedRun], object]] = {
    "begin_step": lambda lab, run: lab.store.runs.begin_step(run.id, run.attempt, "work", 9),
    "finish_step": lambda lab, run: lab.store.runs.finish_step(run.id, run.attempt, "work", 1, outputs=[]),
    "append_logs": lambda lab, run: lab.store.runs.append_logs(
        run.id, run.attempt, [{"step_id": "work", "stream": "log", "text": "late"}], after=0
    ),
    "publish_run": lambda lab, run: lab.store.runs.publish(run, [StagedOutput("b", "work", "zombie")]),
    "fail_run": lambda lab, run: lab.store.runs.fail(run.id, run.attempt, ERROR),
    "cancel_running": lambda lab, run: lab.store.runs.cancel(run.id, run.attempt),
    "hand_back": lambda lab, run: lab.store.runs.hand_back(run.id, run.attempt),
}


ROUNDS = [4, pytest.param(200, marks=[pytest.mark.full, pytest.mark.timeout(900)])]


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("count", [2, 8])
def test_any_number_of_materializers_make_one_run(lab: Lab, count: int, rounds: int) -> None:
    """One event, many absorbers and reconcilers with random delays: one run per workflow.

    See docs/scenarios.md#scenario-23.
    """
    lab.apply(*(workflow(slug, "a") for slug in "bcde"))
    lab.settle()
    for version in range(rounds):
        lab.report("a", str(version))
        begin = threading.Barrier(count)
        errors: list[Exception] = []

        def materialize(seed: int, begin: threading.Barrier = begin, errors: list[Exception] = errors) -> None:
            pause, reconciler = random.Random(seed), Reconciler(lab.store)  # noqa: S311 - delays
            begin.wait()
            try:
                for _ in range(6):
                    threading.Event().wait(pause.random() / 200)
                    lab.store.evaluation.consume_inbox(pause.choice([1, 100]))
                    reconciler.run_once()
            except Exception as error:  # noqa: BLE001 - the test fails on it
                errors.append(error)

        threads = [threading.Thread(target=materialize, args=(10 * version + n,)) for n in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        lab.settle()
        assert lab.active() == ["b", "c", "d", "e"]
        assert sorted(lab.work()) == ["b", "c", "d", "e"]
    assert len(lab.runs()) == 4 * rounds


def test_any_number_of_workers_take_each_run_once(lab: Lab) -> None:
    """Eight workers on a queue of automatic and manual runs: each run once, one per workflow at a time."""
    slugs = [f"w{number}" for number in range(10)]
    lab.apply(*(workflow(slug, "a") for slug in slugs))
    lab.report("a", "1")
    lab.settle()
    for slug in slugs[:5]:
        lab.store.operations.request_run(slug)
    taken: list[str] = []

    def take() -> None:
        for _ in range(8):
            run = lab.claim()
            if run is not None:
                taken.append(run.slug)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while (run := lab.claim()) is not None:  # a reconciler that lost a tie has ended without work
        taken.append(run.slug)
    assert sorted(taken) == sorted(slugs)
    assert lab.one("SELECT count(*) FROM runs WHERE status = 'queued'") == 5


@pytest.mark.parametrize("taken_over", ["running", "finished", "queued"])
@pytest.mark.parametrize("write", WRITES)
def test_a_stale_attempt_changes_nothing(lab: Lab, write: str, taken_over: str) -> None:
    """A worker that lost its lease gets an error from every write and changes no row.

    See docs/scenarios.md#scenario-25.
    """
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.settle()
    stale = lab.start()
    lab.store.runs.begin_step(stale.id, stale.attempt, "work", 1)
    lab.advance(seconds=16)
    assert lab.store.runs.rescue(10) == 1
    if taken_over != "queued":
        owner = lab.start()
        assert (owner.id, owner.attempt) == (stale.id, stale.attempt + 1)
        if taken_over == "finished":
            lab.finish(owner)
    before = lab.everything()
    with pytest.raises(FencedError, match=f"attempt {stale.attempt} no longer owns run {stale.id}"):
        WRITES[write](lab, stale)
    assert lab.store.runs.renew_leases([{"id": stale.id, "attempt": stale.attempt}]) == {}
    assert lab.everything() == before
    lab.work()


def test_a_new_attempt_goes_on_after_the_finished_steps(lab: Lab) -> None:
    """What a lost attempt has finished is not done again; its try that was under way is."""
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.settle()
    first = lab.start()
    lab.store.runs.begin_step(first.id, 1, "work", 1)
    lab.store.runs.finish_step(
        first.id, 1, "work", 1, outputs=[StagedOutput("b", "work", "v1")], metrics={"rowsOut": 7}
    )
    lab.store.runs.begin_step(first.id, 1, "more", 1)
    lab.store.runs.renew_leases([{"id": first.id, "attempt": 1, "progress": {"step": "more"}}])
    lab.advance(seconds=16)
    lab.store.runs.rescue(10)
    assert lab.runs("b")[0]["progress"] is None, "what the lost attempt told is over"
    second = lab.start()
    assert second.finished_steps == {"work": FinishedStep(1, (StagedOutput("b", "work", "v1"),))}
    lab.store.runs.renew_leases([{"id": first.id, "attempt": 2, "progress": {"step": "more"}}])
    lab.store.runs.publish(second, list(second.finished_steps["work"].outputs), metrics={"more": {"rowsOut": 8}})
    (ended,) = lab.runs("b")
    assert ended["result"]["metrics"] == {"work": {"rowsOut": 7}, "more": {"rowsOut": 8}}
    assert ended["progress"] is None


def test_a_new_attempt_learns_which_sessions_may_still_compute(lab: Lab) -> None:
    """Sessions on a Connect server outlive their worker; the new owner gets those that told no success.

    See docs/semantics.md#R12.1.
    """
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.settle()
    first = lab.start()
    assert first.sessions == ()
    done, failed, lost = (f"00000000-0000-4000-8000-00000000000{n}" for n in (1, 2, 3))
    lab.store.runs.begin_step(first.id, 1, "work", 1, session=done)
    lab.store.runs.finish_step(first.id, 1, "work", 1, outputs=[StagedOutput("b", "work", "v1")])
    lab.store.runs.begin_step(first.id, 1, "more", 1, session=failed)
    lab.store.runs.finish_step(first.id, 1, "more", 1, error={"message": "lost"})
    lab.store.runs.begin_step(first.id, 1, "more", 2, session=lost)
    lab.advance(seconds=16)
    lab.store.runs.rescue(10)
    assert set(lab.start().sessions) == {failed, lost}


def test_a_lease_lasts_as_long_as_it_is_renewed(lab: Lab) -> None:
    """A living worker keeps its run, a dead one loses it after the lease, by the database's clock."""
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.settle()
    run = lab.start()
    for _ in range(5):
        lab.advance(seconds=14)
        assert lab.store.runs.renew_leases([{"id": run.id, "attempt": 1, "progress": {"done": 1}}]) == {
            (run.id, 1): False
        }
        assert lab.store.runs.rescue(10) == 0
    assert lab.runs("b")[0]["progress"] == {"done": 1}
    lab.advance(seconds=15)
    assert lab.store.runs.rescue(10) == 0, "it ends after the lease, not with it"
    lab.advance(seconds=1)
    assert lab.store.runs.rescue(10) == 1
    assert lab.work() == ["b"]


def test_leases_follow_the_clock_of_the_database(database_url: str) -> None:
    """Without an injected clock a lease is the database's own time plus its length (docs/scenarios.md#scenario-9)."""
    lab = Lab(database_url)
    try:
        lab.database.clock = None
        lab.apply(workflow("b", "a"))
        lab.report("a", "1")
        lab.settle()
        lab.start()
        left = lab.one("SELECT lease_until - clock_timestamp() FROM runs")
        assert 10 < left.total_seconds() <= 15
    finally:
        lab.close()


def test_a_worker_with_other_code_does_not_claim(lab: Lab) -> None:
    """A run is for workers of its project that have its code.

    See docs/scenarios.md#scenario-39, docs/semantics.md#R10.3.
    """
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.settle()
    assert lab.claim(code="code-2") is None
    assert lab.claim(name="another") is None
    assert lab.claim(code=CODE) is not None


def test_new_code_reaches_the_next_run(lab: Lab) -> None:
    """After an apply of changed Python code the old worker gets nothing and the new one the new run.

    See docs/scenarios.md#scenario-39.
    """
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    assert lab.work() == ["b"]
    lab.report("a", "2")
    lab.settle()
    lab.apply(workflow("b", "a"), code="code-2")
    lab.settle()
    assert lab.claim() is None
    run = lab.claim(code="code-2")
    assert run is not None
    assert (run.code_hash, run.trigger["reason"]) == ("code-2", "definition-changed")
    lab.finish(run)


@pytest.mark.parametrize("how", ["handed-back", "lost", "requested"])
def test_a_run_whose_code_is_gone_holds_up_nobody(lab: Lab, how: str) -> None:
    """Nobody can take a run of old code; it ends, and a new one comes with the new code (docs/semantics.md#R10.3)."""
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    if how == "requested":
        assert lab.work() == ["b"]
        lab.store.operations.request_run("b")
        lab.apply(workflow("b", "a"), code="code-2")
    else:
        lab.settle()
        old = lab.start()
        lab.apply(workflow("b", "a"), code="code-2")
        if how == "lost":
            lab.advance(seconds=16)
            lab.store.runs.rescue(10)
        else:
            lab.store.runs.hand_back(old.id, old.attempt)
    lab.settle()
    ended = lab.runs("b")[-2]
    assert (ended["status"], ended["cancel_reason"]) == ("canceled", "definition-changed")
    run = lab.claim(code="code-2")
    assert run is not None
    lab.finish(run)


def test_a_worker_without_spark_leaves_spark_runs(lab: Lab) -> None:
    """While the engine is away a worker takes only what needs none (docs/semantics.md#R7.1)."""
    spark = workflow("s", "a")
    spark["steps"][0]["job"] = {"kind": "spark.sql", "sql": "SELECT * FROM a"}
    lab.apply(spark, workflow("b", "a"))
    lab.report("a", "1")
    lab.settle()
    claimed = [lab.claim(spark=False) for _ in range(2)]
    assert [run.slug if run else None for run in claimed] == ["b", None]
    assert lab.start().slug == "s"


def test_a_worker_that_takes_over_its_own_lost_run_keeps_it(lab: Lab) -> None:
    """One slot lost the run and does not know yet, another slot has it now: each has a lease of its own."""
    lab.apply(workflow("b", "a"))
    lab.report("a", "1")
    lab.settle()
    leases = LeaseKeeper(lab.store)
    lost = leases.hold(lab.start(), time.monotonic())
    lab.advance(minutes=1)
    assert lab.store.runs.rescue(10) == 1
    owned = leases.hold(lab.start(), time.monotonic())
    assert (owned.run.id, owned.run.attempt) == (lost.run.id, 2)
    leases.run_once()
    assert (lost.stop_reason(), owned.stop_reason()) == ("lease-lost", None)
    leases.release(lost)
    lab.store.operations.cancel(owned.run.id)
    leases.run_once()
    assert owned.stop_reason() == "canceled", "it is still renewed, and hears what is asked of it"


def test_a_run_that_cannot_be_given_up_costs_no_other_lease(lab: Lab) -> None:
    """It is given up at a later beat; whatever keeps it from that, the worker's other runs are renewed.

    See docs/semantics.md#R12.2.
    """
    lab.apply(workflow("b", "a"), workflow("c", "a"))
    lab.report("a", "1")
    lab.settle()
    leases = LeaseKeeper(lab.store)
    lost, kept = (leases.hold(lab.start(), time.monotonic()) for _ in range(2))
    leases.release(lost)
    before = lab.runs(kept.run.slug)[0]["lease_until"]
    lab.advance(seconds=5)
    with failpoints.armed("give_up:before", crash), pytest.raises(FailpointError):
        leases.run_once()
    assert lab.runs(kept.run.slug)[0]["lease_until"] > before
    leases.run_once()
    assert [lab.runs(one.run.slug)[0]["status"] for one in (lost, kept)] == ["queued", "running"]
