"""History is bounded by its retention, and rows that are still needed are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from freshline.services.pruner import Pruner
from freshline.store.retention.prune import START, Places
from tests.store_harness import MONDAY, Lab, laboratory, workflow


def prune(lab: Lab, batch: int = 100) -> int:
    """Prune until nothing more is deleted; return the number of pages of the last pass."""
    while True:
        pages = list(tour(lab, batch))
        if not any(sum(page.values()) for page in pages):
            return len(pages)


def tour(lab: Lab, batch: int) -> Iterator[Mapping[str, int]]:
    """Yield the numbers of rows that each page deleted."""
    place: Places | None = START
    while place is not None:
        pruned = lab.store.retention.prune(30, batch, place)
        yield pruned.rows
        place = pruned.next


def test_old_history_goes_and_the_present_stays(database_url: str) -> None:
    """Old events, decisions and failed runs are forgotten; heads, their runs and the last decision stay."""
    with laboratory(database_url) as lab:
        lab.apply(workflow("b", "a"))
        lab.report("a", "1")
        lab.settle()
        lab.fail(lab.start())
        lab.advance(hours=1)
        assert lab.work() == ["b"]
        lab.store.events.stamp_positions(1000)
        lab.now = MONDAY + timedelta(days=40)
        prune(lab)
        assert lab.one("SELECT count(*) FROM events") == 0
        assert [row["reason"] for row in lab.rows("SELECT reason FROM decisions")] == ["up-to-date"]
        assert [run["status"] for run in lab.runs()] == ["succeeded"]
        assert lab.head("b")["sequence"] == 1
        lab.report("a", "2")
        assert lab.work() == ["b"]


def test_the_last_decision_of_a_quiet_workflow_stays(database_url: str) -> None:
    """`why` answers after years of silence, and no older decision stays."""
    with laboratory(database_url) as lab:
        lab.apply(workflow("b", "a"), workflow("c", "b"), workflow("quiet", "nothing"))
        lab.report("a", "1")
        lab.work()
        lab.report("a", "2")
        lab.settle()
        lab.fail(lab.start())
        lab.store.operations.pause("b")
        lab.settle()
        before = {slug: lab.decision(slug) for slug in ("b", "c", "quiet")}
        assert lab.one("SELECT count(*) FROM decisions") > 6
        lab.now = MONDAY + timedelta(days=3 * 365)
        prune(lab, 2)
        assert {slug: lab.store.reader.why(slug)[0]["id"] for slug in before} == {
            slug: str(decision["id"]) for slug, decision in before.items()
        }
        assert lab.one("SELECT count(*) FROM decisions") == 3


def test_what_stays_is_passed_by_once_in_a_tour(database_url: str) -> None:
    """However many workflows are quiet, a page looks at so many rows and no more, and a tour comes to its end."""
    with laboratory(database_url) as lab:
        lab.apply(*(workflow(f"quiet{number}", "nothing") for number in range(11)), workflow("b", "a"))
        lab.settle()
        for version in range(5):
            lab.report("a", str(version))
            lab.work()
        lab.store.events.stamp_positions(1000)
        lab.now = MONDAY + timedelta(days=40)
        assert prune(lab, 5) == 3, "twelve last decisions, by five"
        assert lab.one("SELECT count(*) FROM decisions") == 12
        pruner = Pruner(lab.store)
        assert not pruner.run_once(), "nothing is left, so it rests"


def test_a_decision_that_was_found_again_lately_stays(database_url: str) -> None:
    """Its age counts from when it was last found to be so."""
    with laboratory(database_url) as lab:
        lab.apply(workflow("b", "a"))
        lab.settle()
        lab.now = MONDAY + timedelta(days=40)
        lab.settle()
        (decision,) = lab.rows("SELECT count FROM decisions")
        assert decision["count"] > 1
        lab.report("a", "1")
        lab.work()
        lab.store.retention.prune(30, 100)
        assert lab.one("SELECT count(*) FROM decisions WHERE at < %s", MONDAY + timedelta(days=1)) == 1
        lab.now += timedelta(days=31)
        lab.store.retention.prune(30, 100)
        assert [row["reason"] for row in lab.rows("SELECT reason FROM decisions")] == ["up-to-date"]


def test_event_partitions_are_made_ahead_and_dropped_whole(database_url: str) -> None:
    """There is a partition for each of the next four weeks; a week is dropped when the retention is over."""
    with laboratory(database_url) as lab:
        lab.apply(workflow("b", "a"))
        lab.store.retention.prune(30, 100)
        names = [row["name"] for row in lab.rows("SELECT relname AS name FROM pg_class WHERE relname LIKE %s", WEEKS)]
        assert len(names) == 4
        lab.now = MONDAY + timedelta(days=10)
        lab.report("a", "1")
        assert lab.one("SELECT count(*) FROM events_default") == 1  # the event of the definition, which is older
        lab.store.events.stamp_positions(1000)
        lab.now = MONDAY + timedelta(days=60)
        lab.store.retention.prune(30, 100)
        assert lab.one("SELECT count(*) FROM events") == 0
        assert lab.one("SELECT to_regclass('events_week_2026_01_12')") is None


WEEKS = "events_week_____\\___\\___"
