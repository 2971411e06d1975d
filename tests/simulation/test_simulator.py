"""The simulator by itself: slots and priorities, economy, copies, and simulators from stored states."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from freshline.decide import Decision
from freshline.model.enums import RunStatus
from freshline.settings import Settings
from freshline.simulation import Catalogue, Driver, Member, Observer, Run, Simulator, Work
from freshline.simulation.driver import Report
from freshline.simulation.from_store import Facts, restore
from freshline.simulation.loading import load_workflows
from freshline.simulation.records import MOST_CHANGES
from freshline.simulation.simulate import simulate
from freshline.simulation.workload import Load
from freshline.store.evaluation.load_state import read
from tests.simulation.histories import Both
from tests.store_harness import MONDAY, Lab, workflow

ON_UPDATE = {"onUpstreamUpdate": True}


def catalogue(*definitions: dict[str, Any]) -> Catalogue:
    """Of definitions that are in no file."""
    return Catalogue.of(load_workflows(list(definitions)), Settings(project=Path()))


@dataclass
class Steady:
    """Every run takes a minute; those of some workflows make the same again."""

    equal: frozenset[str] = frozenset()
    begun: list[str] = field(default_factory=list)

    def work(self, run: Run) -> Work:
        self.begun.append(run.slug)
        return Work(timedelta(minutes=1), changed=run.slug not in self.equal)


@dataclass
class Counting(Observer):
    """Counts decisions."""

    decisions: Counter[str] = field(default_factory=Counter)

    def decided(self, simulator: Simulator, member: Member, decision: Decision, run: Run | None) -> None:  # noqa: ARG002
        self.decisions[decision.reason] += 1


def begun(*flows: dict[str, Any], slots: int, observer: Observer | None = None) -> tuple[Simulator, list[str]]:
    """Return the simulator and the started runs, in order, after a change of `a` with this number of slots."""
    simulator = Simulator(catalogue(*flows), MONDAY, observer=observer)
    simulator.start(fresh=True)
    jobs = Steady()
    Driver(simulator, jobs, slots=slots, reports=[Report(MONDAY, "a")]).run(MONDAY + timedelta(hours=1))
    return simulator, jobs.begun


def test_the_most_urgent_run_begins_first() -> None:
    """With one slot the order is that of priorities (lower is more urgent), and time passes in between."""
    flows = [workflow(name, "a", auto={**ON_UPDATE, "priority": n}) for name, n in (("x", 9), ("y", 1), ("z", 5))]
    simulator, order = begun(*flows, slots=1)
    assert order == ["y", "z", "x"]
    assert [run.status for run in simulator.active.values()] == []


def test_waiting_improves_a_run() -> None:
    """Ten seconds are worth one point of priority: an old run comes before a more urgent new one.

    See docs/semantics.md#R11.8.
    """
    simulator = Simulator(
        catalogue(workflow("old", "a"), workflow("new", "b", auto={**ON_UPDATE, "priority": 95})), MONDAY
    )
    simulator.start(fresh=True)
    for seconds, expected in ((49, "new"), (51, "old")):
        trial = simulator.copy()
        trial.report("a")
        trial.settle()
        trial.now += timedelta(seconds=seconds)
        trial.report("b")
        trial.settle()
        claimed = trial.claim()
        assert claimed is not None
        assert claimed.slug == expected


def test_a_copy_goes_its_own_way() -> None:
    """Nothing that happens in a copy happens in the original."""
    simulator = Simulator(catalogue(workflow("b", "a")), MONDAY)
    simulator.start(fresh=True)
    other = simulator.copy()
    other.report("a")
    other.settle()
    assert other.active
    assert not simulator.active
    assert other.catalogue is simulator.catalogue


def test_waiting_costs_no_looks() -> None:
    """A join that waits for an hour is not evaluated every 30 seconds: only events can end its wait."""
    counting = Counting()
    simulator = Simulator(catalogue(workflow("b", "a"), workflow("c", "a b")), MONDAY, observer=counting)
    simulator.start(fresh=True)
    simulator.report("a")
    simulator.advance(MONDAY + timedelta(minutes=50))
    assert counting.decisions == {"upstream-update": 1, "waiting-for-upstream": 1}
    simulator.advance(MONDAY + timedelta(minutes=60))
    assert {run.slug: run.mixed for run in simulator.active.values()} == {"b": False, "c": True}


def test_old_changes_are_forgotten() -> None:
    """A source that changes for ever does not fill the memory: what all readers have read goes, but the first."""
    simulator = Simulator(catalogue(workflow("b", "a"), workflow("never", "a", auto=None)), MONDAY)
    simulator.start(fresh=False)
    for _ in range(3 * MOST_CHANGES):
        simulator.now += timedelta(seconds=1)
        simulator.report("a")
        simulator.settle()
        run = simulator.claim()
        assert run is not None
        simulator.succeed(run)
        simulator.settle()
    asset = simulator.assets["a"]
    assert len(asset.sequences) <= MOST_CHANGES + 1
    first = asset.input(None).pending
    assert first is not None
    assert first.first_at == MONDAY + timedelta(seconds=1)


def test_lag_behind_an_equal_output_counts_as_none() -> None:
    """b makes the same again and again: c never runs, and when it does at last it is not a day late."""
    flows = catalogue(workflow("b", "a"), workflow("c", "b x"))
    reports = [Report(MONDAY + timedelta(hours=hour), "a") for hour in range(24)]
    reports.append(Report(MONDAY + timedelta(hours=24), "x"))
    end = MONDAY + timedelta(days=2)
    result = simulate(flows, reports, Steady(equal=frozenset({"b"})), start=MONDAY, end=end, slots=2)
    assert result.runs_by_workflow == {"b": 24, "c": 1}
    assert result.lag_by_asset["c"] == {"p50": 60.0, "p95": 60.0, "max": 60.0}
    assert result.runs_avoided == 24


def test_breaches_are_counted_once_per_incident() -> None:
    """An asset that nothing refreshes is overdue once."""
    flows = catalogue(workflow("b", "a", freshness={"maxAge": "1h"}))
    end = MONDAY + timedelta(days=2)
    result = simulate(flows, [Report(MONDAY + timedelta(hours=9), "a")], Steady(), start=MONDAY, end=end, slots=1)
    assert result.breaches_by_asset == {"b": 2}


def test_luck_is_a_source_s_own() -> None:
    """The reports of one source do not depend on which others are there."""
    load = Load.model_validate({"sources": {"*": {"every": "1h", "random": True}}})
    end = MONDAY + timedelta(days=3)
    one = catalogue(workflow("b", "a"))
    two = catalogue(workflow("b", "a"), workflow("c", "z"))
    alone = list(load.reports(one, MONDAY, end, 1))
    assert alone == [report for report in load.reports(two, MONDAY, end, 1) if report.asset_id == "a"]
    assert alone != list(load.reports(one, MONDAY, end, 2))
    assert len(alone) == pytest.approx(72, rel=0.4)


def test_a_thousand_assets_cost_few_decisions() -> None:
    """The cost of a simulation goes with its runs: at most five decisions each, in components of ten."""
    luck = random.Random(5)  # noqa: S311 - a seed, not a secret
    flows = []
    for component in range(100):
        known = [f"s{component}"]
        for number in range(9):
            flows.append(
                workflow(f"w{component}-{number}", luck.sample(known[-4:], min(len(known), luck.choice((1, 1, 2, 3)))))
            )
            known.append(f"w{component}-{number}")
    counting = Counting()
    simulator = Simulator(catalogue(*flows), MONDAY, observer=counting)
    simulator.start(fresh=True)
    reports = [Report(MONDAY + timedelta(minutes=luck.randrange(60)), f"s{n}") for n in range(100)]
    jobs = Steady()
    Driver(simulator, jobs, slots=16, reports=sorted(reports)).run(MONDAY + timedelta(days=1))
    assert len(jobs.begun) == 900
    assert counting.decisions.total() <= 5 * 900


@pytest.mark.parametrize("seed", range(6))
def test_a_simulator_from_stored_states_decides_the_same(seed: int, lab: Lab) -> None:
    """After a random history, a simulator restored from the store decides the same about every workflow."""
    both = Both(lab, 1_000 + seed)
    both.settle()
    for _ in range(25):
        both.step()
    with lab.database.reading() as connection:
        graph = lab.store.evaluation._graph
        assert graph is not None
        moment = read(connection, graph, {(workflow_id, ""): 0 for workflow_id in graph.slugs})
    found = restore(Facts(moment.now, [(one.policy, one.state) for one in moment.loaded]), lab.settings)
    assert set(found.catalogue.by_slug) == set(both.simulator.catalogue.by_slug)
    found.settle()
    for slug, member in both.simulator.catalogue.by_slug.items():
        mine, theirs = both.simulator.peek(member), found.peek(found.catalogue.by_slug[slug])
        assert (theirs.outcome, theirs.reason) == (mine.outcome, mine.reason), slug
    assert {run.slug: run.status for run in found.active.values()} == {
        run.slug: RunStatus(run.status) for run in both.simulator.active.values()
    }
