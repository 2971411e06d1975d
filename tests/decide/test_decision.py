"""What a decision carries: the trigger, pins, bounded evidence, a digest, and the time of the next evaluation."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from hypothesis import given as examples
from hypothesis import strategies as st

from freshline.decide import decide
from freshline.decide.decide import MOST_EVENTS
from freshline.decide.motion import MOST_BLOCKERS, Moving, Walk
from freshline.model.enums import Outcome
from freshline.model.moment import iso
from freshline.model.state import Version
from tests.decide import strategies
from tests.decide.builders import MINUTE, Flow, Scenario, clock, fresh, given, graph_of, stale


def trigger(scenario: Scenario) -> dict[str, Any]:
    """As it is stored: JSON."""
    run = scenario.decide().run
    assert run is not None
    return dict(json.loads(json.dumps(run.trigger)))


def test_the_trigger_of_an_update() -> None:
    """The trigger has every documented key; the store adds the decision's id."""
    scenario = given().input("a", head="3", read="1", run_id="run-9", events=("e1", "e2")).input("z", "1", "1")
    assert trigger(scenario.output("b").facts(partition_key="2026")) == {
        "type": "auto-materialize",
        "reason": "upstream-update",
        "assetId": "b",
        "partitionKey": "2026",
        "upstream": [{"assetId": "a", "partitionKey": "", "from": "1", "to": "3", "runId": "run-9"}],
        "expiry": None,
        "eventIds": ["e1", "e2"],
    }


def test_the_trigger_and_the_evidence_name_the_partitions_of_inputs() -> None:
    """A month that reads days: each change has the key of its day, not that of the month."""
    scenario = given().input("days", "1", "1", key="2025-12-30").input("days", head="3", read="1", key="2025-12-31")
    month = scenario.output("months").facts(partition_key="2025-12")
    found = trigger(month)
    assert found["partitionKey"] == "2025-12"
    assert [(one["assetId"], one["partitionKey"]) for one in found["upstream"]] == [("days", "2025-12-31")]
    evidence = month.decide().evidence["inputs"]
    assert [(one["partitionKey"], one["changed"]) for one in evidence] == [("2025-12-30", False), ("2025-12-31", True)]


def test_the_trigger_of_an_expiry() -> None:
    """It says which output ran out, how, and when."""
    assert trigger(fresh().output("c", expired="08:45", reason="cron", event="e7")) == {
        "type": "auto-materialize",
        "reason": "expired",
        "assetId": "c",
        "partitionKey": "",
        "upstream": [],
        "expiry": {"reason": "cron", "expiresAt": "2026-01-05T08:45:00Z"},
        "eventIds": ["e7"],
    }


def test_the_trigger_of_a_first_run() -> None:
    """Nothing was read before: `from` is null."""
    found = trigger(given().input("a", head="1", events=("e1",)).output("b", head=None).never_ran())
    assert (found["reason"], found["assetId"]) == ("missing", "b")
    assert found["upstream"] == [{"assetId": "a", "partitionKey": "", "from": None, "to": "1", "runId": None}]


def test_a_run_carries_what_the_policy_says() -> None:
    """Pins of all inputs, priority and parameters."""
    run = stale(priority=3, parameter_defaults={"days": 7}).input("z", "4", "4").decides("run", "upstream-update").run
    assert run is not None
    assert run.pins == {"a": Version(2, "2"), "z": Version(4, "4")}
    assert (run.priority, run.parameters, run.mixed) == (3, {"days": 7}, False)
    assert run.pins["a"].as_json() == {"sequence": 2, "dataVersion": "2"}


def test_the_evidence_shows_the_vectors_side_by_side() -> None:
    """What was read, what is there, and how many changes lie between; on runs, holds and skips."""
    expected = {"assetId": "a", "from": "1", "to": "2", "changed": True, "changes": 1, "triggers": True}
    for scenario in (stale(), stale().paused()):
        assert scenario.decide().evidence["inputs"] == [expected]
    assert fresh().decide().evidence["inputs"] == [
        {"assetId": "a", "from": "1", "to": "1", "changed": False, "changes": 0, "triggers": True}
    ]


