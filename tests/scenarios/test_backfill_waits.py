"""What waits for a backfill, and for how long (docs/semantics.md#R14.6)."""

from __future__ import annotations

from typing import Any

from freshline.model.backfill import BackfillPolicy, BackfillRequest
from tests.scenarios.factory import Factory
from tests.scenarios.test_partitions import divided, ran
from tests.store_harness import MONDAY, Lab

SOURCE: dict[str, Any] = {"assetId": "raw", "partitioning": {"time": "day", "start": "2025-11-29"}}
DAYS: dict[str, Any] = {"time": "day", "start": "2025-11-29"}
MONTHS: dict[str, Any] = {"time": "month", "start": "2025-11"}
PATIENT: dict[str, Any] = {"onUpstreamUpdate": True, "maxWaitMs": 900_000}
FOUR = ("2025-11-29", "2025-11-30", "2025-12-01", "2025-12-02")
MINUTES = {"clean": 10, "monthly": 10, "total": 1}


def begun(lab: Lab) -> tuple[Factory, str]:
    """Return a factory, and a backfill of four days of two months: months and a total follow from it."""
    lab.apply(
        divided("clean", {"raw": None}, DAYS),
        divided("monthly", {"clean": {"require": "any"}}, MONTHS, auto=PATIENT),
        divided("total", {"monthly": None}, auto=PATIENT),
        sources=(SOURCE,),
    )
    for key in FOUR:
        lab.report("raw", "v1", partition_key=key)
    ran(lab)
    versions = iter(range(1_000))
    finish = lab.finish
    lab.finish = lambda run, **more: finish(run, **{run.slug: f"new-{next(versions)}"}, **more)  # type: ignore[method-assign]
    policy = BackfillPolicy(concurrency=1)
    backfill_id = lab.store.backfills.create(BackfillRequest("clean", keys=FOUR, policy=policy))
    return Factory(lab, {slug: 60 * minutes for slug, minutes in MINUTES.items()}), backfill_id


def times(lab: Lab, slug: str) -> list[tuple[float, bool]]:
    """Return after how many minutes runs of a workflow were queued, and whether they are mixed."""
    found = [run for run in lab.runs(slug) if run["queued_at"] > MONDAY]
    return [((run["queued_at"] - MONDAY).total_seconds() / 60, run["mixed"]) for run in found]


def test_the_last_month_of_a_backfill_is_waited_for(lab: Lab) -> None:
    """The backfill has ended, and what it changed last is still computed: the total runs once, after that."""
    factory, backfill_id = begun(lab)
    factory.work(lab.later(hours=2))
    assert lab.store.backfills.find(backfill_id)["status"] == "finished"
    assert times(lab, "monthly") == [(20, False), (40, False)]
    assert times(lab, "total") == [(50, False)]
