"""The sweep finds partitions that nothing would evaluate, a slice at a time (docs/semantics.md#R11.5)."""

from __future__ import annotations

from typing import Any

import pytest

from freshline.store.evaluation import sweep
from tests.scenarios.test_partitions import DAYS, HOURS, divided, ran, sales
from tests.store_harness import Lab, workflow

YEAR: dict[str, Any] = {"time": "day", "start": "2025-01-05"}
DAILY: dict[str, Any] = {"assetId": "raw", "partitioning": YEAR}


def lose(lab: Lab) -> None:
    """Consume all events, and lose the considerations."""
    lab.store.evaluation.fire_timers(100)
    while lab.store.evaluation.consume_inbox(100):
        pass
    lab.rows("DELETE FROM considerations RETURNING 1")


def noted(lab: Lab) -> list[tuple[str, str]]:
    """Return what is to be evaluated."""
    found = lab.rows(
        "SELECT w.slug, c.partition_key, c.class FROM considerations c JOIN workflows w ON w.id = c.workflow_id"
        " ORDER BY 1, 2"
    )
    assert {row["class"] for row in found} <= {"sweep"}
    return [(row["slug"], row["partition_key"]) for row in found]


def test_a_partition_whose_input_changed_is_found(lab: Lab) -> None:
    """Its day is noted; what reads the day differs only when the day has run."""
    sales(lab)
    lab.report("raw", "v1", partition_key="2025-12-31T05")
    ran(lab)
    lab.report("raw", "v2", partition_key="2025-12-31T05")
    lab.report("raw", "v1", partition_key="2026-01-02T05")
    lose(lab)
    assert lab.forgotten() == 2
    assert noted(lab) == [("daily", "2025-12-31"), ("daily", "2026-01-02")]
    assert ("total", "") in ran(lab)


@pytest.mark.parametrize("what", ["missing", "expired", "fingerprint", "total"])
def test_other_causes_are_found(lab: Lab, what: str) -> None:
    """A partition that was never computed, that expired, or whose code changed; and one that reads partitions."""
    daily = divided("daily", {"raw": {"require": "any"}}, DAYS, freshness={"cron": "0 12 * * *"})
    lab.apply(daily, divided("total", {"daily": None}), sources=(HOURS,))
    lab.report("raw", "v1", partition_key="2025-12-31T05")
    if what != "missing":
        ran(lab)
    if what == "expired":
        lab.store.operations.expire("daily", partition_key="2025-12-31")
    if what == "fingerprint":
        lab.rows("UPDATE workflow_partitions SET job_fingerprint = 'other' WHERE partition_key <> '' RETURNING 1")
    if what == "total":
        lab.rows("UPDATE workflow_partitions SET consumed_versions = '{}' WHERE partition_key = '' RETURNING 1")
    lose(lab)
    lab.forgotten()
    assert noted(lab) == {
        "missing": [("daily", "2025-12-31"), ("total", "")],
        "total": [("total", "")],
    }.get(what, [("daily", "2025-12-31")])


def test_a_healthy_system_has_nothing_to_find(lab: Lab) -> None:
    """Partitions that miss inputs, that are held, queued, running, switched off, or noted as a whole need no sweep."""
    lab.apply(
        divided("daily", {"raw": None, "fx": None}, DAYS),
        divided("graced", {"raw": {"require": "all", "grace": "2d"}}, DAYS),
        divided("window", {"daily": {"window": {"from": -2, "to": 0}}}, DAYS),
        divided("manual", {"daily": None}, DAYS, auto=None),
        divided("total", {"daily": None}),
        workflow("plain", "fx"),
        sources=(HOURS,),
    )
    assert lab.forgotten() == 0
    lab.report("fx", "v1")
    for hour in range(24):
        lab.report("raw", "v1", partition_key=f"2026-01-02T{hour:02}")
    lab.report("raw", "v1", partition_key="2025-12-31T05")
    assert lab.forgotten() == 0
    lab.settle()
    assert lab.forgotten() == 0
    run = lab.start_of("daily")
    assert lab.forgotten() == 0
    lab.fail(run)
    lab.settle()
    assert lab.forgotten() == 0
    lab.advance(hours=1)
    ran(lab)
    lab.store.operations.pause("daily")
    lab.report("raw", "v2", partition_key="2026-01-02T05")
    lab.settle()
    assert lab.forgotten() == 0


def test_each_sweep_looks_at_a_slice_and_all_are_found(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """365 partitions, at 100 per sweep: each is found within four sweeps, the newest first, wherever it is."""
    monkeypatch.setattr(sweep, "MOST_COMPARED", 200)  # each partition, and what it reads
    lab.apply(divided("daily", {"raw": None}, YEAR), divided("other", {"raw": None}, YEAR), sources=(DAILY,))
    lose(lab)
    days = ["2026-01-04", "2025-10-15", "2025-06-01", "2025-01-05"]
    for day in days:
        lab.report("raw", "v1", partition_key=day)
    lose(lab)
    found = [lab.forgotten() for _ in range(8)]
    assert noted(lab) == sorted((slug, day) for slug in ("daily", "other") for day in days)
    assert found[0] >= 1
    assert max(found) <= 2
    assert lab.forgotten() == 0


def test_one_process_sweeps_at_a_time(lab: Lab) -> None:
    """The position is shared: another process goes on behind it, and looks at nothing while it is locked."""
    sales(lab)
    lab.report("raw", "v1", partition_key="2025-12-31T05")
    ran(lab)
    lab.report("raw", "v2", partition_key="2025-12-31T05")
    lose(lab)
    with lab.database.transaction("sweep") as connection:
        connection.execute("SELECT 1 FROM sweep_cursor FOR UPDATE")
        assert lab.forgotten() == 0
    assert lab.forgotten() == 1