def test_events_are_bounded() -> None:
    """Ids of the first and last 20 events, and their number (docs/semantics.md#R5.5)."""
    ids = tuple(f"e{n:04}" for n in range(1000))
    scenario = given().input("a", head="9", read="1", events=ids).output("b", expired="08:45", event="last")
    found = trigger(scenario)["eventIds"]
    assert len(found) == MOST_EVENTS == 40
    assert (found[:20], found[20:]) == (list(ids[:20]), [*ids[-19:], "last"])
    assert scenario.decide().evidence["inputs"][0]["changes"] == 1000


def test_many_inputs_with_many_events_are_bounded() -> None:
    """130 inputs of one workflow; inputs that did not change bring no events (docs/scenarios.md#scenario-3)."""
    scenario = given().output("b").input("same", "1", "1")
    for number in range(130):
        scenario = scenario.input(f"a{number:03}", "2", "1", events=tuple(f"{number:03}-{n}" for n in range(40)))
    assert len(trigger(scenario)["eventIds"]) == MOST_EVENTS


def test_blockers_are_bounded() -> None:
    """Of a hundred ancestors in motion, twenty are shown."""
    flows = [Flow(n, ("s",), (f"a{n}",)) for n in range(1, 101)]
    flows.append(Flow(200, ("s", *(f"a{n}" for n in range(1, 101))), ("d",)))
    walk = Walk(graph_of(flows), dict.fromkeys(range(1, 101), Moving("running")))
    blockers = walk.blockers(200, ["s"])
    evidence = stale().facts(blockers=blockers).decides("hold", "waiting-for-upstream").evidence
    assert len(evidence["blockers"]) == MOST_BLOCKERS == 20


def test_equal_decisions_have_equal_digests() -> None:
    """Decisions with the same outcome, reason and evidence are equal, whatever the time and the number of evaluations.

    See docs/semantics.md#R5.5.
    """
    held = stale().canceled({"a": "2"})
    assert held.decide().digest == held.at("11:00").facts(evaluations=7).decide().digest
    waiting = stale().blocked()
    assert waiting.decide().digest == waiting.at("09:01").waited(MINUTE - 50).facts(evaluations=3).decide().digest
    queued = stale().blocked(7, "queued")
    assert waiting.decide().digest == queued.decide().digest, "how a blocker moves is no news"


def test_other_decisions_have_other_digests() -> None:
    """Another reason, another version, another blocker or another end is another decision."""
    scenarios = [
        stale(),
        stale().paused(),
        stale().paused(until="12:00"),
        stale().blocked(7),
        stale().blocked(8),
        stale().blocked(7).blocked(8),
        fresh(),
        given().input("a", "3", "1").output("b").paused(),
    ]
    assert len({scenario.decide().digest for scenario in scenarios}) == len(scenarios)


def test_evidence_is_json() -> None:
    """Everything that is stored can be."""
    for scenario in (stale(), fresh(), stale().blocked(until="09:10"), stale().failed(5, breaker="08:59")):
        json.dumps(scenario.decide().evidence)


def test_times_are_shown_in_utc() -> None:
    """ISO 8601 with a Z, whatever zone they came in; none stays none."""
    berlin = timezone(timedelta(hours=1))
    assert iso(datetime(2026, 1, 5, 10, 30, tzinfo=berlin)) == "2026-01-05T09:30:00Z"
    assert iso(None) is None


