"""Proposals: what needs an approval, and what approval and denial do (docs/semantics.md#R14.7)."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from freshline.errors import ConflictError
from freshline.model.backfill import BackfillStatus
from freshline.model.documents.backfill import BackfillDetail
from tests.scenarios.test_partitions import divided, ran
from tests.store_harness import Lab, project, workflow

COUNT = 31
NEWEST = date(2026, 1, 4)
DAYS = [str(NEWEST - timedelta(days=number)) for number in range(COUNT)]  # the newest first
PARTITIONING: dict[str, Any] = {"time": "day", "start": DAYS[-1]}
SOURCE: dict[str, Any] = {"assetId": "raw", "partitioning": PARTITIONING}
LIMIT = 10


def auto(limit: int = LIMIT, beyond: str = "propose", **more: Any) -> dict[str, Any]:
    """Return an `autoMaterialize` block with a limit."""
    return {"onUpstreamUpdate": True, "partitions": {"limit": limit, "beyond": beyond}, **more}


def daily(job: str = "jobs:one", *, consumes: tuple[str, ...] = ("raw", "rates"), **more: Any) -> dict[str, Any]:
    """Return the workflow of days, which also reads an asset without partitions."""
    own = {name: more.pop(name) for name in ("quietHours",) if name in more}
    return divided("daily", dict.fromkeys(consumes), PARTITIONING, auto=auto(**more), entrypoint=job, **own)


def built(lab: Lab, **more: Any) -> None:
    """Let every day have been computed, more than 24 hours ago."""
    lab.apply(daily(limit=1000, **more), sources=(SOURCE, "rates"))
    lab.report("rates", "r1")
    for key in DAYS:
        lab.report("raw", "v1", partition_key=key)
    assert len(ran(lab)) == COUNT
    lab.apply(daily(**more), sources=(SOURCE, "rates"))
    assert ran(lab) == []
    lab.advance(seconds=1)
    lab.rows("UPDATE runs SET queued_at = queued_at - interval '25 h' RETURNING 1")


def proposals(lab: Lab) -> list[BackfillDetail]:
    """Return the open proposals."""
    found = lab.store.backfills.list(statuses=[BackfillStatus.PROPOSED])
    return [lab.store.backfills.find(one["id"]) for one in found]


def sizes(found: BackfillDetail) -> dict[str, int]:
    """Return how many partitions of each workflow a backfill has."""
    return {part["workflowSlug"]: part["total"] for part in found["parts"]}


def reason(found: BackfillDetail) -> dict[str, Any]:
    """Return the first reason of a proposal."""
    assert found["reasons"]
    return found["reasons"][0]


def status(lab: Lab, backfill_id: str) -> str:
    """Return the status of a backfill."""
    return lab.store.backfills.find(backfill_id)["status"]


def held(lab: Lab) -> list[str]:
    """Return the partitions that are held for an approval, the newest first."""
    rows = lab.rows("SELECT partition_key FROM considerations WHERE hold = 'backfill-proposed' ORDER BY 1 DESC")
    return [row["partition_key"] for row in rows]


def test_old_partitions_beyond_the_limit_are_proposed(lab: Lab) -> None:
    """The newest runs, none of the others, and one proposal lists them with what made them stale."""
    built(lab)
    lab.report("rates", "r2")
    assert ran(lab) == [("daily", DAYS[0])]
    [found] = proposals(lab)
    assert sizes(found) == {"daily": COUNT - 1}
    assert found["revision"] == 1
    assert found["reasons"] == [
        {"workflowSlug": "daily", "assetId": "rates", "dataVersion": "r2", "partitions": COUNT - 1}
    ]
    assert len(lab.events("backfill.proposed")) == 1
    lab.live(hours=30)
    assert lab.active() == []
    assert held(lab) == DAYS[1:]


def filled_first(lab: Lab) -> None:
    """Let all days arrive before any was computed, above a window of three days and a total."""
    window = {"daily": {"window": {"from": -2, "to": 0}, "require": "any"}}
    lab.apply(
        daily(),
        divided("weekly", window, PARTITIONING, auto=auto(1000)),
        divided("total", {"daily": None}),
        sources=(SOURCE, "rates"),
    )
    lab.report("rates", "r1")
    for key in DAYS:
        lab.report("raw", "v1", partition_key=key)
    ran(lab)


def test_a_first_fill_beyond_the_limit_is_no_mix(lab: Lab) -> None:
    """The days that are held never had data: a window and a total of those that exist read one generation."""
    filled_first(lab)
    assert held(lab) == DAYS[1:]
    assert [run["partition_key"] for run in lab.runs("weekly")] == [DAYS[0]]
    assert [run["pins"].keys() for run in lab.runs("total")] == [{f"daily@{DAYS[0]}"}]
    assert not any(run["mixed"] for run in lab.runs())


def test_a_held_day_with_data_still_makes_a_mix(lab: Lab) -> None:
    """One of the days was computed before the shared input changed: who reads it beside the newest reads a mix."""
    filled_first(lab)
    lab.store.operations.request_run("daily", partition_key=DAYS[1])
    ran(lab)
    assert not any(run["mixed"] for run in lab.runs())
    before = len(lab.runs())
    lab.report("rates", "r2")
    ran(lab)
    assert DAYS[1] in held(lab)
    mixed = {(run["slug"], run["partition_key"]): run["mixed"] for run in lab.runs()[before:]}
    assert mixed == {("daily", DAYS[0]): False, ("weekly", DAYS[0]): True, ("total", ""): True}


def test_trickles_below_the_limit_run_by_themselves(lab: Lab) -> None:
    """Ten days run; the eleventh within 24 hours is proposed, and a later one runs."""
    built(lab)
    for key in DAYS[1 : LIMIT + 1]:
        lab.report("raw", "v2", partition_key=key)
        assert ran(lab) == [("daily", key)]
        lab.advance(minutes=1)
    lab.report("raw", "v2", partition_key=DAYS[15])
    assert ran(lab) == []
    [found] = proposals(lab)
    assert sizes(found) == {"daily": 1}
    lab.live(hours=25)
    lab.report("raw", "v2", partition_key=DAYS[16])
    assert ran(lab) == [("daily", DAYS[16])]
    assert held(lab) == [DAYS[15]]  # who was asked is not surprised by a run


def test_the_same_partition_counts_once(lab: Lab) -> None:
    """A day that arrives again and again is one partition."""
    built(lab)
    for number in range(LIMIT + 5):
        lab.report("raw", f"again-{number}", partition_key=DAYS[3])
        assert ran(lab) == [("daily", DAYS[3])]


def test_the_count_comes_before_any_start(lab: Lab) -> None:
    """Eleven late days at once: none runs, although ten would be within the limit. Ten at once all run."""
    built(lab)
    for key in DAYS[1 : LIMIT + 2]:
        lab.report("raw", "v2", partition_key=key)
    assert ran(lab) == []
    [found] = proposals(lab)
    assert found["reasons"] == [
        {"workflowSlug": "daily", "assetId": "raw", "dataVersion": "v2", "partitions": LIMIT + 1}
    ]
    lab.store.backfills.deny(found["id"])
    assert ran(lab) == []
    for key in DAYS[1 : LIMIT + 1]:
        lab.report("raw", "v3", partition_key=key)
    assert sorted(key for _, key in ran(lab)) == sorted(DAYS[1 : LIMIT + 1])


def test_partitions_that_are_not_stale_after_all_release_the_others(lab: Lab) -> None:
    """Every day is evaluated after an apply, and three are stale: they run, and nothing is proposed."""
    built(lab)
    lab.store.operations.pause("daily")
    for key in DAYS[5:8]:
        lab.report("raw", "v2", partition_key=key)
    lab.settle()
    lab.store.operations.resume("daily")
    assert sorted(key for _, key in ran(lab)) == sorted(DAYS[5:8])
    assert proposals(lab) == []


def test_the_newest_is_never_held(lab: Lab) -> None:
    """Neither when it is the newest, nor one that comes to exist while a proposal is open."""
    built(lab)
    lab.report("rates", "r2")
    assert ran(lab) == [("daily", DAYS[0])]
    lab.live(days=1)
    lab.report("raw", "v1", partition_key="2026-01-05")
    assert ran(lab) == [("daily", "2026-01-05")]
    assert held(lab) == DAYS[1:]


def test_a_reason_of_its_own_is_not_held(lab: Lab) -> None:
    """A late day of a proposal runs, and leaves it; more than the limit of them are held."""
    built(lab)
    lab.report("rates", "r2")
    ran(lab)
    lab.report("raw", "v2", partition_key=DAYS[4])
    assert ran(lab) == [("daily", DAYS[4])]
    [found] = proposals(lab)
    assert (sizes(found), found["revision"]) == ({"daily": COUNT - 2}, 1)
    for key in DAYS[5 : 5 + LIMIT]:
        lab.report("raw", "v2", partition_key=key)
    assert ran(lab) == []
    [found] = proposals(lab)
    assert (sizes(found), found["revision"]) == ({"daily": COUNT - 2}, 2)
    with pytest.raises(ConflictError, match="it grew since"):
        lab.store.backfills.approve(found["id"], revision=1)
    with pytest.raises(ConflictError, match="it grew since"):
        lab.store.backfills.deny(found["id"], revision=1)
    assert status(lab, found["id"]) == "proposed"


def test_an_approved_proposal_is_a_backfill(lab: Lab) -> None:
    """It runs each of its partitions once, in its class and with its concurrency, and finishes."""
    built(lab)
    lab.report("rates", "r2")
    ran(lab)
    [found] = proposals(lab)
    lab.advance(hours=1)
    lab.store.backfills.approve(found["id"], revision=1)
    lab.settle()
    queued = [run for run in lab.runs() if run["status"] == "queued"]
    assert sorted(run["partition_key"] for run in queued) == sorted(DAYS[1:5])
    assert {run["trigger_type"] for run in queued} == {"backfill"}
    assert sorted(key for _, key in finished(lab)) == sorted(DAYS[1:])
    shown = lab.store.backfills.find(found["id"])
    assert (shown["status"], shown["progress"]["done"]) == ("finished", COUNT - 1)
    assert held(lab) == []
    assert lab.rows("SELECT 1 FROM proposed_partitions") == []
    with pytest.raises(ConflictError, match="is finished"):
        lab.store.backfills.approve(found["id"], revision=1)


def finished(lab: Lab) -> list[tuple[str, str]]:
    """Execute what is queued and all that follows; return the partitions that ran."""
    before = {run["id"] for run in lab.runs() if run["status"] not in {"queued", "running"}}
    lab.work()
    return [(run["slug"], run["partition_key"]) for run in lab.runs() if run["id"] not in before]


def test_deny_then_new_data(lab: Lab) -> None:
    """A denial accepts the versions that were shown. What is new runs, or is proposed again, and nothing else."""
    built(lab)
    lab.report("rates", "r2")
    ran(lab)
    [found] = proposals(lab)
    lab.store.backfills.deny(found["id"], revision=1)
    assert ran(lab) == []
    assert held(lab) == []
    assert status(lab, found["id"]) == "denied"
    assert lab.rows("SELECT 1 FROM workflow_partitions WHERE declined IS NOT NULL AND NOT mixed") == []
    last = lab.store.reader.decisions(workflow="daily", partition=DAYS[7], limit=1)[0]
    assert (last["reason"], last["evidence"].get("accepted")) == ("up-to-date", True)
    lab.report("raw", "v2", partition_key=DAYS[7])
    assert ran(lab) == [("daily", DAYS[7])]
    lab.report("rates", "r3")
    assert ran(lab) == [("daily", DAYS[0])]
    [again] = proposals(lab)
    assert sizes(again) == {"daily": COUNT - 1}
    assert reason(again)["dataVersion"] == "r3"
    lab.report("rates", "r2")  # the version that was denied: it causes nothing where it was denied
    assert {key for _, key in ran(lab)} <= {DAYS[0], DAYS[7]}
    assert proposals(lab) == []


def test_a_denial_accepts_exactly_what_was_shown(lab: Lab) -> None:
    """Data that arrived after the proposal was shown is a cause after the denial."""
    built(lab)
    lab.report("rates", "r2")
    ran(lab)
    [found] = proposals(lab)
    lab.report("rates", "r3")  # nobody has evaluated it yet
    lab.store.backfills.deny(found["id"], revision=1)
    assert ran(lab) == [("daily", DAYS[0])]
    [again] = proposals(lab)
    assert sizes(again) == {"daily": COUNT - 1}


def test_beyond_ignore_accepts_without_asking(lab: Lab) -> None:
    """Nothing is proposed, the newest runs, and another version is a cause again."""
    built(lab, beyond="ignore")
    lab.report("rates", "r2")
    assert ran(lab) == [("daily", DAYS[0])]
    assert (proposals(lab), held(lab)) == ([], [])
    assert lab.one("SELECT count(*) FROM workflow_partitions WHERE declined IS NOT NULL AND mixed") == COUNT - 1
    lab.report("raw", "v2", partition_key=DAYS[9])
    assert ran(lab) == [("daily", DAYS[9])]
    assert lab.forgotten() == 0


def test_a_reason_that_goes_away_takes_its_proposal_along(lab: Lab) -> None:
    """The input returns to the version that was consumed."""
    built(lab)
    lab.report("rates", "r2")
    ran(lab)
    [found] = proposals(lab)
    lab.report("rates", "r1")
    assert ran(lab) == [("daily", DAYS[0])]
    assert (proposals(lab), held(lab)) == ([], [])
    assert status(lab, found["id"]) == "canceled"
    assert lab.rows("SELECT 1 FROM proposed_partitions") == []


def test_redefinition_while_proposed(lab: Lab) -> None:
    """Another job is another reason, in the same proposal; the former job takes it along."""
    built(lab)
    lab.apply(daily("jobs:two"), sources=(SOURCE, "rates"))
    assert ran(lab) == [("daily", DAYS[0])]
    [found] = proposals(lab)
    assert found["reasons"] == [{"workflowSlug": "daily", "workflowVersion": 3, "partitions": COUNT - 1}]
    lab.apply(daily("jobs:three"), sources=(SOURCE, "rates"))
    assert ran(lab) == [("daily", DAYS[0])]
    [grown] = proposals(lab)
    assert (grown["id"], grown["revision"], reason(grown)["workflowVersion"]) == (found["id"], 2, 4)
    lab.apply(daily(), sources=(SOURCE, "rates"))
    assert ran(lab) == [("daily", DAYS[0])]
    assert (proposals(lab), held(lab)) == ([], [])


def test_a_retired_workflow_takes_its_proposal_along(lab: Lab) -> None:
    """Nothing is left to approve."""
    built(lab)
    lab.report("rates", "r2")
    ran(lab)
    lab.apply(workflow("other", "raw2"), sources=("raw2",))
    lab.settle()
    assert proposals(lab) == []


def test_a_manual_run_leaves_the_proposal(lab: Lab) -> None:
    """The partition is not stale any more, and the revision stays: it did not grow."""
    built(lab)
    lab.report("rates", "r2")
    ran(lab)
    lab.store.operations.request_run("daily", partition_key=DAYS[3])
    ran(lab)
    [found] = proposals(lab)
    assert (sizes(found), found["revision"]) == ({"daily": COUNT - 2}, 1)


def test_canceling_an_approved_proposal_reopens_it(lab: Lab) -> None:
    """The rest is proposed again, with another revision, and can be approved again."""
    built(lab)
    lab.report("rates", "r2")
    ran(lab)
    [found] = proposals(lab)
    lab.store.backfills.approve(found["id"], revision=1)
    lab.settle()
    lab.finish(lab.start())
    lab.settle()
    lab.store.backfills.cancel(found["id"])
    assert ran(lab) == []
    [again] = proposals(lab)
    assert (again["id"], sizes(again), again["revision"]) == (found["id"], {"daily": COUNT - 2}, 2)
    with pytest.raises(ConflictError, match="deny it"):
        lab.store.backfills.cancel(found["id"])
    with pytest.raises(ConflictError, match="it grew since"):
        lab.store.backfills.approve(found["id"], revision=1)
    lab.store.backfills.approve(found["id"], revision=2)
    assert len(ran(lab)) == COUNT - 2
    assert status(lab, found["id"]) == "finished"


def test_a_pause_and_quiet_hours(lab: Lab) -> None:
    """What is paused is proposed when the pause ends. Quiet hours keep no proposal from being seen."""
    built(lab)
    lab.apply(daily(quietHours=[{"from": "08:00", "to": "12:00", "timezone": "UTC"}]), sources=(SOURCE, "rates"))
    lab.settle()
    lab.store.operations.pause("daily")
    lab.report("rates", "r2")
    assert ran(lab) == []
    assert proposals(lab) == []
    lab.store.operations.resume("daily")
    assert ran(lab) == []
    [found] = proposals(lab)
    assert sizes(found) == {"daily": COUNT - 1}
    lab.store.backfills.approve(found["id"])
    assert ran(lab) == []
    lab.live(hours=4)
    assert sorted(key for _, key in finished(lab)) == sorted(DAYS)


def levels(job: str, limit: int) -> list[dict[str, Any]]:
    """Return days, days from them, windows of the last of them, and a total."""
    more: dict[str, Any] = {"auto": auto(limit), "entrypoint": job}
    return [
        divided("first", {"raw": None}, SIXTY, **more),
        divided("second", {"first": None}, SIXTY, **more),
        divided("third", {"second": {"window": {"from": -2, "to": 0}, "require": "any"}}, TWENTY, **more),
        divided("total", {"third": None}, **more),
    ]


SIXTY: dict[str, Any] = {"time": "day", "start": "2025-11-05"}
TWENTY: dict[str, Any] = {"time": "day", "start": "2025-12-15"}


def test_a_shared_change_of_code_is_one_proposal(lab: Lab) -> None:
    """Three levels and a total, of which only two exceed the limit: all of it is one proposal."""
    source = {"assetId": "raw", "partitioning": SIXTY}
    lab.apply(*levels("jobs:one", 1000), sources=(source,))
    for number in range(61):
        lab.report("raw", "v1", partition_key=str(date(2025, 11, 5) + timedelta(days=number)))
    ran(lab)
    lab.apply(*levels("jobs:one", 40), sources=(source,))
    assert ran(lab) == []
    lab.advance(minutes=1)
    lab.rows("UPDATE runs SET queued_at = queued_at - interval '25 h' RETURNING 1")
    lab.apply(*levels("jobs:two", 40), sources=(source,))
    first = ran(lab)
    assert {slug for slug, _ in first} == {"first", "second", "third"}
    [found] = proposals(lab)
    assert sizes(found) == {"first": 60, "second": 60, "third": 20, "total": 1}
    lab.advance(minutes=1)
    lab.store.backfills.approve(found["id"])
    again = ran(lab)
    counts = {slug: sum(1 for name, _ in again if name == slug) for slug in ("first", "second", "third", "total")}
    assert counts == {"first": 60, "second": 60, "third": 20, "total": 1}
    assert proposals(lab) == []


def test_an_apply_says_what_would_be_proposed(lab: Lab) -> None:
    """Before anything is stored; within the limit it says what would run."""
    built(lab)
    before = lab.everything()
    wanted = project(daily("jobs:two"), sources=(SOURCE, "rates"))
    assert list(lab.store.apply.preview(wanted).partitions) == [
        f"daily: 1 of {COUNT} partitions would run; {COUNT - 1} would be proposed"
    ]
    within = project(daily("jobs:two", limit=COUNT), sources=(SOURCE, "rates"))
    assert list(lab.store.apply.preview(within).partitions) == [f"daily: {COUNT} of {COUNT} partitions would run"]
    assert lab.everything() == before
