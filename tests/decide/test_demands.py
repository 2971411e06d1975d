"""The demand of a backfill as a cause (docs/semantics.md#R14)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from freshline.decide.backfill_parts import Turns, closure, without
from freshline.decide.demands import state_of
from freshline.decide.motion import Moving
from freshline.decide.partition_motion import MovingPart, PartitionWalk
from freshline.graph import Graph
from freshline.model.backfill import BACKFILL_CLASS, Demand, Only, PartitionState
from freshline.model.enums import Outcome, Reason, TriggerType
from freshline.model.state import Canceled, RecentBackfill
from freshline.partitions.selection import EVERYTHING, Times
from freshline.simulation.newest import SimulatedNewest
from tests.decide.builders import HOUR, Scenario, clock, fresh, stale
from tests.decide.test_order import held_by
from tests.simulation.partitioned import NOW, Job, catalogue_of, days, months

DEMAND = Demand("one", clock("08:00"), 1)
OVERRIDDEN = ["frozen", "canceled", "backfill-proposed", "input-too-old"]
OVERRIDDEN += ["waiting-for-all", "debouncing", "min-interval"]
BINDING = ["in-flight", "paused", "breaker-open", "cooling-down", "quiet-hours", "waiting-for-upstream"]


def nothing_newest(graph: Graph) -> SimulatedNewest:
    """Return that no partition has data."""
    return SimulatedNewest(graph, NOW, {}, {})


def asked(scenario: Scenario, demand: Demand = DEMAND) -> Scenario:
    """Add a demand."""
    return scenario.facts(demands=(demand,))


def test_a_demand_is_the_last_cause() -> None:
    """A partition that is up to date runs for it; one with a cause of its own runs for that."""
    decision = asked(fresh()).decide()
    assert (decision.outcome, decision.reason) == (Outcome.RUN, Reason.BACKFILL)
    assert decision.run is not None
    assert decision.run.trigger["type"] == TriggerType.BACKFILL
    assert decision.run.trigger["backfillId"] == "one"
    assert decision.run.urgency == BACKFILL_CLASS + DEMAND.priority
    own = asked(stale()).decide()
    assert own.reason == Reason.UPSTREAM_UPDATE
    assert own.run is not None
    assert own.run.trigger["type"] == TriggerType.AUTO


@pytest.mark.parametrize("reason", OVERRIDDEN)
def test_what_a_demand_overrides(reason: str) -> None:
    """What is held by this runs for the demand."""
    assert held_by(reason).decide().reason == reason
    assert asked(held_by(reason)).decide().reason == Reason.BACKFILL


@pytest.mark.parametrize("policy", [{"automatic": False}, {"declared": False, "automatic": False}])
def test_a_demand_needs_no_policy(policy: dict[str, bool]) -> None:
    """It runs what nothing else would run, and only while it is open."""
    assert asked(stale(**policy)).decide().reason == Reason.BACKFILL
    assert asked(stale(**policy), replace(DEMAND, satisfied=True)).decide().outcome is Outcome.SKIP


@pytest.mark.parametrize("reason", BINDING)
def test_what_binds_a_demand(reason: str) -> None:
    """It is held by this, also without another cause."""
    assert asked(held_by(reason)).decide().outcome is Outcome.HOLD
    assert asked(held_by(reason)).decide().reason == reason


def test_quiet_hours_bind_unless_the_policy_says_otherwise() -> None:
    """And no worker keeps the run back then."""
    during = asked(held_by("quiet-hours"), replace(DEMAND, during_quiet_hours=True)).decide()
    assert during.reason == Reason.BACKFILL
    assert during.run is not None
    assert during.run.quiet is None


def test_a_missing_input_binds_unless_the_demand_is_partial() -> None:
    """With other inputs that exist, a partial one leaves it out."""
    scenario = held_by("input-missing").input("there", head="1", read="1")
    assert asked(scenario).decide().reason == Reason.INPUT_MISSING
    partial = asked(scenario, replace(DEMAND, partial=True)).decide()
    assert partial.run is not None
    assert "there" in partial.run.pins


def test_when_a_demand_has_ended() -> None:
    """Done, failed too often, or canceled; each is part of the decision."""
    policy = fresh().policy
    assert state_of(policy, fresh().state, DEMAND) is PartitionState.OPEN
    assert state_of(policy, fresh().state, replace(DEMAND, satisfied=True)) is PartitionState.DONE
    assert state_of(policy, fresh().state, replace(DEMAND, only=Only.MISSING)) is PartitionState.DONE
    assert state_of(policy, fresh().state, replace(DEMAND, only=Only.STALE)) is PartitionState.DONE
    assert state_of(policy, stale().state, replace(DEMAND, only=Only.STALE)) is PartitionState.OPEN
    failed = replace(fresh().state.failures, count=policy.backoff.budget)
    assert state_of(policy, fresh().facts(failures=failed).state, DEMAND) is PartitionState.FAILED
    canceled = Canceled(1, {}, backfill_id="one")
    assert state_of(policy, fresh().facts(canceled=canceled).state, DEMAND) is PartitionState.REFUSED
    assert asked(fresh(), replace(DEMAND, satisfied=True)).decide().demands == (("one", PartitionState.DONE),)


def test_only_a_success_that_started_after_the_request_is_accepted() -> None:
    """With a version that is not older."""
    assert DEMAND.accepts(clock("08:00"), 1)
    assert not DEMAND.accepts(clock("07:59"), 1)
    assert not replace(DEMAND, version=2).accepts(clock("09:00"), 1)


def test_a_paused_demand_causes_nothing() -> None:
    """Nor does one whose time has not come, which is evaluated then."""
    assert asked(fresh(), replace(DEMAND, paused=True)).decide().reason == Reason.UP_TO_DATE
    later = asked(fresh(), replace(DEMAND, not_before=clock("22:00"))).decide()
    assert (later.reason, later.next_evaluation) == (Reason.UP_TO_DATE, clock("22:00"))


def test_what_stems_from_a_backfill_waits_while_it_goes_on() -> None:
    """The wait of an hour is over, and a partition of the backfill ended half an hour ago."""
    waiting = _waiting().facts(backfills={DEMAND.requested_at: RecentBackfill(BACKFILL_CLASS, clock("08:40"))})
    assert _waiting().decide().reason == Reason.UPSTREAM_UPDATE
    assert waiting.decide().reason == Reason.WAITING_FOR_UPSTREAM
    stopped = waiting.facts(backfills={DEMAND.requested_at: RecentBackfill(BACKFILL_CLASS, clock("07:40"))})
    assert stopped.decide().reason == Reason.UPSTREAM_UPDATE


def test_what_stems_from_a_backfill_that_ended_waits_too() -> None:
    """The last partition of the backfill ended half an hour ago, and the backfill with it: what it changed waits."""
    for last, reason in (("08:40", Reason.WAITING_FOR_UPSTREAM), ("07:40", Reason.UPSTREAM_UPDATE)):
        ended = {DEMAND.requested_at: RecentBackfill(BACKFILL_CLASS, clock(last), ended=True)}
        assert _waiting().facts(backfills=ended).decide().reason == reason


def test_other_changes_end_the_wait_as_usual() -> None:
    """The change is not that of the backfill."""
    active = {clock("07:00"): RecentBackfill(BACKFILL_CLASS, clock("08:40"))}
    assert _waiting().facts(backfills=active).decide().reason == Reason.UPSTREAM_UPDATE


def _waiting() -> Scenario:
    """Return a workflow that waited long enough for an ancestor, for a change of the backfill."""
    scenario = stale(max_wait_ms=HOUR).blocked().facts(waited=timedelta(hours=2))
    inputs = tuple(
        replace(one, pending=replace(one.pending, origin=DEMAND.requested_at)) if one.pending else one
        for one in scenario.state.inputs
    )
    return scenario.facts(inputs=inputs)


def test_a_demand_waits_for_what_began_before_it() -> None:
    """A stream of changes that began later does not starve it."""
    graph = catalogue_of({"raw": days()}, [Job("a", {"raw": None}, days()), Job("b", {"a": None}, days())]).graph
    for origin, expected in ((NOW - timedelta(hours=1), 1), (NOW + timedelta(hours=1), 0)):
        part = MovingPart(days().select(["2024-05-01"]), Moving("due", origin=origin), "2024-05-01")
        walk = PartitionWalk(graph, {1: [part]})
        found = walk.blockers(2, [], every=True, partition_key="2024-05-01", not_after=NOW)
        assert len(found) == expected


def test_what_belongs_to_a_backfill() -> None:
    """Upwards what the selected partitions read, downwards what reads them, over grains."""
    jobs = [Job("a", {"raw": None}, days()), Job("b", {"a": None}, months()), Job("c", {"b": None})]
    graph = catalogue_of({"raw": days()}, jobs).graph
    chosen = months().select(["2024-02"])
    found = closure(graph, 2, chosen, now=NOW, newest=nothing_newest(graph), upstream=True, downstream=True)
    assert found[3] is EVERYTHING
    assert len(list(days().keys(found[1], NOW))) == 29
    assert found[2] == chosen


def test_turns_are_given_to_ancestors_first() -> None:
    """A month has its turn when its days had theirs, and rests shrink to nothing."""
    graph = catalogue_of({"raw": days()}, [Job("a", {"raw": None}, days()), Job("b", {"a": None}, months())]).graph
    chosen = months().between("2024-01", "2024-02")
    parts = closure(graph, 2, chosen, now=NOW, newest=nothing_newest(graph), upstream=True, downstream=False)
    turns = Turns(graph, parts, NOW, lambda _: (), newest_first=False)
    first = turns.take(31)
    assert first[0] == (1, "2024-01-01")
    assert turns.take(2) == [(1, "2024-02-01"), (1, "2024-02-02")]
    rest = turns.take(100)
    assert len(rest) == 27 + 2
    assert turns.rests == {}


def test_a_selection_without_some_keys() -> None:
    """The windows of the keys are cut out of ranges of time."""
    whole = days().between("2024-01-01", "2024-01-10")
    left = without(whole, ["2024-01-03", "2024-01-10"], days(), ())
    assert isinstance(left, Times)
    expected = [f"2024-01-{day:02}" for day in (1, 2, 4, 5, 6, 7, 8, 9)]
    assert list(days().keys(left, NOW, newest_first=False)) == expected
