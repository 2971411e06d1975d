"""Old snapshots are deleted; those that current state refers to are kept, and no decision changes because of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from freshline.model.run import ClaimedRun, StagedOutput
from freshline.store.evaluation import partitions
from freshline.store.retention.prune import BEGINNING, Place
from tests.store.transaction_cases import tables
from tests.store_harness import MONDAY, Lab, laboratory, workflow

KEEP = 30
TABLE = "UPDATE assets SET declaration = declaration || %s WHERE id = %s RETURNING 1"
ONE_VERSION = '{"table": {"keepVersions": 1, "keepMs": 0}}'


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a lab where `b` is made from the source `a`."""
    with laboratory(database_url) as lab:
        lab.apply(workflow("b", "a"))
        yield lab


def forget(lab: Lab, batch: int = 100) -> int:
    """Forget all pages, and return the number of deleted snapshots."""
    forgotten, place = 0, BEGINNING
    while True:
        page = lab.store.retention.forget_snapshots(KEEP, batch, place)
        forgotten += page.snapshots
        if page.next is None:
            return forgotten
        place = page.next


def kept(lab: Lab, asset: str) -> list[int]:
    """Return the sequences that are kept."""
    return [row["sequence"] for row in lab.rows("SELECT sequence FROM snapshots WHERE asset_id = %s ORDER BY 1", asset)]


def versions(lab: Lab) -> list[int]:
    """Return the table versions of b."""
    found = lab.rows("SELECT table_version FROM snapshots WHERE asset_id = 'b' ORDER BY sequence")
    return [row["table_version"] for row in found]


def report_daily(lab: Lab, days: int, version: str | None = None) -> None:
    """Report once a day, and do the runs that follow."""
    for day in range(days):
        lab.report("a", version or str(day))
        lab.work()
        lab.advance(days=1)


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_what_was_replaced_before_the_retention_goes(lab: Lab, batch: int) -> None:
    """What was current when the retention began stays, and everything since; page by page as well as at once."""
    report_daily(lab, 50)
    assert forget(lab, batch) == 2 * 19
    assert kept(lab, "a") == kept(lab, "b") == list(range(20, 51))
    assert forget(lab, batch) == 0, "the rest is younger, or current"


def test_the_current_snapshot_stays_for_ever(lab: Lab) -> None:
    """And work goes on from it; runs go with the last snapshot that they made."""
    report_daily(lab, 3)
    lab.advance(days=365)
    assert forget(lab) == 4
    assert kept(lab, "a") == kept(lab, "b") == [3]
    lab.store.events.stamp_positions(1_000)
    while any(lab.store.retention.prune(KEEP, 100).rows.values()):
        pass
    assert len(lab.runs()) == 1
    assert lab.work() == [], "b is fresh"
    lab.report("a", "2")
    assert lab.work() == [], "the same data as before"
    lab.report("a", "new")
    assert lab.work() == ["b"]
    assert kept(lab, "b") == [3, 4]


def test_a_change_that_was_replaced_lately_stays(lab: Lab) -> None:
    """However old it is: somebody may have been decided about it a moment ago."""
    report_daily(lab, 1, "old")
    lab.advance(days=365)
    report_daily(lab, 1, "new")
    assert forget(lab) == 0
    assert kept(lab, "a") == [1, 2]


def test_repetitions_go_and_the_change_before_them_stays(lab: Lab) -> None:
    """A source that says the same every day is not larger after a year."""
    report_daily(lab, 100, "same")
    assert forget(lab) == 100 - 1 - (KEEP + 1)
    assert kept(lab, "a") == [1, *range(70, 101)]


def test_what_a_run_is_pinned_to_stays(lab: Lab) -> None:
    """It may have waited for a worker for months."""
    report_daily(lab, 2)
    for version in ("waits", "is renewed"):
        lab.report("a", version)
        lab.settle()
    run = lab.start()
    for month in range(3):
        lab.advance(days=30)
        lab.report("a", f"month {month}")
    lab.advance(days=365)
    assert forget(lab) > 0
    assert kept(lab, "a") == [3, 4, 7], "the first that was not read yet, what the run reads, and what is current"
    assert run.inputs["a"].sequence == 4


