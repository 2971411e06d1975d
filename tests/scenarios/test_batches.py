"""Batches in the store: how they form, and what becomes of their runs (docs/semantics.md#R14.8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from freshline.errors import FencedError, UsageError
from freshline.failpoints import FailpointError, armed, armed_with, drop
from freshline.model.enums import TriggerType
from freshline.model.run import ClaimedRun, StagedOutput
from freshline.model.state import reference
from tests.scenarios.test_backfills import DAYS, KEYS, SOURCE, ask
from tests.scenarios.test_partitions import divided, ran
from tests.store_harness import Lab

OLDEST: dict[str, Any] = {"newest_first": False, "concurrency": 1}


def batched(slug: str, *args: Any, **more: Any) -> dict[str, Any]:
    """Return a workflow whose step may compute several partitions in one run."""
    found = divided(slug, *args, **more)
    found["steps"][0]["batch"] = True
    return found


def days(lab: Lab, *others: dict[str, Any], **more: Any) -> None:
    """Days of raw data, all of them fresh, and what else is given."""
    lab.apply(batched("daily", {"raw": None}, DAYS, **more), *others, sources=(SOURCE, "fx"))
    for key in KEYS:
        lab.report("raw", "v1", partition_key=key)
    lab.report("fx", "v1")
    ran(lab)
    lab.advance(minutes=5)


def start(lab: Lab, batch: int = 3, **more: Any) -> ClaimedRun:
    """Request a backfill with batches, and claim the first one."""
    lab.store.backfills.create(ask("daily", batch=batch, **{**OLDEST, **more}))
    lab.settle()
    return lab.start()


def states(lab: Lab) -> dict[str, str]:
    """Return the status of the last run of each partition."""
    return {run["partition_key"]: run["status"] for run in lab.runs("daily")}


def backfilled(lab: Lab) -> list[dict[str, Any]]:
    """Return the runs of backfills."""
    return [run for run in lab.runs("daily") if run["trigger_type"] == TriggerType.BACKFILL]


def failures(lab: Lab) -> int:
    """Return how many failures are counted."""
    return int(lab.one("SELECT coalesce(sum(failures), 0) FROM workflow_partitions"))


def batches(lab: Lab) -> list[int]:
    """Work until nothing is left, and return how many partitions each run computed."""
    sizes: list[int] = []
    for _ in range(100):
        lab.settle()
        run = lab.claim()
        if run is None:
            return sizes
        sizes.append(len(run.batch) or 1)
        lab.finish(run)
    raise AssertionError("it never stops running")


def test_a_batch_takes_the_next_partitions_in_order(lab: Lab) -> None:
    """Eight days are three runs, each partition is computed once, and each has its own run, version and event."""
    days(lab)
    backfill_id = lab.store.backfills.create(ask("daily", batch=3, **OLDEST))
    found = []
    for _ in range(3):
        lab.settle()
        run = lab.start()
        found.append(run.batch)
        assert lab.claim() is None, "one run at a time"
        lab.finish(run, daily=f"new {len(found)}")
    assert found == [tuple(KEYS[:3]), tuple(KEYS[3:6]), tuple(KEYS[6:])]
    assert batches(lab) == []
    runs = backfilled(lab)
    assert sorted(run["partition_key"] for run in runs) == KEYS
    assert {run["status"] for run in runs} == {"succeeded"}
    assert Counter(run["batch_size"] for run in runs) == {3: 6, 2: 2}
    assert all(set(run["pins"]) == {reference("raw", run["partition_key"])} for run in runs)
    heads = lab.rows("SELECT partition_key, data_version FROM heads WHERE asset_id = 'daily' ORDER BY 1")
    assert [one["data_version"] for one in heads] == ["new 1"] * 3 + ["new 2"] * 3 + ["new 3"] * 2
    for kind in ("started", "succeeded"):
        told = [event["data"]["runId"] for event in lab.events(f"workflow.run.{kind}")]
        assert {str(run["id"]) for run in runs} <= {*told}
    detail = lab.store.backfills.find(backfill_id)
    assert (detail["status"], detail["progress"]["done"]) == ("finished", 8)


def test_the_newest_come_first_and_the_last_batch_is_smaller(lab: Lab) -> None:
    """The order is that of the backfill."""
    days(lab)
    run = start(lab, 5, newest_first=True)
    assert run.batch == tuple(KEYS[3:])
    lab.finish(run)
    assert batches(lab) == [3]


def test_early_cutoff_is_per_partition(lab: Lab) -> None:
    """Of a batch, only the partitions that differ wake what reads them."""
    days(lab, divided("below", {"daily": None}, DAYS))
    run = start(lab)
    changed = {KEYS[1]: "other"}
    heads = {one["partition_key"]: one for one in lab.rows("SELECT * FROM heads WHERE asset_id = 'daily'")}
    lab.store.runs.publish(
        run,
        [
            StagedOutput("daily", "work", changed.get(key, heads[key]["data_version"]), partition_key=key)
            for key in run.batch
        ],
    )
    assert [key for slug, key in ran(lab) if slug == "below"] == [KEYS[1]]


def test_without_a_batch_in_the_request_or_in_the_steps_each_run_has_one_partition(lab: Lab) -> None:
    """An ordinary backfill and automatic runs form no batches; a batch of a workflow without them is refused."""
    days(lab, divided("single", {"raw": None}, DAYS))
    assert not any(run["batch_id"] for run in lab.runs())
    assert start(lab, 1).batch == ()
    with pytest.raises(UsageError, match=r"batch is 3, but step 'work' does not compute several partitions") as caught:
        lab.store.backfills.create(ask("single", batch=3))
    assert "batch: true" in str(caught.value.hint)


def test_pins_that_contradict_are_not_in_one_batch(lab: Lab) -> None:
    """Two partitions that are pinned to different versions of a shared input are computed by two runs."""
    lab.apply(batched("daily", {"raw": None, "fx": None}, DAYS, auto=None), sources=(SOURCE, "fx"))
    for key in KEYS:
        lab.report("raw", "v1", partition_key=key)
    lab.report("fx", "v1")
    lab.store.backfills.create(ask("daily", batch=8, **OLDEST))
    lab.settle()
    pins = "jsonb_set(jsonb_set(pins, '{fx,sequence}', '2'), '{fx,dataVersion}', '\"v2\"')"
    lab.report("fx", "v2")
    lab.rows(f"UPDATE runs SET pins = {pins} WHERE partition_key = ANY (%s) RETURNING 1", KEYS[3:])
    first, second = lab.start(), lab.start()
    assert (first.batch, second.batch) == (tuple(KEYS[:3]), tuple(KEYS[3:]))
    assert first.inputs["fx"].data_version == "v1"
    assert second.inputs["fx"].data_version == "v2"


def test_partitions_that_share_some_of_what_they_read_are_apart(lab: Lab) -> None:
    """Of two sets of input partitions that overlap, a run would see rows that one partition is not pinned to."""
    months = {"time": "month", "start": "2025-12"}
    lab.apply(batched("monthly", {"raw": {"require": "any"}}, months, auto=None), sources=(SOURCE,))
    for key in KEYS:
        lab.report("raw", "v1", partition_key=key)
    lab.advance(days=40)
    lab.store.backfills.create(ask("monthly", batch=8, **OLDEST))
    lab.settle()
    shared = f"jsonb_build_object('{reference('raw', KEYS[0])}', pins -> '{reference('raw', KEYS[4])}')"
    lab.rows(f"UPDATE runs SET pins = pins || {shared} WHERE partition_key = '2026-01' RETURNING 1")
    lab.rows(
        f"UPDATE runs SET pins = jsonb_set(pins, '{{{reference('raw', KEYS[0])},sequence}}', '1') RETURNING 1",
    )
    assert lab.start().batch == ()


@pytest.mark.parametrize("what", ["rescue", "hand back", "give up"])
def test_a_lost_worker_leaves_no_run_of_its_batch_behind(lab: Lab, what: str) -> None:
    """One lease holds all runs; when it ends all are queued again, and only the one that leads has crashed."""
    days(lab)
    run = start(lab)
    assert lab.store.runs.renew_leases([{"id": run.id, "attempt": run.attempt, "progress": None}]) == {
        (run.id, run.attempt): False
    }
    leases = {one["lease_until"] for one in backfilled(lab) if one["status"] == "running"}
    assert len(leases) == 1
    lab.advance(milliseconds=lab.settings.lease_ms + 1)
    match what:
        case "rescue":
            assert lab.store.runs.rescue(10) == 1
        case "hand back":
            lab.store.runs.hand_back(run.id, run.attempt)
        case _:
            lab.store.runs.give_up(run.id, run.attempt)
    assert {one["status"] for one in backfilled(lab)} == {"queued"}
    assert not any(one["batch_id"] for one in backfilled(lab))
    crashed = [one for one in backfilled(lab) if one["crashed"]]
    assert [str(one["id"]) for one in crashed] == ([run.id] if what == "rescue" else [])
    with pytest.raises(FencedError):
        lab.finish(run)
    again = lab.start()
    assert again.batch == run.batch
    lab.finish(again)
    assert batches(lab) == [3, 2]
    assert failures(lab) == 0


def test_a_worker_that_was_lost_does_not_use_what_its_batch_had_finished(lab: Lab) -> None:
    """The next batch may have other partitions, so it begins with its first step."""
    days(lab)
    run = start(lab)
    lab.store.runs.begin_step(run.id, run.attempt, "work", 1)
    staged = [StagedOutput("daily", "work", "v", partition_key=key) for key in run.batch]
    lab.store.runs.finish_step(run.id, run.attempt, "work", 1, outputs=staged)
    lab.store.runs.hand_back(run.id, run.attempt)
    again = lab.start()
    assert (again.id, again.batch, again.finished_steps) == (run.id, run.batch, {})
    lab.store.runs.begin_step(again.id, again.attempt, "work", 1)
    lab.store.runs.finish_step(again.id, again.attempt, "work", 1, outputs=staged)
    lab.store.runs.hand_back(again.id, again.attempt)
    lab.rows("UPDATE backfills SET batch = 1 RETURNING 1")
    alone = lab.start()
    assert (alone.id, alone.batch, alone.finished_steps) == (run.id, (), {})


def test_a_batch_that_fails_is_halved_until_the_bad_partition_is_alone(lab: Lab) -> None:
    """One bad day of eight: the others are published, and only the bad one has a failure, of its own."""
    days(lab)
    lab.store.backfills.create(ask("daily", batch=8, **OLDEST))
    sizes, bad = [], KEYS[5]
    for _ in range(100):
        lab.settle()
        run = lab.claim()
        if run is None:
            if not any(one["status"] == "queued" for one in backfilled(lab)):
                break
            lab.advance(milliseconds=2 * lab.settings.base_backoff_ms)
            continue
        keys = run.batch or (run.partition_key,)
        sizes.append(len(keys))
        if bad in keys:
            lab.fail(run)
            assert failures(lab) == (len(keys) == 1)
        else:
            lab.finish(run)
    assert sizes == [8, 4, 4, 2, 2, 1, 1]
    failed = lab.rows("SELECT partition_key, failures FROM workflow_partitions WHERE failures > 0")
    assert failed == [{"partition_key": bad, "failures": 1}]
    assert {key for key, state in states(lab).items() if state != "succeeded"} == {bad}
    assert len(lab.events("workflow.run.failed")) == 1


def test_a_halved_batch_waits_for_the_shortest_cooldown_and_says_why(lab: Lab) -> None:
    """The runs are queued again at once, with the error in the log of the one that led, and are claimed later."""
    days(lab)
    run = start(lab, 4)
    lab.fail(run, "out of memory")
    assert lab.claim() is None
    lab.advance(milliseconds=1.2 * lab.settings.base_backoff_ms)
    assert len(lab.start().batch) == 2
    assert len(lab.start().batch) == 2
    text = lab.one("SELECT text FROM run_logs WHERE run_id = %s", run.id)
    assert text == (
        "ERROR the batch of 4 partitions failed: boom; it counts as a failure of none of them; they run again, "
        "at most 2 partitions at a time"
    ).replace("boom", "out of memory")


def test_a_batch_that_keeps_losing_its_workers_is_halved(lab: Lab) -> None:
    """R12.2 of a batch: it is not one of its partitions that counts as failed."""
    days(lab)
    run = start(lab, 4)
    for _ in range(lab.settings.max_worker_losses - 1):
        lab.store.runs.hand_back(run.id, run.attempt, crashed=True)
        run = lab.start()
        assert len(run.batch) == 4
    lab.store.runs.hand_back(run.id, run.attempt, crashed=True)
    lab.advance(milliseconds=1.2 * lab.settings.base_backoff_ms)
    assert (len(lab.start().batch), failures(lab)) == (2, 0)


def test_canceling_one_run_stops_its_batch_and_the_others_run_again(lab: Lab) -> None:
    """The worker hears of it through the lease of the run that leads."""
    days(lab)
    run = start(lab)
    other = next(one for one in backfilled(lab) if one["status"] == "running" and str(one["id"]) != run.id)
    assert lab.store.operations.cancel(str(other["id"])) == "running"
    held = [{"id": run.id, "attempt": run.attempt, "progress": None}]
    assert lab.store.runs.renew_leases(held) == {(run.id, run.attempt): True}
    lab.store.runs.cancel(run.id, run.attempt)
    found = {str(one["id"]): one["status"] for one in backfilled(lab)}
    assert Counter(found.values()) == {"queued": 2, "canceled": 1}
    assert found[str(other["id"])] == "canceled"
    assert failures(lab) == 0


def test_killing_a_backfill_ends_all_runs_of_its_batch(lab: Lab) -> None:
    """Without `kill` the batch finishes; with it nothing is published and nothing runs again."""
    days(lab)
    run = start(lab)
    backfill_id = lab.store.backfills.list()[0]["id"]
    lab.store.backfills.cancel(backfill_id, kill=True)
    lab.store.runs.cancel(run.id, run.attempt)
    assert {one["status"] for one in backfilled(lab)} == {"canceled"}
    assert ran(lab) == []
    second = start(lab)
    lab.store.backfills.cancel(lab.store.backfills.list()[0]["id"])
    lab.finish(second)
    assert Counter(one["status"] for one in backfilled(lab)) == {"canceled": 3, "succeeded": 3}


def test_a_batch_takes_one_place_of_the_workflow_of_a_pool_and_of_the_backfill(lab: Lab) -> None:
    """Slots are for what is executed at the same time, and `concurrency` counts batches."""
    lab.apply(
        batched("daily", {"raw": None}, DAYS, auto=None, maxConcurrency=2, pool="db"),
        sources=(SOURCE,),
        pools={"db": 2},
    )
    for key in KEYS:
        lab.report("raw", "v1", partition_key=key)
    lab.store.backfills.create(ask("daily", batch=3, newest_first=False, concurrency=3))
    lab.settle()
    assert [len(lab.start().batch), len(lab.start().batch)] == [3, 3]
    assert lab.claim() is None
    running = [run for run in backfilled(lab) if run["status"] == "running"]
    assert len(running) == 6
    assert sorted(run["slot"] for run in running if run["slot"]) == [1, 2]
    assert sorted(run["concurrency_slot"] for run in running if run["concurrency_slot"]) == [1, 2]


def test_a_batch_publishes_everything_or_nothing(lab: Lab) -> None:
    """An output that is missing in one partition, or an error while it is published, leaves all as it was."""
    days(lab)
    run = start(lab)
    before = lab.rows("SELECT * FROM heads ORDER BY 1, 2")
    outputs = [StagedOutput("daily", "work", "new", based_on=99, partition_key=key) for key in run.batch[1:]]
    with pytest.raises(Exception, match="was moved"):
        lab.store.runs.publish(run, [StagedOutput("daily", "work", "new", partition_key=run.batch[0]), *outputs])
    assert lab.rows("SELECT * FROM heads ORDER BY 1, 2") == before
    assert {one["status"] for one in backfilled(lab)} == {"running"}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("what", ["claim_run", "publish_run", "fail_run", "hand_back", "cancel_running", "rescue"])
def test_a_crash_leaves_all_runs_of_a_batch_in_the_same_state(lab: Lab, what: str, *, after: bool) -> None:
    """Before the commit nothing has happened, after it everything: there is no state in between."""
    days(lab)
    runs = lab.store.runs
    if what == "claim_run":
        lab.store.backfills.create(ask("daily", batch=3, **OLDEST))
        lab.settle()
        run = None
    else:
        run = start(lab)
        lab.advance(milliseconds=lab.settings.lease_ms + 1)
    calls: dict[str, Callable[[], object]] = {
        "claim_run": lab.claim,
        "publish_run": lambda: lab.finish(existing(run)),
        "fail_run": lambda: lab.fail(existing(run)),
        "hand_back": lambda: runs.hand_back(existing(run).id, existing(run).attempt),
        "cancel_running": lambda: runs.cancel(existing(run).id, existing(run).attempt),
        "rescue": lambda: runs.rescue(10),
    }
    ends = {"claim_run": "running", "publish_run": "succeeded"}
    before = {"queued"} if what == "claim_run" else {"running"}
    with armed(f"{what}:{'after' if after else 'before'}", crash), pytest.raises(FailpointError):
        calls[what]()
    assert {one["status"] for one in backfilled(lab)} == ({ends.get(what, "queued")} if after else before)


@pytest.mark.parametrize("what", ["publish_run", "fail_run", "hand_back", "cancel_running"])
def test_the_end_of_a_batch_whose_answer_was_lost_is_looked_up(lab: Lab, what: str) -> None:
    """Also where the run that leads is queued again: it has not failed a second time."""
    days(lab)
    run = start(lab)
    lab.store.operations.cancel(run.id)
    calls: dict[str, Callable[[], object]] = {
        "publish_run": lambda: lab.finish(run),
        "fail_run": lambda: lab.fail(run),
        "hand_back": lambda: lab.store.runs.hand_back(run.id, run.attempt),
        "cancel_running": lambda: lab.store.runs.cancel(run.id, run.attempt),
    }
    with armed_with(f"{what}:after", drop):
        calls[what]()
    assert "running" not in {one["status"] for one in backfilled(lab)}


def crash() -> None:
    """Crash at the failpoint."""
    raise FailpointError("planted")


def existing(run: ClaimedRun | None) -> ClaimedRun:
    """Return a run that was claimed."""
    assert run is not None
    return run
