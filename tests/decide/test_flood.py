"""The flood guard: what counts, what is held, and what is not (docs/semantics.md#R14.7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from freshline.decide.decision import Decision
from freshline.decide.proposals import Confirmed, HeldPartition, connected, propose, reasons_of
from freshline.model.backfill import Demand
from freshline.model.enums import Beyond, Outcome, Reason, TriggerType
from freshline.model.policy import Flood, InputPartitions
from freshline.model.staleness import Counted, FloodCounts, Listed, Staleness
from freshline.model.state import Blocker, Head, Pending
from tests.decide.builders import Flow, Scenario, clock, graph_of, stale

LIMIT = 10
ORIGIN = clock("08:00")


def old(stale_: int = LIMIT + 1, own: int = 0, *, key: str = "", **facts: Any) -> Scenario:
    """Return an old partition that is stale because of its input `a`. `key`: that of the input."""
    scenario = stale(flood=Flood(LIMIT))
    inputs = tuple(replace(one, partition_key=key) for one in scenario.state.inputs)
    return scenario.facts(
        partition_key="2026-01-01", inputs=inputs, newest=False, flood=FloodCounts(stale_, own), **facts
    )


def outcome(scenario: Scenario) -> tuple[Outcome, Reason]:
    """Return what is decided."""
    decision = scenario.decide()
    return decision.outcome, decision.reason


RUNS = (Outcome.RUN, Reason.UPSTREAM_UPDATE)
HELD = (Outcome.HOLD, Reason.BACKFILL_PROPOSED)


@pytest.mark.parametrize(("count", "expected"), [(LIMIT, RUNS), (LIMIT + 1, HELD)])
def test_more_than_the_limit_are_held(count: int, expected: tuple[Outcome, Reason]) -> None:
    """As many as the limit run. What is held says what a proposal has to list."""
    assert outcome(old(count)) == expected
    decision = old(count).decide()
    if decision.run is None:
        assert (decision.counted, decision.staleness) == (Counted.SHARED, Staleness({"a": "2"}))
        assert decision.blocks_until is None
        assert decision.evidence["limit"] == LIMIT
    else:
        assert decision.run.counted is Counted.SHARED


def test_the_newest_is_never_held() -> None:
    """And it does not count, so that a stream of new partitions is no flood."""
    decision = old(1000, 1000).facts(newest=True).decide()
    assert decision.run is not None
    assert decision.run.counted is None


def test_workflows_without_partitions_are_not_guarded() -> None:
    """They have no counts."""
    decision = stale().decide()
    assert decision.run is not None
    assert decision.run.counted is None


def test_a_reason_of_its_own() -> None:
    """A partition of an input that changed concerns few: it runs, unless those alone exceed the limit."""
    assert outcome(old(1000, LIMIT, key="2026-01-01")) == RUNS
    assert outcome(old(1000, LIMIT + 1, key="2026-01-01")) == HELD
    whole = {"inputs": tuple(replace(one, partitions=InputPartitions({"latest": 1})) for one in stale().policy.inputs)}
    assert outcome(old(1000, 0, key="2026-01-01").auto(**whole)) == HELD


def test_a_chain_counts_as_a_whole() -> None:
    """Each partition that follows from this one will run because of it."""
    assert outcome(old(1, 1, key="2026-01-01", later=LIMIT - 1)) == RUNS
    assert outcome(old(1, 1, key="2026-01-01", later=LIMIT)) == HELD


def test_what_a_proposal_lists_stays_held() -> None:
    """Also when few are left. Another version of an input that others read too is held only beyond the limit."""
    listed = Listed("one", Staleness({"a": "2"}))
    decision = old(1, listed=listed).decide()
    assert (decision.reason, decision.counted) == (Reason.BACKFILL_PROPOSED, Counted.LISTED)
    assert decision.evidence["backfillId"] == "one"
    assert outcome(old(1, listed=Listed("one", Staleness({"a": "1"})))) == RUNS
    particular = Listed("one", Staleness({"a@2026-01-01": "2"}))
    assert old(1000, 1000, key="2026-01-01", listed=particular).decide().counted is Counted.LISTED


def test_a_partition_that_was_never_computed_has_no_reason_of_its_own() -> None:
    """All of its inputs are new to it. When a proposal lists it, another version of one is a reason of its own."""
    missing = old(1000, 1, key="2026-01-01").output("c", head=None).facts(succeeded_at=None, succeeded_fingerprint=None)
    assert missing.decide().counted is Counted.SHARED
    listed = Staleness({"a@2026-01-01": "1"}, "job-1", missing=True)
    assert missing.facts(listed=Listed("one", listed)).decide().reason == Reason.MISSING


def test_what_follows_from_a_backfill_was_asked_for() -> None:
    """It is neither held nor counted."""
    scenario = old(1000, 1000)
    pending = Pending(clock("08:30"), clock("08:30"), 1, origin=ORIGIN)
    inputs = tuple(replace(one, pending=pending) for one in scenario.state.inputs)
    asked = scenario.facts(inputs=inputs, asked=frozenset({ORIGIN}))
    assert outcome(asked) == RUNS
    assert asked.decide().run is not None
    assert outcome(scenario.facts(inputs=inputs, asked=frozenset({clock("07:00")}))) == HELD


def test_a_demand_runs_what_is_proposed() -> None:
    """In the class of backfills: the cause of its own does not move it to another priority."""
    decision = old(1000, demands=(Demand("one", clock("08:00"), 1),)).decide()
    assert decision.run is not None
    assert decision.run.trigger["type"] == TriggerType.BACKFILL
    assert decision.run.counted is None


def blocked(scenario: Scenario, origin: str) -> Decision:
    """Decide below a partition that is proposed because of a change at that time."""
    above = Blocker(9, "above", Reason.BACKFILL_PROPOSED, cannot_run=True, origin=clock(origin))
    return scenario.facts(blockers=(above,)).decide()


def test_what_is_stale_only_by_the_same_change_joins() -> None:
    """A workflow below that changed in the same apply waits for the same approval; with other changes it runs."""
    scenario = stale().facts(applied_at=ORIGIN, succeeded_fingerprint="job-0")
    [one] = scenario.state.inputs
    head = Head(2, "2", clock("08:30"), origin=ORIGIN)
    same = scenario.facts(inputs=(replace(one, head=head, pending=Pending(ORIGIN, ORIGIN, 1, origin=ORIGIN)),))
    decision = blocked(same, "08:00")
    assert (decision.reason, decision.counted) == (Reason.BACKFILL_PROPOSED, Counted.JOINED)
    assert blocked(same, "07:00").run is not None
    assert blocked(scenario, "08:00").run is not None  # its input has another origin
    assert blocked(same.facts(succeeded_fingerprint="job-1"), "08:00").run is not None  # it did not change itself
    fresh_head = replace(head, origin=clock("08:20"))
    later = same.facts(inputs=(replace(same.state.inputs[0], head=fresh_head),))
    assert blocked(later, "08:00").run is not None
    newest = same.facts(partition_key="2026-01-01", newest=True, flood=FloodCounts(1, 1))
    assert blocked(newest, "08:00").run is not None


def test_declined_versions_cause_nothing() -> None:
    """Exactly these: another version of an input, another job, a later expiry are causes."""
    scenario = old(1)
    [one] = scenario.state.inputs
    declined = scenario.facts(inputs=(one.accepting("2"),), declined=Staleness({"a": "2"}))
    assert outcome(declined) == (Outcome.SKIP, Reason.UP_TO_DATE)
    assert outcome(scenario.facts(inputs=(one.accepting("1"),))) == RUNS
    changed = scenario.facts(inputs=(one.accepting("2"),), succeeded_fingerprint="job-0")
    assert outcome(changed) == (Outcome.RUN, Reason.DEFINITION_CHANGED)
    assert outcome(changed.facts(declined=Staleness(job="job-1"))) == (Outcome.SKIP, Reason.UP_TO_DATE)
    assert outcome(changed.facts(declined=Staleness(job="job-0"))) == (Outcome.RUN, Reason.DEFINITION_CHANGED)


def test_a_declined_partition_that_is_missing() -> None:
    """It stays missing until an input or the job changes."""
    scenario = old(1).output("c", head=None).facts(succeeded_at=None, succeeded_fingerprint=None)
    [one] = scenario.state.inputs
    declined = Staleness({"a": "2"}, "job-1", missing=True)
    never = scenario.facts(inputs=(replace(one, consumed=None).accepting("2"),), declined=declined)
    assert outcome(never) == (Outcome.SKIP, Reason.UP_TO_DATE)
    again = scenario.facts(inputs=(replace(one, consumed=None).accepting("1"),), declined=declined)
    assert outcome(again) == (Outcome.RUN, Reason.MISSING)


def test_staleness_is_stored_and_compared() -> None:
    """A record covers another if it has all of its versions."""
    some = Staleness({"a": "1", "b": "2"}, "job", {"c": 3}, clock("08:00"), missing=True)
    assert Staleness.from_json(some.as_json()) == some
    assert some.covers(Staleness({"a": "1"}))
    assert some.covers(Staleness(expired_at=clock("07:00")))
    assert some.covers(some)
    for other in (Staleness({"a": "2"}), Staleness(job="other"), Staleness(outputs={"c": 4})):
        assert not some.covers(other)
    assert not some.covers(Staleness(expired_at=clock("09:00")))
    assert not Staleness().covers(Staleness(missing=True))


def held(workflow_id: int, key: str, counted: Counted = Counted.SHARED, **more: Any) -> HeldPartition:
    """Return a held partition."""
    return HeldPartition(workflow_id, key, counted, Staleness({"a": "2"}), **{"origin": ORIGIN, **more})


def confirmed(stale_: int, own: int = 0, started: int = 0, *, unresolved: bool = False, **flood: Any) -> Confirmed:
    """Return the counts of a workflow."""
    return Confirmed(replace(stale().policy, flood=Flood(LIMIT, **flood)), stale_, own, started, unresolved)


def no_chain(_one: HeldPartition, _most: int) -> int:
    """Return that nothing follows."""
    return 0


def test_held_partitions_are_released_when_the_count_is_known() -> None:
    """Not while some were not evaluated, and those that started count."""
    some = [held(1, "a"), held(1, "b")]
    assert propose(some, {1: confirmed(2)}, no_chain).released == some
    waiting = propose(some, {1: confirmed(2, unresolved=True)}, no_chain)
    assert (waiting.released, waiting.listed, waiting.ignored) == ([], [], [])
    assert propose(some, {1: confirmed(2, started=LIMIT - 1)}, no_chain).listed == some
    assert propose(some, {1: confirmed(1)}, lambda _one, _most: LIMIT).listed == some
    assert propose(some, {1: confirmed(LIMIT + 1, beyond=Beyond.IGNORE)}, no_chain).ignored == some
    assert propose([held(1, "a", Counted.LISTED)], {1: confirmed(1)}, no_chain).released == []


def test_own_reasons_are_counted_alone() -> None:
    """They are listed if they alone exceed the limit."""
    some = [held(1, "a", Counted.OWN)]
    assert propose(some, {1: confirmed(1000, own=LIMIT)}, no_chain).released == some
    assert propose(some, {1: confirmed(1000, own=LIMIT + 1)}, no_chain).listed == some


def test_what_joined_goes_where_its_cause_goes() -> None:
    """It is listed with it, and released without it, but not while nothing is known."""
    root, joined = held(1, "a"), held(2, "", Counted.JOINED)
    both = [root, joined]
    assert propose(both, {1: confirmed(1000), 2: confirmed(1)}, no_chain).listed == both
    assert propose(both, {1: confirmed(1), 2: confirmed(1)}, no_chain).released == both
    assert propose(both, {1: confirmed(1, unresolved=True), 2: confirmed(1)}, no_chain).released == []
    assert propose([joined], {2: confirmed(1)}, no_chain).released == [joined]


def test_workflows_are_connected_if_one_is_above_the_other() -> None:
    """Also through others. Readers of one source are not."""
    graph = graph_of(
        [Flow(1, ("s",), ("a",)), Flow(2, ("a",), ("b",)), Flow(3, ("b",), ("c",)), Flow(4, ("s",), ("d",))]
    )
    assert connected(graph, [1, 3, 4]) == [{1, 3}, {4}]
    assert connected(graph, [2, 9]) == [{2}]


def test_reasons_are_counted_per_workflow() -> None:
    """An input is named once, with its version if there is one."""
    rows = [
        ("daily", 3, Staleness({"raw@1": "v1", "rates": "r2"})),
        ("daily", 3, Staleness({"raw@2": "v2", "rates": "r2"}, "job")),
        ("daily", 3, Staleness({"raw@3": "v3"}, "job", missing=True)),
    ]
    assert reasons_of(rows) == [
        {"workflowSlug": "daily", "assetId": "rates", "partitions": 2, "dataVersion": "r2"},
        {"workflowSlug": "daily", "assetId": "raw", "partitions": 2, "dataVersion": None},
        {"workflowSlug": "daily", "missing": True, "partitions": 1},
        {"workflowSlug": "daily", "workflowVersion": 3, "partitions": 1},
    ]
