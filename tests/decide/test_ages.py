"""Frozen, sealed and removed partitions: pure decisions (docs/semantics.md#R13.15)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from freshline.decide.holds import REST_RECHECK
from freshline.decide.presence import present_inputs
from freshline.graph import Graph
from freshline.model.backfill import Demand, PartitionState
from freshline.model.enums import OnRetire, Outcome, Reason
from freshline.model.state import Head, Input, Version
from freshline.partitions.compatibility import mapping_between
from freshline.partitions.declaration import Declaration
from freshline.partitions.requirements import ALL, ANY, Requirement
from freshline.reading import Expected
from tests.decide.builders import HOUR, Scenario, clock, fresh, stale
from tests.decide.test_order import held_by
from tests.simulation.partitioned import NOW, days, months

DEMAND = Demand("one", clock("08:00"), 1)
HEAD = Head(3, "v", NOW)
DAYS = ["2024-11-27", "2024-11-28", "2024-11-29"]


def with_demand(scenario: Scenario, demand: Demand) -> Scenario:
    """Add a demand."""
    return scenario.facts(demands=(demand,))


def test_a_partition_freezes_at_its_moment() -> None:
    """One second before, it runs. The next look is a day later, and the hold has no end."""
    scenario = stale(frozen_after_ms=HOUR)
    assert scenario.facts(window_ends=clock("08:00:01")).decide().outcome is Outcome.RUN
    decision = scenario.facts(window_ends=clock("08:00")).decides("hold", "frozen")
    assert decision.next_evaluation == scenario.now + REST_RECHECK
    assert decision.blocks_until is None
    assert scenario.decide().outcome is Outcome.RUN, "a workflow without windows has no age"


@pytest.mark.parametrize("reason", ["frozen", "input-retired"])
def test_a_queued_run_ends_when_the_partition_comes_to_rest(reason: str) -> None:
    """Nobody has started it. A running one goes on."""
    assert held_by(reason).active("queued", {"a": "1"}).decide().superseded is not None
    assert held_by(reason, "in-flight").decide().superseded is None


def test_a_removed_partition_is_left_alone() -> None:
    """It is no cause, its queued run ends, and its demands are refused."""
    scenario = stale(retain_ms=HOUR).facts(window_ends=clock("07:30"))
    decision = with_demand(scenario.active("queued", {"a": "1"}), DEMAND).decide()
    assert (decision.outcome, decision.reason, decision.run) == (Outcome.SKIP, Reason.UP_TO_DATE, None)
    assert decision.superseded is not None
    assert decision.demands == (("one", PartitionState.REFUSED),)
    assert stale(retain_ms=HOUR).facts(window_ends=clock("08:30")).decide().outcome is Outcome.RUN


def test_a_sealed_partition_refuses_a_demand_that_is_not_partial() -> None:
    """A partial one computes it from what is left, and says so in its pins."""
    sealed = held_by("input-retired")
    refused = with_demand(sealed, DEMAND).decides("hold", "input-retired")
    assert refused.demands == (("one", PartitionState.REFUSED),)
    partial = with_demand(sealed, replace(DEMAND, partial=True)).decide()
    assert partial.run is not None
    assert set(partial.run.pins) == {"a"}


def test_the_rest_of_all_partitions_as_one_is_what_is_left() -> None:
    """Its digest counts those that were removed; its pin is the number of a change, which reads what is left."""
    whole = Input("all", Head(9, "digest", NOW), Version(9, "digest"), partitions=4, retired=OnRetire.KEEP)
    scenario = fresh().facts(inputs=(whole,))
    run = with_demand(scenario, replace(DEMAND, partial=True)).decide().run
    assert run is not None
    assert dict(run.pins) == {"all@": Version(9, "digest")}
    empty = fresh().facts(inputs=(replace(whole, partitions=0),))
    with_demand(empty, replace(DEMAND, partial=True)).decides("hold", "input-missing")


def test_an_input_that_is_gone_is_a_change_with_recompute() -> None:
    """It is in the evidence, and not in the pins."""
    gone = Input("b", None, Version(1, "1"), partition_key="k", retired=OnRetire.RECOMPUTE)
    scenario = fresh(inputs=fresh().policy.inputs).input("b", head="1", read="1")
    decision = scenario.facts(inputs=(*fresh().state.inputs, gone)).decides("run", "upstream-update")
    assert decision.run is not None
    assert "b@k" not in decision.run.pins
    assert decision.evidence["inputs"][-1] == {
        "assetId": "b",
        "partitionKey": "k",
        "from": "1",
        "to": None,
        "changed": True,
        "changes": 0,
        "triggers": True,
        "retired": True,
    }


def read(
    given: list[Input], on_retire: OnRetire, requirement: Requirement = ALL, retained: timedelta | None = None
) -> list[Input]:
    """Return what a month reads of these days."""
    edge = ("days", 1)
    graph = Graph(
        epoch=1,
        slugs={1: "month", 2: "days"},
        producers={"month": 1, "days": 2},
        edges=[edge],
        partitionings={"days": days(), "month": months()},
        mappings={edge: mapping_between(days(), months(), Declaration())},
        requirements={edge: requirement},
        retained={"days": retained} if retained else {},
        on_retire={edge: on_retire},
    )
    expected = Expected("days", [one.partition_key for one in given], outside=False)
    return list(present_inputs(graph, (1, "2024-11"), [expected], lambda _: given, NOW).inputs)


def one(key: str, *, retired: bool = False, consumed: str | None = "v", data: bool = True) -> Input:
    """Return a day."""
    head = HEAD if data else None
    return Input(
        "days", head, Version(3, consumed) if consumed else None, None, key, retired_at=NOW if retired else None
    )


def test_what_was_removed_counts_as_consumed_at_its_last_version() -> None:
    """With `keep` it is no change, whatever was consumed of it, and it seals."""
    found = read([one(DAYS[0], retired=True, consumed="older"), one(DAYS[1])], OnRetire.KEEP)
    assert [(day.changed, day.missing, day.retired) for day in found] == [
        (False, False, OnRetire.KEEP),
        (False, False, None),
    ]


def test_what_was_removed_is_a_change_if_it_was_consumed() -> None:
    """With `recompute`. A removed one that was never read is nothing."""
    found = read(
        [one(DAYS[0], retired=True), one(DAYS[1], retired=True, consumed=None), one(DAYS[2])], OnRetire.RECOMPUTE
    )
    assert [(day.partition_key, day.changed) for day in found] == [(DAYS[0], True), (DAYS[2], False)]


def test_a_day_without_data_whose_time_is_over_is_not_waited_for() -> None:
    """It will never come. With `keep` it seals, with `recompute` it is left out; before its time it is missing."""
    given = [one(DAYS[0], data=False, consumed=None), one(DAYS[2])]
    for retained, days_ago in ((timedelta(days=3), True), (timedelta(days=4), False)):
        kept = read(given, OnRetire.KEEP, retained=retained)
        left = read(given, OnRetire.RECOMPUTE, retained=retained)
        assert any(day.missing for day in kept) is not days_ago
        assert (kept[0].retired is OnRetire.KEEP) is days_ago
        assert any(day.missing for day in left) is not days_ago


@pytest.mark.parametrize("requirement", [ALL, ANY])
def test_an_input_of_which_nothing_is_left_is_missing(requirement: Requirement) -> None:
    """A run would have views without columns."""
    found = read([one(DAYS[0], retired=True)], OnRetire.RECOMPUTE, requirement)
    assert any(day.missing for day in found)
