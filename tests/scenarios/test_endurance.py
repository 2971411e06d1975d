"""Long histories on the real store: diamonds join once per change, chains keep their pace, failures stay rare."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from freshline.model.run import ClaimedRun
from tests.scenarios.factory import Factory, generations
from tests.store_harness import Lab, workflow

DIAMOND = (workflow("b", "a"), workflow("c", "a"), workflow("d", "b c"))
SHORT_CUT = (workflow("b", "a"), workflow("c", "b"), workflow("d", "a c"))
CHANGES = 20

CHAIN = (workflow("b", "a"), workflow("c", "b"), workflow("d", "c"), workflow("e", "d"))
# Some levels are slower than the level above, some are faster; all are slower than the source.
SECONDS = {"b": 90, "c": 60, "d": 150, "e": 45}
SOURCE_SECONDS = 30

# The materializer's own backoff: 2 minutes, doubling to 30; the breaker opens at the fifth failure.
BUDGET = 5
LONGEST_COOLDOWN = timedelta(minutes=30)


@pytest.mark.parametrize("shape", [DIAMOND, SHORT_CUT], ids=["two-branches", "short-cut"])
@pytest.mark.parametrize("seconds", [{"b": 0, "c": 3}, {"b": 3, "c": 0}], ids=["slow-c", "slow-b"])
def test_twenty_settled_changes_are_twenty_joins(
    lab: Lab, shape: tuple[dict[str, Any], ...], seconds: dict[str, float]
) -> None:
    """D runs exactly once per change of A, never mixed, on one generation of A (docs/scenarios.md#scenario-11)."""
    lab.apply(*shape)
    factory = Factory(lab, seconds)
    for change in range(CHANGES + 1):  # the first one is the initial data
        lab.report("a", str(change))
        factory.work()
    assert generations(lab, "d", "a") == [{number} for number in range(1, CHANGES + 2)]
    assert {slug: len(lab.runs(slug)) for slug in "bcd"} == dict.fromkeys("bcd", CHANGES + 1)
    assert not any(run["mixed"] for run in lab.runs())


@pytest.mark.parametrize("hours", [1, pytest.param(10, marks=[pytest.mark.full, pytest.mark.timeout(1800)])])
def test_a_chain_below_a_fast_source_keeps_every_pace(lab: Lab, hours: int) -> None:
    """The source is faster than the first step for hours; no level starves, none runs for nothing.

    See docs/scenarios.md#scenario-0, docs/semantics.md#R4.2.
    """
    lab.apply(*CHAIN)
    factory, end = Factory(lab, SECONDS), lab.later(hours=hours)
    while lab.now < end:
        lab.report("a", lab.now.isoformat())
        factory.work(lab.later(seconds=SOURCE_SECONDS))
    pace, begins = 0, 0
    for slug, seconds in SECONDS.items():
        pace = max(pace, seconds)
        most = (3600 * hours - begins) / pace
        assert most - 1 <= len(lab.runs(slug)) <= most + 1, slug
        begins += seconds
    assert not any(run["mixed"] for run in lab.runs())


@pytest.mark.parametrize(
    ("every", "during"),
    [
        pytest.param(timedelta(minutes=5), timedelta(days=1), id="one-day"),
        pytest.param(
            timedelta(minutes=1),
            timedelta(days=14),
            marks=[pytest.mark.full, pytest.mark.timeout(3600)],
            id="two-weeks",
        ),
    ],
)
def test_an_asset_that_fails_for_days_is_tried_rarely(lab: Lab, every: timedelta, during: timedelta) -> None:
    """New data all the time, runs <= budget + T/maxMs + 1, one event; mended, a probe closes it.

    See docs/scenarios.md#scenario-16, docs/semantics.md#R7.3.
    """
    lab.apply(workflow("b", "a"))
    begin, failed = lab.now, 0
    while lab.now < begin + during:
        run = _next_report(lab)
        if run:
            lab.fail(run)
            failed += 1
        lab.now += every
    assert BUDGET + during / LONGEST_COOLDOWN * 0.8 < failed <= BUDGET + during / LONGEST_COOLDOWN + 1
    assert len(lab.events("materializer.breaker.opened")) == 1
    assert lab.events("materializer.breaker.closed") == []

    mended = _until_next_run(lab, every)
    assert mended - lab.state("b")["failed_at"] <= LONGEST_COOLDOWN * 1.1 + every
    assert lab.state("b")["failures"] == 0
    assert len(lab.events("materializer.breaker.closed")) == 1
    assert len(lab.events("materializer.breaker.opened")) == 1
    assert lab.reads("b")[-1] == {"a": lab.head("a")["data_version"]}
    lab.now += every
    lab.report("a", "after it")
    assert lab.work() == ["b"], "it runs at once again"


def _next_report(lab: Lab) -> ClaimedRun | None:
    """Report new data and evaluate it once; each is one transaction."""
    lab.report("a", lab.now.isoformat())
    lab.store.evaluation.consume_inbox(100)
    lab.reconciler.run_once()
    return lab.claim()


def _until_next_run(lab: Lab, every: timedelta) -> datetime:
    """Report until the next run, let it succeed, and return its time."""
    while not (run := _next_report(lab)):
        lab.now += every
    lab.finish(run)
    return lab.now