# Short ones are as likely as long ones, so that ends and deadlines are often near.
durations = st.integers(0, 10**5) | st.integers(0, 10**8)
before = (st.integers(0, 60) | st.integers(0, 10**6)).map(lambda seconds: clock("09:00") - timedelta(seconds=seconds))
around = st.integers(-(10**6), 10**6).map(lambda seconds: clock("09:00") + timedelta(seconds=seconds))


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Draw a workflow in any possible state: inputs, holds, history."""
    scenario = given(
        max_wait_ms=draw(durations),
        debounce_ms=draw(st.just(0) | durations),
        max_delay_ms=draw(st.none() | durations),
        min_interval_ms=draw(st.just(0) | durations),
        wait_for_upstream=draw(st.booleans()),
        on_missing=draw(st.booleans()),
        quiet_hours=tuple(draw(st.lists(strategies.quiet_hours, max_size=2))),
    )
    for number in range(draw(st.integers(0, 3))):
        last = draw(before)
        scenario = scenario.input(
            f"i{number}",
            draw(st.none() | st.sampled_from("123")),
            draw(st.none() | st.sampled_from("123")),
            triggers=draw(st.booleans()),
            max_age_ms=draw(st.none() | durations),
            at=last,
            first=min(last, draw(before)),
        )
    for number in range(draw(st.integers(0, 2))):
        head, expired = draw(st.sampled_from([None, "1"])), draw(st.booleans())
        scenario = scenario.output(f"o{number}", head, expired=draw(before) if expired else None)
    for number in range(draw(st.integers(0, 2))):
        scenario = scenario.blocked(number + 7, cannot_run=draw(st.sampled_from([False, False, True])))
        known = scenario.state.blockers[-1]
        ended = replace(known, until=draw(st.none() | around))
        scenario = scenario.facts(blockers=(*scenario.state.blockers[:-1], ended))
    return held(draw, scenario)


def held(draw: st.DrawFn, scenario: Scenario) -> Scenario:
    """Add some holds."""
    if draw(st.booleans()):
        scenario = scenario.all_of_them()
    if draw(st.booleans()):
        heads = {i.asset_id: i.head.data_version for i in scenario.state.inputs if i.head}
        scenario = scenario.canceled(draw(st.sampled_from([heads, {}])))
    if draw(st.booleans()):
        open_ = draw(st.booleans())
        scenario = scenario.failed(3, draw(before), eligible=draw(around), breaker=draw(before) if open_ else None)
    if draw(st.booleans()):
        scenario = scenario.active(draw(st.sampled_from(["queued", "running"])))
    if draw(st.booleans()):
        scenario = scenario.paused().facts(paused_until=draw(st.none() | around))
    return scenario.facts(evaluations=draw(st.integers(0, 100)), started_at=draw(st.none() | before))


@examples(scenarios())
def test_every_hold_has_a_next_evaluation(scenario: Scenario) -> None:
    """The next evaluation is in the future, and that of a wait is not after its deadline. Skips have none.

    A run has one if quiet hours may reach it before a worker does. See docs/semantics.md#R11.4.
    """
    decision = scenario.decide()
    quiet = decision.outcome is Outcome.RUN and scenario.policy.quiet_hours != ()
    assert (decision.next_evaluation is not None) == (quiet or decision.outcome in {Outcome.HOLD, Outcome.ERROR})
    assert (decision.run is not None) == (decision.outcome is Outcome.RUN)
    assert decision == decide(scenario.policy, scenario.state, scenario.now), "it depends on something else"
    if decision.next_evaluation is None:
        return
    assert decision.next_evaluation > scenario.now
    deadline = decision.evidence.get("deadline")
    if decision.reason == "waiting-for-upstream":
        assert deadline is not None
        assert decision.next_evaluation <= datetime.fromisoformat(deadline)
    if decision.blocks_until is not None:
        assert decision.next_evaluation <= decision.blocks_until


@examples(st.integers(1, 10**5), st.integers(0, 100), st.integers(0, 10**5))
def test_a_wait_never_looks_past_its_deadline(wait: int, evaluations: int, waited: int) -> None:
    """Before the deadline the workflow waits and is evaluated again by then. From the deadline on it runs.

    See docs/semantics.md#R4.5, docs/semantics.md#R11.4.
    """
    scenario = stale(max_wait_ms=wait).blocked().waited(waited).facts(evaluations=evaluations)
    decision = scenario.decide()
    if waited >= wait:
        assert decision.run is not None
    else:
        assert decision.next_evaluation is not None
        assert scenario.now < decision.next_evaluation <= scenario.now + timedelta(milliseconds=wait - waited)


@examples(scenarios())
def test_time_alone_brings_a_stale_workflow_to_an_end(scenario: Scenario) -> None:
    """Repeated evaluation ends in a run, in a skip, or in a hold that only an outside event can end."""
    for _ in range(60):
        decision = scenario.decide()
        if decision.next_evaluation is None or decision.run is not None:
            return
        if decision.reason == "waiting-for-upstream":  # as after all the evaluations of a long wait
            scenario = scenario.waited(scenario.policy.max_wait_ms)
        scenario = scenario.at(decision.next_evaluation).facts(evaluations=scenario.state.evaluations + 1)
    outside = {"in-flight", "paused", "canceled", "input-missing", "input-too-old", "waiting-for-all", "quiet-hours"}
    assert decision.reason in outside