def test_the_first_change_that_was_not_read_stays(lab: Lab) -> None:
    """For how long a consumer is behind is counted from it, though it is paused for a year (docs/semantics.md#R4.5)."""
    report_daily(lab, 2)
    lab.store.operations.pause("b")
    report_daily(lab, 5)
    lab.advance(days=365)
    before = lab.store.reader.measures(10)["lags"]
    forget(lab)
    assert kept(lab, "a") == [3, 7]
    assert lab.store.reader.measures(10)["lags"] == before == [{"assetId": "b", "lag": 370 * 86_400.0}]
    lab.store.operations.resume("b")
    assert lab.work() == ["b"]
    forget(lab)
    assert kept(lab, "a") == [7]


def test_a_consumer_that_never_ran_keeps_the_first_change(lab: Lab) -> None:
    """Nothing of it was read."""
    lab.store.operations.pause("b")
    report_daily(lab, 5)
    lab.advance(days=365)
    forget(lab)
    assert kept(lab, "a") == [1, 5]


def test_tables_that_are_kept_keep_their_snapshots(lab: Lab) -> None:
    """Only when their files are gone, and that is long ago too. No number of a table is given twice."""
    for version in ("1", "2", "3"):
        lab.report("a", version)
        lab.work_with(tables)
    lab.advance(days=365)
    assert forget(lab) == 2, "those of a"
    assert kept(lab, "b") == [1, 2, 3]
    lab.rows(TABLE, ONE_VERSION, "b")
    lab.store.tables.mark_versions("", 10)
    lab.advance(hours=1)
    assert len(lab.store.tables.remove_versions(10)) == 2
    assert forget(lab) == 0
    lab.advance(days=KEEP + 1)
    assert forget(lab) == 2
    assert kept(lab, "b") == [3]
    lab.report("a", "4")
    lab.work_with(tables)
    assert versions(lab) == [2, 3]


def test_equal_outputs_go_and_the_table_that_they_share_stays(lab: Lab) -> None:
    """They name the directory of the first, which is the head's."""

    def same(run: ClaimedRun) -> list[StagedOutput]:
        return [replace(output, data_version="same") for output in tables(run)]

    for version in range(5):
        lab.report("a", str(version))
        lab.work_with(same)
    lab.advance(days=365)
    forget(lab)
    assert kept(lab, "b") == [1, 5]
    assert versions(lab) == [0, 0]


def test_a_late_report_does_not_count_as_what_replaced(lab: Lab) -> None:
    """It did not move the head (docs/semantics.md#R3.3)."""
    lab.report("a", "1", sequence=10)
    lab.report("a", "0", sequence=5)
    lab.advance(days=365)
    assert forget(lab) == 0
    assert lab.head("a")["sequence"] == 1


def test_a_place_is_where_the_next_page_begins(lab: Lab) -> None:
    """The last of the page before; None when there is no more."""
    report_daily(lab, 3)
    lab.advance(days=365)
    page = lab.store.retention.forget_snapshots(KEEP, 2)
    assert isinstance(page.next, Place)
    assert page.next.at.startswith(f"{MONDAY.date()}"), page
    assert lab.store.retention.forget_snapshots(KEEP, 100, page.next).next is None
    assert lab.store.retention.forget_snapshots(KEEP, 100).next is None
    assert lab.now == MONDAY + timedelta(days=368)


def test_what_a_pin_of_all_partitions_needs_is_kept(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that reads all partitions as one is pinned to a number of a change: the heads of that time stay."""
    monkeypatch.setattr(partitions, "MOST_LISTED", 1)
    source = {"assetId": "raw", "partitioning": {"time": "day", "start": "2025-12-01"}}
    lab.apply(workflow("b", "a"), workflow("total", "raw"), sources=(source,))
    days = ("2025-12-01", "2025-12-02")
    for version in ("v1", "v2"):
        for day in days:
            lab.report("raw", version, partition_key=day)
    lab.settle()
    run = lab.claim()
    assert run is not None
    for version in ("v3", "v4"):
        for day in days:
            lab.report("raw", version, partition_key=day)
    lab.advance(days=2 * KEEP)
    assert forget(lab) == 2
    assert kept(lab, "raw") == [1, 1, 2, 2, 4, 4]  # the first change was never consumed
    lab.finish(run)
    forget(lab)
    assert kept(lab, "raw") == [1, 1, 4, 4]  # nobody has read single partitions
