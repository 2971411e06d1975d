"""Timers and considerations are handled when they are due, by the database's clock, without load in between."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from freshline import counters
from freshline.services.due_service import RETRY_S, DueService, pause
from freshline.services.expiry import Expiry
from freshline.services.notifier import Notifier
from freshline.services.reconciler import Reconciler
from tests.store_harness import Lab, laboratory, workflow
from tests.waiting import wait_until

HOUR = 3_600_000
SECOND = timedelta(seconds=1)
TIMERS = 20


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a lab on the real clock whose services poll once a minute: what is earlier was not found by a poll."""
    with laboratory(database_url, poll_ms=60_000) as lab:
        lab.database.clock = None
        yield lab


def test_a_pause_ends_when_something_is_due() -> None:
    """It is exactly the time that is left, and at most one poll interval."""
    assert pause(0.0371, 1.0) == 0.0371
    assert pause(0.000_2, 1.0) == 0.000_2
    assert pause(5.0, 1.0) == 1.0
    assert pause(None, 1.0) == 1.0


def test_what_another_process_has_locked_causes_no_busy_loop() -> None:
    """Due, but nothing was found: the first look is soon, the next ones at growing distances up to a poll interval."""
    pauses = [pause(-3.0, 1.0, misses) for misses in range(1, 12)]
    assert pauses[:3] == [RETRY_S, 2 * RETRY_S, 4 * RETRY_S]
    assert pauses[-1] == 1.0
    assert pauses == sorted(pauses)
    assert pause(-3.0, 1.0, 10_000) == 1.0


def test_timers_fire_when_they_are_due(lab: Lab) -> None:
    """Twenty timers at odd times: each fires on its own, none early, long before the next poll."""
    slugs = [f"w{number}" for number in range(TIMERS)]
    lab.apply(*(workflow(slug, freshness={"cadenceMs": HOUR}) for slug in slugs))
    lab.rows(
        "UPDATE timers SET due_at = now() + (200 + 97 * right(asset_id, -1)::int) * interval '1 ms' RETURNING due_at"
    )
    expiry = Expiry(lab.store)
    expiry.start()
    try:
        wait_until(lambda: len(lab.events("asset.expired")) == TIMERS)
    finally:
        expiry.stop()
    late = lab.rows(
        "SELECT e.time - t.expired_at AS late FROM timers t JOIN events e ON e.id = t.event_id ORDER BY late"
    )
    assert all(row["late"] >= timedelta() for row in late), "never early"
    assert late[TIMERS // 2]["late"] < timedelta(seconds=5)


def test_a_consideration_is_evaluated_when_it_is_due(lab: Lab) -> None:
    """A debounce of a second ends after a second, although the poll interval is a minute."""
    lab.apply(workflow("b", "a", auto={"onUpstreamUpdate": True, "debounceMs": 1_000}))
    lab.report("a", "1")
    assert lab.work() == ["b"]
    lab.report("a", "2")
    lab.store.evaluation.consume_inbox(10)
    reconciler = Reconciler(lab.store)
    reconciler.start()
    try:
        wait_until(lambda: len(lab.runs("b")) == 2)
    finally:
        reconciler.stop()
    assert (
        lab.one("SELECT queued_at FROM runs ORDER BY queued_at DESC LIMIT 1") >= lab.head("a")["produced_at"] + SECOND
    )


def test_an_earlier_timer_shortens_a_sleep(lab: Lab) -> None:
    """The service sleeps for a minute, and an apply sets a timer that is due sooner: it is told."""
    expiry = Expiry(lab.store)
    notifier = Notifier(lab.database, {"timers": expiry.wake})
    expiry.start()
    notifier.start()
    try:
        wait_until(lambda: lab.rows("SELECT 1 FROM pg_stat_activity WHERE query ILIKE 'LISTEN%%'"))
        lab.apply(workflow("b", freshness={"cadenceMs": 1_000}))
        wait_until(lambda: len(lab.events("asset.expired")) >= 2)
    finally:
        notifier.stop()
        expiry.stop()


@pytest.mark.parametrize("kind", [Expiry, Reconciler])
def test_nothing_is_locked_while_nothing_is_due(lab: Lab, kind: type[DueService]) -> None:
    """An idle poll is one statement: no transaction, no row lock."""
    lab.apply(workflow("b", freshness={"cadenceMs": HOUR}))
    lab.work()
    service = kind(lab.store)
    service.poll_s = 0.001
    looks: list[float | None] = []
    read = service.time_left

    def look() -> float | None:
        looks.append(read())
        return looks[-1]

    service.time_left = look  # type: ignore[method-assign]
    before = _rounds()
    service.start()
    try:
        wait_until(lambda: len(looks) >= 20)
    finally:
        service.stop()
    assert _rounds() - before == 1
    assert all(left is None or left > 0 for left in looks)


def _rounds() -> int:
    """Return how many rounds of both services were transactions."""
    found = counters.read().get("transactions", [])
    return sum(number for labels, number in found if labels["transaction"] in {"fire_timers", "reconcile"})
