"""Pairs of concurrent transactions, held at critical points: no lost update, no deadlock, one winner."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from freshline import failpoints
from freshline.errors import FencedError
from freshline.model.run import ClaimedRun, StagedOutput
from freshline.services.reconciler import evaluate
from freshline.store.apply import write
from freshline.store.evaluation import load_state, timers
from freshline.store.evaluation.load_state import BatchState
from freshline.store.runs import finish as ending
from tests.store_harness import Lab, laboratory, workflow
from tests.waiting import wait_until

T = TypeVar("T")
HOUR = 3_600_000
TIMEOUT_S = 20


class Gate:
    """A point where one thread, the visitor, stops until it is opened; others pass."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.visitor: threading.Thread | None = None

    def __call__(self) -> None:
        """Stop the visitor."""
        if threading.current_thread() is self.visitor:
            self.reached.set()
            assert self.opened.wait(TIMEOUT_S)


class Stage:
    """The lab and the threads of one interleaving."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._pool = ThreadPoolExecutor(8)

    def begin(self, act: Callable[[], T]) -> Future[T]:
        """Call it in another thread."""
        return self._pool.submit(act)

    def until_blocked(self, future: Future[T], *, many: int = 1) -> None:
        """Wait until the transaction waits for another session's lock."""
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        wait_until(lambda: self.lab.one(waiting) >= many or future.done(), TIMEOUT_S, what="a wait for a lock")
        assert not future.done(), f"it did not have to wait: {future}"

    @contextmanager
    def held_in(self, gate: Gate, act: Callable[[], T]) -> Iterator[Future[T]]:
        """Hold `act` at the gate while the block lasts; it must succeed afterwards."""

        def visit() -> T:
            gate.visitor = threading.current_thread()
            return act()

        future = self.begin(visit)
        wait_until(lambda: gate.reached.is_set() or future.done(), TIMEOUT_S, what="the gate")
        assert gate.reached.is_set(), f"it never came to the gate: {future}"
        try:
            yield future
        finally:
            gate.opened.set()
        future.result(TIMEOUT_S)

    @contextmanager
    def uncommitted(self, name: str, act: Callable[[], T]) -> Iterator[Future[T]]:
        """Hold the transaction `name` just before its commit while the block lasts."""
        gate = Gate()
        with failpoints.armed(f"{name}:before", gate), self.held_in(gate, act) as future:
            yield future

    def close(self) -> None:
        """Wait for all threads."""
        self._pool.shutdown()


@pytest.fixture
def stage(database_url: str) -> Iterator[Stage]:
    """Yield a source a -> b -> c; at the end no stale workflow may be forgotten (docs/semantics.md#R4.1)."""
    with laboratory(database_url) as lab:
        stage = Stage(lab)
        lab.apply(workflow("b", "a"), workflow("c", "b"))
        lab.report("a", "1")
        lab.work()
        yield stage
        stage.close()
        assert lab.forgotten() == 0
        lab.work()
        assert lab.state("b")["consumed_versions"]["a"]["dataVersion"] == lab.head("a")["data_version"]


def noted(stage: Stage) -> None:
    """Make a consideration of b due."""
    stage.lab.report("a", "2")
    stage.lab.store.evaluation.consume_inbox(10)


def running(stage: Stage) -> ClaimedRun:
    """Start a run of b."""
    noted(stage)
    stage.lab.settle()
    return stage.lab.start()


def output(version: str = "v2") -> list[StagedOutput]:
    """Return the output of a run of b."""
    return [StagedOutput("b", "work", version)]


