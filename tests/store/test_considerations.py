"""Considerations of events, timers and sweeps share a batch (docs/semantics.md#R11.6)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from freshline.services.sweeper import Sweeper
from tests.store_harness import Lab, laboratory, workflow

BATCH = 8
MANY = 20


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield three groups of stale workflows: `e` by a report, `t` by an expiry, `s` found by a sweep."""
    refreshed = {"freshness": {"ttlMs": 60_000}, "autoMaterialize": {"onUpstreamUpdate": True}}
    with laboratory(database_url, batch=BATCH) as lab:
        events = [workflow(f"e{number:02}", "events") for number in range(MANY)]
        sweeps = [workflow(f"s{number:02}", "sweeps") for number in range(MANY)]
        timers = [workflow(f"t{number:02}", "timers") for number in range(MANY)]
        for one in timers:
            one["steps"][0]["produces"][0] |= refreshed
        lab.apply(*events, *sweeps, *timers)
        for asset_id in ("events", "sweeps", "timers"):
            lab.report(asset_id, "1")
        lab.work()
        yield lab


def test_each_class_has_its_share_of_a_batch(lab: Lab) -> None:
    """A batch of 8 takes 8 of the events, 2 of the timers and 1 of the sweep, however many are due."""
    _forget_a_change(lab)
    lab.advance(minutes=2)
    lab.report("events", "2")
    lab.store.evaluation.fire_timers(100)
    lab.store.evaluation.consume_inbox(100)
    lab.reconciler.run_once()
    assert [sum(slug.startswith(group) for slug in lab.active()) for group in "ets"] == [8, 2, 1]


def test_a_note_keeps_the_earlier_time_and_the_better_class(lab: Lab) -> None:
    """A workflow that a sweep has noted is evaluated with the events as soon as an event concerns it."""
    _forget_a_change(lab)
    lab.report("sweeps", "3")
    lab.store.evaluation.consume_inbox(100)
    lab.reconciler.run_once()
    assert len(lab.active()) == BATCH


def _forget_a_change(lab: Lab) -> None:
    """Lose the considerations of a change, so that only the sweep finds it."""
    lab.report("sweeps", "2")
    lab.store.evaluation.consume_inbox(100)
    lab.rows("DELETE FROM considerations RETURNING 1")
    Sweeper(lab.store).run_once()
