"""Backfills in the store: what they run, when they are done, and what stops them (docs/semantics.md#R14)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from freshline.errors import ConflictError, NotFoundError, PartitionKeyError, UsageError
from freshline.model.backfill import BackfillPolicy, BackfillRequest, BackfillStatus, Only
from freshline.store.evaluation import load_state
from tests.scenarios.test_partitions import divided, ran
from tests.store_harness import Lab, workflow

SOURCE: dict[str, Any] = {"assetId": "raw", "partitioning": {"time": "day", "start": "2025-12-28"}}
DAYS: dict[str, Any] = {"time": "day", "start": "2025-12-28"}
MONTHS: dict[str, Any] = {"time": "month", "start": "2025-12"}
KEYS = [f"2025-12-{day}" for day in (28, 29, 30, 31)] + [f"2026-01-0{day}" for day in range(1, 5)]
AUTO_OFF: dict[str, Any] = {"auto": None}


def chain(lab: Lab, **more: Any) -> None:
    """Days, days from them, months and a total, all of them fresh."""
    lab.apply(
        divided("clean", {"raw": None}, DAYS, **more),
        divided("daily", {"clean": None}, DAYS, **more),
        divided("monthly", {"daily": {"require": "any"}}, MONTHS, **more),
        divided("total", {"monthly": None}, **more),
        sources=(SOURCE,),
    )
    for key in KEYS:
        lab.report("raw", "v1", partition_key=key)
    ran(lab)
    lab.advance(minutes=5)


def ask(asset_id: str = "clean", **more: Any) -> BackfillRequest:
    """Return a request; what is not a field of it belongs to its policy."""
    own = {name: more.pop(name) for name in ("first", "last", "keys", "upstream", "downstream") if name in more}
    return BackfillRequest(asset_id, policy=BackfillPolicy(**more), **own)


def status(lab: Lab, backfill_id: str) -> str:
    """Return the status of a backfill."""
    return lab.store.backfills.find(backfill_id)["status"]


@pytest.mark.parametrize("newest_first", [True, False])
def test_a_backfill_runs_each_partition_once(lab: Lab, newest_first: bool) -> None:
    """Days through days, months and the total: each runs once, in order, and no month before its days."""
    chain(lab)
    backfill_id = lab.store.backfills.create(ask(downstream=True, newest_first=newest_first, concurrency=1))
    found = ran(lab)
    assert sorted(found) == sorted(
        [("clean", key) for key in KEYS] + [("daily", key) for key in KEYS] + [("monthly", "2025-12"), ("total", "")]
    )
    days = [key for slug, key in found if slug == "clean"]
    assert days == (KEYS[::-1] if newest_first else KEYS)
    assert found.index(("monthly", "2025-12")) > max(found.index(("daily", key)) for key in KEYS[:4])
    assert not any(run["mixed"] for run in lab.runs())
    detail = lab.store.backfills.find(backfill_id)
    assert (detail["status"], detail["progress"]["done"], detail["progress"]["total"]) == ("finished", 18, 18)
    kinds = [
        event["type"] for event in lab.rows("SELECT type FROM events WHERE type LIKE 'backfill.%%' ORDER BY time, id")
    ]
    assert (kinds[0], kinds[-1]) == ("backfill.started", "backfill.finished")
    assert ran(lab) == []


def test_concurrency_limits_queued_and_running_runs(lab: Lab) -> None:
    """Four partitions have their turn, and the rest is in motion as one selection."""
    chain(lab)
    lab.store.backfills.create(ask(concurrency=3))
    lab.settle()
    queued = [run for run in lab.runs("clean") if run["status"] == "queued"]
    assert sorted(run["partition_key"] for run in queued) == KEYS[-3:]
    assert {run["trigger_type"] for run in queued} == {"backfill"}
    lab.finish(lab.start())
    lab.settle()
    active = [run for run in lab.runs("clean") if run["status"] == "queued"]
    assert len(active) == 3
    assert min(run["partition_key"] for run in active) == KEYS[-4]


def test_the_rest_of_a_backfill_is_in_motion(lab: Lab) -> None:
    """A month waits for its days whose turn has not come; those of a paused backfill cannot run."""
    chain(lab)
    backfill_id = lab.store.backfills.create(ask("daily", concurrency=1))
    lab.settle()
    assert moving_above(lab, "monthly", "2025-12") == {("backfill", False)}
    lab.store.backfills.pause(backfill_id)
    lab.settle()
    assert ("backfill", True) in moving_above(lab, "monthly", "2025-12")


def moving_above(lab: Lab, slug: str, partition_key: str) -> set[tuple[str, bool]]:
    """Return the motion of the ancestors of a partition, and whether each cannot run."""
    graph = lab.store.evaluation._graph
    assert graph is not None
    workflow_id = next(number for number, name in graph.slugs.items() if name == slug)
    with lab.database.reading() as connection:
        state = load_state.read(connection, graph, {(workflow_id, partition_key): 0})
    found = state.walk(graph).blockers(workflow_id, [], every=True, partition_key=partition_key)
    return {(one.motion, one.cannot_run) for one in found}


def test_only_a_success_that_started_after_the_request_counts(lab: Lab) -> None:
    """A run that was started before does not satisfy the demand, one that was queued before and started after does."""
    chain(lab)
    for key in KEYS[:2]:
        lab.report("raw", "v2", partition_key=key)
    lab.settle()
    early = lab.start_of("clean")
    lab.advance(seconds=10)
    lab.store.backfills.create(ask(keys=tuple(KEYS[:2])))
    lab.finish(early)
    found = ran(lab)
    other = next(key for key in KEYS[:2] if key != early.partition_key)
    assert [key for slug, key in found if slug == "clean"].count(early.partition_key) == 1
    assert [run["partition_key"] for run in lab.runs("clean")].count(other) == 2


def test_a_success_of_an_older_version_does_not_count(lab: Lab) -> None:
    """The workflow changed before the backfill was requested: a run of the former version leaves the demand open."""
    chain(lab)
    run_id = lab.store.operations.request_run("total")
    old = lab.start()
    assert old.id == run_id
    lab.advance(seconds=10)
    lab.apply(
        divided("clean", {"raw": None}, DAYS),
        divided("daily", {"clean": None}, DAYS),
        divided("monthly", {"daily": {"require": "any"}}, MONTHS),
        divided("total", {"monthly": None}, auto=None),
        sources=(SOURCE,),
    )
    backfill_id = lab.store.backfills.create(ask("total"))
    lab.rows("UPDATE runs SET started_at = %s WHERE id = %s RETURNING id", lab.later(seconds=1), old.id)
    lab.finish(old)
    lab.settle()
    assert status(lab, backfill_id) == "active"
    assert lab.work() == ["total"]
    assert status(lab, backfill_id) == "finished"


def test_a_success_that_read_an_undone_part_does_not_count(lab: Lab) -> None:
    """A manual run of a descendant, before its ancestor had its turn, does not satisfy the demand for it."""
    chain(lab)
    lab.store.backfills.create(ask(keys=(KEYS[0], KEYS[1]), downstream=True, concurrency=1))
    lab.advance(seconds=1)
    lab.store.operations.request_run("total")
    lab.finish(lab.start_of("total"))
    assert ("total", "") in ran(lab)
    assert len(lab.runs("total")) == 3  # the first one, the manual one, and that of the backfill


def test_missing_and_failed_partitions(lab: Lab) -> None:
    """Only those are selected, and nothing selected is an error that says so."""
    lab.apply(divided("clean", {"raw": None}, DAYS, auto=None), sources=(SOURCE,))
    for key in KEYS:
        lab.report("raw", "v1", partition_key=key)
    lab.store.backfills.create(ask(keys=(KEYS[0],)))
    assert ran(lab) == [("clean", KEYS[0])]
    lab.advance(minutes=1)
    lab.store.backfills.create(ask(only=Only.MISSING))
    assert sorted(ran(lab)) == [("clean", key) for key in KEYS[1:]]
    with pytest.raises(UsageError, match="no partition that is missing"):
        lab.store.backfills.create(ask(only=Only.MISSING))
    with pytest.raises(UsageError, match="no partition that is failed"):
        lab.store.backfills.create(ask(only=Only.FAILED))


def test_stale_partitions(lab: Lab) -> None:
    """Those that are up to date are done without a run."""
    chain(lab, auto=None)
    assert lab.runs() == []
    lab.store.backfills.create(ask())
    assert len(ran(lab)) == len(KEYS)
    lab.report("raw", "v2", partition_key=KEYS[2])
    lab.settle()
    lab.advance(minutes=1)
    backfill_id = lab.store.backfills.create(ask(only=Only.STALE))
    assert ran(lab) == [("clean", KEYS[2])]
    assert status(lab, backfill_id) == "finished"


def test_a_dry_run_of_stale_partitions_counts_those(lab: Lab) -> None:
    """One day is stale, and what reads it will be. If none is, the preview says so."""
    chain(lab, auto=None)
    lab.store.backfills.create(ask(downstream=True))
    ran(lab)
    with pytest.raises(UsageError, match="asset 'clean' has no partition that is stale"):
        lab.store.backfills.preview(ask(only=Only.STALE))
    for key in KEYS[2:4]:
        lab.report("raw", "v2", partition_key=key)
    lab.settle()
    before = lab.everything()
    [part] = lab.store.backfills.preview(ask(only=Only.STALE))["parts"]
    assert (part["partitions"], part["runs"], part["first"], part["last"]) == (2, 2, KEYS[3], KEYS[2])
    parts = lab.store.backfills.preview(ask(only=Only.STALE, downstream=True))["parts"]
    assert {one["workflowSlug"]: one["partitions"] for one in parts} == {
        "clean": 2,
        "daily": 2,
        "monthly": 1,
        "total": 1,
    }
    assert lab.everything() == before
    lab.advance(minutes=1)
    lab.store.backfills.create(ask(only=Only.STALE, downstream=True))
    assert ran(lab) == [("clean", KEYS[3]), ("clean", KEYS[2])], "with equal data, so that what reads them is not stale"


def test_the_end_of_a_backfill_is_not_before_a_cooldown(lab: Lab) -> None:
    """Seven of eight days are done after a minute, and the last one failed: it runs again after its cooldown."""
    chain(lab, backoff={"base": "1h"})
    backfill_id = lab.store.backfills.create(ask(concurrency=8))
    lab.settle()
    lab.advance(minutes=1)
    for _ in KEYS[1:]:
        lab.finish(lab.start_of("clean"))
    lab.settle()
    minute = 60_000
    assert lab.store.backfills.find(backfill_id)["etaMs"] == pytest.approx(minute / 7, rel=0.1)
    lab.fail(lab.start_of("clean"))
    lab.settle()
    found = lab.store.backfills.find(backfill_id)
    assert (found["status"], found["progress"]["waiting"]) == ("active", 1)
    assert found["etaMs"] is not None
    assert found["etaMs"] > 30 * minute


def test_the_pace_of_a_backfill_counts_from_its_start(lab: Lab) -> None:
    """It was requested in the evening for the night."""
    chain(lab)
    begins = lab.now + timedelta(hours=5)
    backfill_id = lab.store.backfills.create(ask(not_before=begins, concurrency=8))
    lab.settle()
    lab.advance(hours=5, minutes=1)
    lab.store.backfills.advance()
    lab.settle()
    for _ in KEYS[1:]:
        lab.finish(lab.start_of("clean"))
    lab.settle()
    assert lab.store.backfills.find(backfill_id)["etaMs"] == pytest.approx(60_000 / 7, rel=0.1)


def test_a_paused_backfill_starts_nothing(lab: Lab) -> None:
    """Its queued runs end, and the rest goes on after it is resumed."""
    chain(lab)
    backfill_id = lab.store.backfills.create(ask())
    lab.settle()
    lab.store.backfills.pause(backfill_id)
    assert lab.active() == []
    assert ran(lab) == []
    lab.advance(hours=1)
    assert ran(lab) == []
    lab.store.backfills.resume(backfill_id)
    assert sorted(key for slug, key in ran(lab) if slug == "clean") == KEYS
    assert status(lab, backfill_id) == "finished"


def test_canceling_removes_the_demand_and_its_queued_runs(lab: Lab) -> None:
    """Running ones finish, nothing else runs, and no mark keeps the partitions from running for another cause."""
    chain(lab)
    backfill_id = lab.store.backfills.create(ask())
    lab.settle()
    running = lab.start()
    lab.store.backfills.cancel(backfill_id)
    assert lab.active() == ["clean"]
    lab.finish(running)
    assert ran(lab) == []
    assert status(lab, backfill_id) == "canceled"
    assert lab.rows("SELECT 1 FROM workflow_partitions WHERE canceled IS NOT NULL") == []
    lab.store.backfills.cancel(backfill_id)
    with pytest.raises(ConflictError, match="is canceled"):
        lab.store.backfills.resume(backfill_id)


def test_a_partition_that_fails_too_often_ends_for_the_backfill(lab: Lab) -> None:
    """It does not probe: the backfill finishes without it, and `retry` tries it again."""
    chain(lab)
    backfill_id = lab.store.backfills.create(ask(keys=tuple(KEYS[:2])))
    for _ in range(20):
        lab.settle()
        run = lab.claim()
        if run is None:
            lab.live(hours=2)
            continue
        if run.slug == "clean" and run.partition_key == KEYS[0]:
            lab.fail(run)
        else:
            lab.finish(run)
    detail = lab.store.backfills.find(backfill_id)
    assert (detail["status"], detail["progress"]["failed"], detail["progress"]["done"]) == ("finished", 1, 1)
    assert detail["failures"] == [{"workflowSlug": "clean", "partitionKey": KEYS[0], "state": "failed"}]
    assert lab.store.backfills.retry(backfill_id) == 1
    assert ("clean", KEYS[0]) in ran(lab)
    assert status(lab, backfill_id) == "finished"


def test_an_automatic_cause_moves_a_queued_run_to_its_priority(lab: Lab) -> None:
    """Today's data is never behind last year's."""
    chain(lab)
    lab.store.backfills.create(ask(concurrency=8))
    lab.settle()
    lab.advance(seconds=5)
    lab.report("raw", "v2", partition_key=KEYS[0])
    lab.settle()
    run = lab.start()
    assert (run.slug, run.partition_key) == ("clean", KEYS[0])
    assert run.trigger["type"] == "auto-materialize"


def test_automatic_runs_come_first_and_a_backfill_still_moves(lab: Lab) -> None:
    """A run of a backfill that waited for a minute competes with others, while none of its runs is running."""
    chain(lab)
    lab.apply(workflow("other", "news", auto={"onUpstreamUpdate": True, "priority": 1000}), name="news")
    lab.store.backfills.create(ask())
    lab.settle()
    lab.report("news", "v1")
    lab.settle()
    run = lab.claim(name="news")
    assert run is not None
    urgencies = {one["slug"]: one["urgency"] for one in lab.runs() if one["status"] == "queued"}
    lab.finish(run)
    assert urgencies["clean"] > 1e9 + lab.now.timestamp() - 1000
    lab.advance(minutes=2)
    lab.settle()
    hurried = [one for one in lab.runs("clean") if one["status"] == "queued" and one["urgency"] < 3e9 - 1e9]
    assert len(hurried) == 1


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        (ask("nothing"), NotFoundError, "asset 'nothing' does not exist"),
        (ask("raw"), UsageError, "is a source"),
        (ask(keys=("2026-01-09",)), PartitionKeyError, "does not exist before"),
        (ask(keys=("yesterday",)), PartitionKeyError, "allowed are keys such as"),
        (ask(first="2026-02-01"), UsageError, "nothing is selected"),
        (ask(first="2025-12-28", keys=("2025-12-28",)), UsageError, "use one of them"),
        (ask("total", keys=("2025-12-28",)), UsageError, "has no partitions"),
        (ask(concurrency=0), UsageError, "concurrency is 0; allowed are 1 to"),
    ],
)
def test_a_request_that_cannot_be_stores_nothing(
    lab: Lab, request_: BackfillRequest, error: type[Exception], words: str
) -> None:
    """The error says what is allowed."""
    chain(lab)
    before = lab.everything()
    with pytest.raises(error, match=words):
        lab.store.backfills.create(request_)
    with pytest.raises(error, match=words):
        lab.store.backfills.preview(request_)
    assert lab.everything() == before


def test_a_backfill_of_a_million_partitions_is_refused(lab: Lab) -> None:
    """The error says how many are allowed."""
    minutes = {"time": "minute", "start": "2024-01-01"}
    lab.apply(divided("ticks", {"raw": {"overlap": "whole"}}, minutes, auto=None), sources=(SOURCE,))
    with pytest.raises(UsageError, match="more than 100,000 partitions"):
        lab.store.backfills.create(ask("ticks"))


def test_what_users_see(lab: Lab) -> None:
    """A preview, a list and one backfill with its progress."""
    chain(lab)
    preview = lab.store.backfills.preview(ask(downstream=True))
    assert [(part["workflowSlug"], part["partitions"]) for part in preview["parts"]] == [
        ("clean", 8),
        ("daily", 8),
        ("monthly", 1),
        ("total", 1),
    ]
    first = lab.store.backfills.create(ask(), key="one")
    assert lab.store.backfills.create(ask(), key="one") == first
    lab.settle()
    [shown] = lab.store.backfills.list(statuses=[BackfillStatus.ACTIVE])
    assert shown["progress"]["queued"] == 4
    assert shown["progress"]["rest"] == 4
    with pytest.raises(NotFoundError, match="does not exist"):
        lab.store.backfills.find("nothing")


def test_only_what_is_computed_from_an_asset_is_missing(lab: Lab) -> None:
    """The asset has all of its partitions, and two of its consumers have none: the backfill computes theirs."""
    consumers = [divided(slug, {"clean": None}, DAYS, **AUTO_OFF) for slug in ("left", "right")]
    lab.apply(divided("clean", {"raw": None}, DAYS), *consumers, sources=(SOURCE,))
    for key in KEYS:
        lab.report("raw", "v1", partition_key=key)
    ran(lab)
    request = ask(downstream=True, only=Only.MISSING)
    assert [part["workflowSlug"] for part in lab.store.backfills.preview(request)["parts"]] == ["left", "right"]
    backfill_id = lab.store.backfills.create(request)
    assert sorted(ran(lab)) == [(slug, key) for slug in ("left", "right") for key in KEYS]
    detail = lab.store.backfills.find(backfill_id)
    assert (detail["status"], detail["selection"]) == ("finished", "nothing")


def test_a_demand_without_partitions_does_not_wait_for_what_began_later(lab: Lab) -> None:
    """An ancestor runs for a report that came after the request: the backfill of its consumer does not wait for it."""
    lab.apply(workflow("first", "news"), workflow("second", "first", auto=None))
    lab.report("news", "v1")
    ran(lab)
    lab.advance(minutes=1)
    backfill_id = lab.store.backfills.create(ask("second", not_before=lab.later(seconds=10)))
    lab.advance(seconds=10)
    lab.report("news", "v2")
    lab.store.evaluation.consume_inbox(100)
    while lab.reconciler.run_once():  # the run of the ancestor is queued before the turn is given
        pass
    assert lab.active() == ["first"]
    lab.settle()
    assert lab.active() == ["first", "second"]
    assert status(lab, backfill_id) == "active"