def test_an_update_between_claim_and_read_is_read(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What commits after the claim and before the read is pinned (docs/semantics.md#R6.2)."""
    lab, read = stage.lab, load_state.read
    noted(stage)

    def late(*arguments: Any) -> BatchState:
        lab.report("a", "3")
        return read(*arguments)

    monkeypatch.setattr(load_state, "read", late)
    lab.reconciler.run_once()
    assert lab.reads("b")[-1] == {"a": "3"}


def test_an_update_after_the_read_is_looked_at_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that is absorbed while its workflow is being decided waits for that decision, then counts.

    See docs/semantics.md#R6.2.
    """
    lab, read = stage.lab, load_state.read
    noted(stage)
    absorbed: list[Future[int]] = []

    def early(*arguments: Any) -> BatchState:
        moment = read(*arguments)
        if not absorbed:
            lab.report("a", "3")
            absorbed.append(stage.begin(lambda: lab.store.evaluation.consume_inbox(10)))
            stage.until_blocked(absorbed[0])
        return moment

    monkeypatch.setattr(load_state, "read", early)
    lab.reconciler.run_once()
    assert absorbed[0].result(TIMEOUT_S) == 1
    assert lab.reads("b")[-1] == {"a": "2"}
    lab.settle()
    assert lab.reads("b")[-1] == {"a": "3"}, "the queued run was renewed"


def test_an_update_is_not_lost_to_a_decision_that_finds_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/semantics.md#R6.2, the planted bug: a decision on old heads must not delete the note of a newer event."""
    lab, read = stage.lab, load_state.read
    key = lab.one("SELECT id FROM workflows WHERE slug = 'b'")
    lab.store.operations.resume("b")
    lab.store.evaluation.consume_inbox(10)
    assert lab.one("SELECT count(*) FROM considerations WHERE workflow_id = %s", key) == 1
    absorbed: list[Future[int]] = []

    def early(*arguments: Any) -> BatchState:
        moment = read(*arguments)
        if not absorbed:
            lab.report("a", "2")
            absorbed.append(stage.begin(lambda: lab.store.evaluation.consume_inbox(10)))
            wait_until(lambda: absorbed[0].done() or lab.one("SELECT count(*) FROM pg_locks WHERE NOT granted"))
        return moment

    monkeypatch.setattr(load_state, "read", early)
    lab.reconciler.run_once()
    absorbed[0].result(TIMEOUT_S)
    assert lab.forgotten() == 0
    assert lab.work() == ["b", "c"]


def test_an_update_while_a_decision_commits_is_not_lost(stage: Stage) -> None:
    """Absorb against reconcile on one row: the note comes after the decision and survives it."""
    noted(stage)
    with stage.uncommitted("reconcile", stage.lab.reconciler.run_once):
        stage.lab.report("a", "3")
        absorbing = stage.begin(lambda: stage.lab.store.evaluation.consume_inbox(10))
        stage.until_blocked(absorbing)
    assert absorbing.result(TIMEOUT_S) == 1
    assert stage.lab.one("SELECT count(*) FROM considerations") == 1
    stage.lab.settle()
    assert stage.lab.reads("b")[-1] == {"a": "3"}


def test_a_row_that_is_being_noted_is_left_for_later(stage: Stage) -> None:
    """Absorb against reconcile: a reconciler does not wait for a note that is being written."""
    noted(stage)
    stage.lab.report("a", "3")
    with stage.uncommitted("absorb", lambda: stage.lab.store.evaluation.consume_inbox(10)):
        assert nothing_due(stage)
    stage.lab.settle()
    assert stage.lab.reads("b")[-1] == {"a": "3"}


def test_an_unchanged_input_is_not_lost_to_a_decision(stage: Stage) -> None:
    """A round that becomes complete while it is found incomplete is looked at again at once.

    See docs/semantics.md#R9.3, docs/semantics.md#R11.4.
    """
    rounds = workflow("r", "x y", auto={"onUpstreamUpdate": True, "when": "all"})
    stage.lab.apply(workflow("b", "a"), workflow("c", "b"), rounds)
    stage.lab.report("x", "1")
    stage.lab.report("y", "1")
    assert stage.lab.work() == ["r"]
    stage.lab.report("x", "2")
    stage.lab.store.evaluation.consume_inbox(10)
    with stage.uncommitted("reconcile", stage.lab.reconciler.run_once):
        stage.lab.report("y", "1")
        absorbing = stage.begin(lambda: stage.lab.store.evaluation.consume_inbox(10))
        stage.until_blocked(absorbing)
    absorbing.result(TIMEOUT_S)
    assert stage.lab.work() == ["r"]


def test_two_reconcilers_never_decide_the_same(stage: Stage) -> None:
    """SKIP LOCKED: the second one takes what is left, or nothing."""
    noted(stage)
    with stage.uncommitted("reconcile", stage.lab.reconciler.run_once):
        assert nothing_due(stage)
        stage.lab.store.operations.resume("c")
        stage.lab.store.evaluation.consume_inbox(10)
        with stage.lab.store.evaluation.batch(10) as batch:
            assert batch is not None
            decisions = evaluate(batch.graph, batch.state, stage.lab.settings)
            batch.write(decisions)
        assert len(decisions.done) + len(decisions.holds) == 1
    assert stage.lab.active() == ["b"]


def test_a_moved_asset_waits_for_its_publisher(stage: Stage) -> None:
    """Publish against apply: what is being published is published whole, then the owner changes."""
    run = running(stage)
    with stage.uncommitted("publish_run", lambda: stage.lab.store.runs.publish(run, output())) as publishing:
        moving = stage.begin(lambda: stage.lab.apply(workflow("n", "a", outputs=["b"]), workflow("c", "b")))
        stage.until_blocked(moving)
    assert publishing.result() == ["b"]
    assert moving.result(TIMEOUT_S).retired == ["b"]
    assert stage.lab.head("b")["data_version"] == "v2"
    stage.lab.apply(workflow("b", "a"), workflow("c", "b"))


def test_a_publisher_finds_that_its_asset_moved(stage: Stage) -> None:
    """Publish against apply: the former owner waits for the new definitions and publishes nothing.

    See docs/semantics.md#R10.2.
    """
    run = running(stage)
    moved = (workflow("n", "a", outputs=["b"]), workflow("c", "b"))
    with stage.uncommitted("apply", lambda: stage.lab.apply(*moved)):
        publishing = stage.begin(lambda: stage.lab.store.runs.publish(run, output()))
        stage.until_blocked(publishing)
    assert publishing.result(TIMEOUT_S) == []
    assert stage.lab.head("b")["sequence"] == 1
    stage.lab.apply(workflow("b", "a"), workflow("c", "b"))


def test_a_publisher_uses_the_freshness_that_was_just_applied(stage: Stage) -> None:
    """Publish against apply: a freshness edit is not undone by a run that was waiting for it."""
    run = running(stage)
    edited = (workflow("b", "a", freshness={"ttlMs": HOUR}), workflow("c", "b"))
    with stage.uncommitted("apply", lambda: stage.lab.apply(*edited)):
        publishing = stage.begin(lambda: stage.lab.store.runs.publish(run, output()))
        stage.until_blocked(publishing)
    assert publishing.result(TIMEOUT_S) == ["b"]
    assert stage.lab.one("SELECT due_at FROM timers") == stage.lab.now + timedelta(hours=1)


def test_apply_and_publish_do_not_deadlock(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both take assets before the workflow's own row, also when there are failures to forget.

    See docs/semantics.md#R11.2.
    """
    noted(stage)
    stage.lab.settle()
    stage.lab.fail(stage.lab.start())
    stage.lab.advance(minutes=5)
    stage.lab.settle()
    run, gate, record = stage.lab.start(), Gate(), ending.record_success

    def slow(*arguments: Any, **more: Any) -> Any:
        gate()
        return record(*arguments, **more)

    monkeypatch.setattr("freshline.store.runs.success.record_success", slow)
    with stage.held_in(gate, lambda: stage.lab.store.runs.publish(run, output())):
        applying = stage.begin(lambda: stage.lab.apply(workflow("b", "a", entrypoint="jobs:x"), workflow("c", "b")))
        stage.until_blocked(applying)
    assert applying.result(TIMEOUT_S).changed == ["b"]


def test_apply_and_timers_do_not_deadlock(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A firing timer holds its row while its event refers to an asset that apply is changing.

    See docs/semantics.md#R11.2.
    """
    timed = (workflow("b", "a", freshness={"ttlMs": HOUR}), workflow("c", "b"))
    stage.lab.apply(*timed)
    stage.lab.advance(hours=2)
    gate, fire = Gate(), timers._fire

    def slow(*arguments: Any, **named: Any) -> Any:
        gate()
        return fire(*arguments, **named)

    monkeypatch.setattr(timers, "_fire", slow)
    with stage.held_in(gate, lambda: stage.lab.store.evaluation.fire_timers(10)) as firing:
        applying = stage.begin(lambda: stage.lab.apply(workflow("b", "a", freshness={"ttlMs": 3 * HOUR}), timed[1]))
        stage.until_blocked(applying)
    assert firing.result() == 1
    assert applying.result(TIMEOUT_S).changed == ["b"]


def test_apply_and_absorb_do_not_deadlock(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply locks or makes all considerations in key order before an absorber can note some of them.

    See docs/semantics.md#R11.2.
    """
    both = [workflow(slug, "a") for slug in "bd"]
    stage.lab.apply(*both, workflow("c", "b"))
    stage.lab.work()
    stage.lab.store.operations.resume("d")
    stage.lab.store.evaluation.consume_inbox(10)
    stage.lab.report("a", "2")
    gate, save = Gate(), write._save_workflows

    def slow(*arguments: Any) -> list[int]:
        gate()
        return save(*arguments)

    monkeypatch.setattr(write, "_save_workflows", slow)
    changed = [workflow(slug, "a", auto={"onUpstreamUpdate": True, "priority": 1}) for slug in "bd"]
    with stage.held_in(gate, lambda: stage.lab.apply(*changed, workflow("c", "b"))):
        absorbing = stage.begin(lambda: stage.lab.store.evaluation.consume_inbox(10))
        stage.until_blocked(absorbing)
    assert absorbing.result(TIMEOUT_S) == 1
    assert sorted(stage.lab.work()) == ["b", "c", "d"]


def test_apply_ends_the_run_that_was_just_decided(stage: Stage) -> None:
    """Apply against reconcile: it waits for the decision, ends what was queued, and the new definition runs once."""
    noted(stage)
    changed = (workflow("b", "a", entrypoint="jobs:other"), workflow("c", "b"))
    with stage.uncommitted("reconcile", stage.lab.reconciler.run_once):
        applying = stage.begin(lambda: stage.lab.apply(*changed))
        stage.until_blocked(applying)
    applying.result(TIMEOUT_S)
    assert [run["status"] for run in stage.lab.runs("b")] == ["succeeded", "canceled"]
    assert stage.lab.work() == ["b", "c"]


def test_nobody_decides_on_definitions_that_are_being_changed(stage: Stage) -> None:
    """Apply against reconcile: rows of changing workflows are left alone until the new definitions are there."""
    noted(stage)
    changed = (workflow("b", "a", entrypoint="jobs:other"), workflow("c", "b"))
    with stage.uncommitted("apply", lambda: stage.lab.apply(*changed)):
        assert nothing_due(stage)
    stage.lab.settle()
    assert stage.lab.runs("b")[-1]["version"] == 2


def test_a_pause_ends_the_run_that_was_just_decided(stage: Stage) -> None:
    """Pause against reconcile: no automatic run slips through between the decision and the pause.

    See docs/semantics.md#R8.3.
    """
    noted(stage)
    with stage.uncommitted("reconcile", stage.lab.reconciler.run_once):
        pausing = stage.begin(lambda: stage.lab.store.operations.pause("b"))
        stage.until_blocked(pausing)
    pausing.result(TIMEOUT_S)
    assert stage.lab.work() == []
    assert stage.lab.runs("b")[-1]["cancel_reason"] == "paused"
    stage.lab.store.operations.resume("b")


def test_a_pause_and_an_apply_do_not_deadlock(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both go from considerations to runs to workflows (docs/semantics.md#R11.2)."""
    noted(stage)
    stage.lab.settle()
    gate, save = Gate(), write._save_workflows

    def slow(*arguments: Any) -> list[int]:
        gate()
        return save(*arguments)

    monkeypatch.setattr(write, "_save_workflows", slow)
    changed = (workflow("b", "a", entrypoint="jobs:other"), workflow("c", "b"))
    with stage.held_in(gate, lambda: stage.lab.apply(*changed)):
        pausing = stage.begin(lambda: stage.lab.store.operations.pause("b"))
        stage.until_blocked(pausing)
    pausing.result(TIMEOUT_S)
    stage.lab.settle()
    assert stage.lab.reason("b") == "paused"
    stage.lab.store.operations.resume("b")


def test_a_run_that_is_being_published_is_not_rescued(stage: Stage) -> None:
    """Publish against rescue, the lease is over: the publisher has the row, so it wins."""
    run = running(stage)
    stage.lab.advance(minutes=1)
    with stage.uncommitted("publish_run", lambda: stage.lab.store.runs.publish(run, output())):
        assert stage.lab.store.runs.rescue(10) == 0
    assert stage.lab.store.runs.rescue(10) == 0
    assert stage.lab.runs("b")[-1]["status"] == "succeeded"


def test_a_run_that_is_being_rescued_is_not_published(stage: Stage) -> None:
    """Publish against rescue: the rescuer has the row, so the publisher is fenced and another attempt goes on."""
    run = running(stage)
    stage.lab.advance(minutes=1)
    with stage.uncommitted("rescue", lambda: stage.lab.store.runs.rescue(10)):
        publishing = stage.begin(lambda: stage.lab.store.runs.publish(run, output()))
        stage.until_blocked(publishing)
    with pytest.raises(FencedError):
        publishing.result(TIMEOUT_S)
    assert stage.lab.head("b")["sequence"] == 1
    assert stage.lab.work()[0] == "b"


def test_a_renewal_and_a_rescue_exclude_each_other(stage: Stage) -> None:
    """Renew against rescue: whoever is first decides, and the worker learns it."""
    run = running(stage)
    held = [{"id": run.id, "attempt": run.attempt}]
    stage.lab.advance(minutes=1)
    with stage.uncommitted("renew_leases", lambda: stage.lab.store.runs.renew_leases(held)) as renewing:
        assert stage.lab.store.runs.rescue(10) == 0
    assert renewing.result() == {(run.id, run.attempt): False}
    assert stage.lab.store.runs.rescue(10) == 0
    stage.lab.advance(minutes=1)
    with stage.uncommitted("rescue", lambda: stage.lab.store.runs.rescue(10)):
        late = stage.begin(lambda: stage.lab.store.runs.renew_leases(held))
        stage.until_blocked(late)
    assert late.result(TIMEOUT_S) == {}
    stage.lab.work()


def test_a_cancellation_meets_a_claim(stage: Stage) -> None:
    """Cancel against claim: it waits, finds the run running, and asks its worker to end it."""
    noted(stage)
    stage.lab.settle()
    run_id = str(stage.lab.runs("b")[-1]["id"])
    with stage.uncommitted("claim_run", stage.lab.claim) as claiming:
        canceling = stage.begin(lambda: stage.lab.store.operations.cancel(run_id))
        stage.until_blocked(canceling)
    assert canceling.result(TIMEOUT_S) == "running"
    run = claiming.result()
    assert run is not None
    assert stage.lab.store.runs.renew_leases([{"id": run_id, "attempt": run.attempt}]) == {(run_id, run.attempt): True}
    stage.lab.store.runs.cancel(run_id, run.attempt)
    stage.lab.store.operations.reset("b")


def test_a_run_that_is_being_canceled_is_not_claimed(stage: Stage) -> None:
    """Cancel against claim: a worker passes by what somebody else has locked."""
    noted(stage)
    stage.lab.settle()
    run_id = str(stage.lab.runs("b")[-1]["id"])
    with stage.uncommitted("cancel", lambda: stage.lab.store.operations.cancel(run_id)):
        assert stage.lab.claim() is None
    assert stage.lab.claim() is None
    stage.lab.store.operations.reset("b")


def test_a_queued_run_that_starts_is_not_renewed(stage: Stage) -> None:
    """Reconcile against claim: a run that a worker has begun keeps its pins; the update gets another run.

    See docs/semantics.md#R6.3.
    """
    noted(stage)
    stage.lab.settle()
    stage.lab.report("a", "3")
    stage.lab.store.evaluation.consume_inbox(10)
    with stage.uncommitted("claim_run", stage.lab.claim) as claiming:
        reconciling = stage.begin(stage.lab.reconciler.run_once)
        stage.until_blocked(reconciling)
    reconciling.result(TIMEOUT_S)
    run = claiming.result()
    assert run is not None
    assert run.inputs["a"].data_version == "2"
    assert stage.lab.reads("b")[-1] == {"a": "2"}
    stage.lab.finish(run)
    stage.lab.work()
    assert stage.lab.reads("b")[-2:] == [{"a": "2"}, {"a": "3"}]


def test_an_expiry_that_fires_during_a_publication_is_over(stage: Stage) -> None:
    """A timer that fires while its asset is being published causes no other run (docs/scenarios.md#scenario-32)."""
    timed = (workflow("b", "a", freshness={"ttlMs": HOUR}), workflow("c", "b"))
    stage.lab.apply(*timed)
    run = running(stage)
    stage.lab.advance(hours=2)
    with stage.uncommitted("fire_timers", lambda: stage.lab.store.evaluation.fire_timers(10)):
        publishing = stage.begin(lambda: stage.lab.store.runs.publish(run, output()))
        stage.until_blocked(publishing)
    publishing.result(TIMEOUT_S)
    assert stage.lab.work() == ["c"]


def test_two_reports_of_one_asset_are_both_counted(stage: Stage) -> None:
    """Report against report: the second one waits and gets the next sequence."""
    with stage.uncommitted("report", lambda: stage.lab.report("a", "2")):
        second = stage.begin(lambda: stage.lab.report("a", "3"))
        stage.until_blocked(second)
    assert second.result(TIMEOUT_S)["version"] == 3
    assert stage.lab.head("a")["data_version"] == "3"


@pytest.mark.parametrize("key", [None, "k"])
def test_two_first_reports_at_once(stage: Stage, key: str | None) -> None:
    """Report against report before there is any head: with a key one is the duplicate, without both count."""
    stage.lab.apply(workflow("b", "a"), workflow("c", "b"), workflow("n", "fresh"))
    with stage.uncommitted("report", lambda: stage.lab.report("fresh", "1", key=key)):
        second = stage.begin(lambda: stage.lab.report("fresh", "1", key=key))
        stage.until_blocked(second)
    assert second.result(TIMEOUT_S)["duplicate"] is (key is not None)
    assert stage.lab.one("SELECT count(*) FROM snapshots WHERE asset_id = 'fresh'") == (1 if key else 2)
    assert stage.lab.work() == ["n"]


def test_two_requests_with_one_key_are_one_run(stage: Stage) -> None:
    """Request against request: the second one waits and returns the first one's run."""
    with stage.uncommitted("request_run", lambda: stage.lab.store.operations.request_run("b", key="k")) as first:
        second = stage.begin(lambda: stage.lab.store.operations.request_run("b", key="k"))
        stage.until_blocked(second)
    assert second.result(TIMEOUT_S) == first.result()


def test_absorbers_with_the_same_consumers_do_not_deadlock(stage: Stage) -> None:
    """Many events for overlapping consumers, four absorbers: every note is written, in key order.

    See docs/semantics.md#R11.2.
    """
    slugs = [f"w{number:03}" for number in range(120)]
    manual = {"enabled": False}
    stage.lab.apply(workflow("b", "a"), workflow("c", "b"), *(workflow(slug, "x y z a", auto=manual) for slug in slugs))
    stage.lab.settle()
    for number in range(24):
        stage.lab.report("xyza"[number % 4], f"{number}")
    begin = threading.Barrier(4)

    def absorb() -> int:
        begin.wait()
        return sum(iter(lambda: stage.lab.store.evaluation.consume_inbox(1), 0))

    assert sum(future.result(60) for future in [stage.begin(absorb) for _ in range(4)]) == 24
    assert stage.lab.one("SELECT count(*) FROM considerations") == len(slugs) + 1


def test_relays_stamp_each_event_once(stage: Stage) -> None:
    """Relays that take turns give every event one position and never change it (docs/semantics.md#R11.5)."""
    for number in range(40):
        stage.lab.report("a", f"{number}")
    seen: dict[str, int] = {}
    begin = threading.Barrier(4)

    def stamp() -> None:
        begin.wait()
        for _ in range(30):
            stage.lab.store.events.stamp_positions(3)
            rows = stage.lab.rows("SELECT id::text, position FROM events WHERE position IS NOT NULL")
            for row in rows:
                assert seen.setdefault(row["id"], row["position"]) == row["position"]

    for future in [stage.begin(stamp) for _ in range(4)]:
        future.result(60)
    while stage.lab.store.events.stamp_positions(100):
        pass
    positions = [row["position"] for row in stage.lab.rows("SELECT position FROM events")]
    assert len(set(positions)) == len(positions)
    assert None not in positions


def nothing_due(stage: Stage) -> bool:
    """Return whether a reconciler finds nothing to claim now."""
    with stage.lab.store.evaluation.batch(10) as batch:
        return batch is None
