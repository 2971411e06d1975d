"""`latest` and `affects` in memory, and equal to the store (docs/semantics.md#R13.17)."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from freshline.partitions.declaration import Affects, All, Declaration, Latest
from freshline.partitions.key_partitionings import DynamicKeys
from freshline.partitions.requirements import ANY
from freshline.simulation import Simulator
from tests.scenarios.test_partitions import divided
from tests.simulation.partitioned import NONE, Job, Ran, catalogue_of, days, hours
from tests.store_harness import MONDAY, Lab

START, END = "2026-01-02", "2026-01-09"
STEPS = 40
SOURCES: dict[str, Any] = {
    "raw": hours(START),
    "cust": DynamicKeys(),
    "rates": NONE,
    "plain": NONE,
}
JOBS = [
    Job("daily", {"raw": None, "rates": Declaration(affects=Affects.LATEST)}, days(START), require={"raw": ANY}),
    Job("quiet", {"raw": None, "plain": Declaration(affects=Affects.NONE)}, days(START), require={"raw": ANY}),
    Job("eager", {"daily": None, "rates": Declaration(affects=Affects.LATEST)}, days(START, open=True)),
    Job("top", {"daily": Declaration(Latest(1)), "raw": Declaration(Latest(2))}),
    Job("spread", {"raw": Declaration(Latest(1)), "quiet": Declaration(Latest(2))}, days(START)),
    Job("each", {"cust": None, "rates": Declaration(affects=Affects.LATEST)}, DynamicKeys()),
    Job("few", {"each": Declaration(Latest(2)), "top": Declaration(All())}),
]


def stored(lab: Lab) -> None:
    """Apply the same to the store."""
    read: dict[str, Any] = {"require": "any"}
    lab.apply(
        divided("daily", {"raw": read, "rates": {"affects": "latest"}}, days(START).as_json()),
        divided("quiet", {"raw": read, "plain": {"affects": "none"}}, days(START).as_json()),
        divided("eager", {"daily": None, "rates": {"affects": "latest"}}, days(START, open=True).as_json()),
        divided("top", {"daily": {"latest": 1}, "raw": {"latest": 2}}),
        divided("spread", {"raw": {"latest": 1}, "quiet": {"latest": 2}}, days(START).as_json()),
        divided("each", {"cust": None, "rates": {"affects": "latest"}}, {"dynamic": {}}),
        divided("few", {"each": {"latest": 2}, "top": None}),
        sources=[
            {"assetId": name, **({"partitioning": one.as_json()} if one.columns else {})}
            for name, one in SOURCES.items()
        ],
    )


def work(simulator: Simulator) -> None:
    """Settle and execute until nothing is left to do."""
    simulator.settle()
    while (run := simulator.claim()) is not None:
        simulator.succeed(run)
        simulator.settle()


class Steps:
    """Random steps in both. After each, both run what is due."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self.luck = random.Random(seed)  # noqa: S311 - a seed, not a secret
        self.lab = lab
        self.ran = Ran()
        self.simulator = Simulator(catalogue_of(SOURCES, JOBS), MONDAY, observer=self.ran)
        stored(lab)
        self.simulator.start(fresh=False)
        self.versions = 0

    def step(self) -> str:
        """Report, or let time pass; now and then without anybody there."""
        name = self.luck.choice(["raw", "raw", "cust", "rates", "rates", "plain", "wait", "wait"])
        if name == "wait":
            minutes = self.luck.choice([1, 50, 700, 1_440])
            self.lab.advance(minutes=minutes)
            self.simulator.now += timedelta(minutes=minutes)
            return f"{minutes} minutes"
        key = ""
        if name == "raw":
            at = self.simulator.now - timedelta(hours=self.luck.choice([0, 1, 1, 3, 20, 50]))
            key = f"{at:%Y-%m-%dT%H}"
        elif name == "cust":
            key = self.luck.choice("abcd")
        self.versions += 1
        version = f"v{self.luck.randint(1, self.versions) if self.luck.random() < 0.5 else self.versions}"
        self.lab.report(name, version, **({"partition_key": key} if key else {}))
        self.lab.store.evaluation.consume_inbox(100)  # a dynamic key of a consumer appears with that
        self.simulator.report(name, version, key)
        return f"{name}@{key} {version}"

    def work(self) -> None:
        """Execute in both."""
        self.lab.work()
        work(self.simulator)

    def facts(self) -> tuple[list[Any], list[Any]]:
        """Return what has run on what in the store and in the simulator, for what and when."""
        theirs = [
            (
                run["queued_at"],
                run["slug"],
                run["partition_key"],
                run["trigger"]["reason"],
                sorted((name, pin["sequence"]) for name, pin in run["pins"].items()),
                sorted((one["assetId"], one["partitionKey"]) for one in run["trigger"]["upstream"]),
            )
            for run in self.lab.runs()
        ]
        mine = [
            (
                run.queued_at,
                run.slug,
                run.partition_key,
                run.trigger["reason"],
                sorted((name, pin.sequence) for name, pin in run.pins.items()),
                sorted((one["assetId"], one["partitionKey"]) for one in run.trigger["upstream"]),
            )
            for run in self.ran.runs
        ]
        return sorted(theirs), sorted(mine)


def play(lab: Lab, seed: int) -> None:
    """Compare a random history in the store and in the simulator."""
    steps = Steps(lab, seed)
    steps.work()
    told: list[str] = []
    for _ in range(STEPS):
        told.append(steps.step())
        if steps.luck.random() < 0.7:
            steps.work()
            theirs, mine = steps.facts()
            assert mine == theirs, f"seed {seed} after: " + "; ".join(told)
    assert len(steps.ran.runs) > STEPS / 2


@pytest.mark.parametrize("seed", range(2))
def test_the_store_and_the_simulation_run_the_same(seed: int, lab: Lab) -> None:
    """The same partitions on the same versions for the same reasons at the same times."""
    play(lab, seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 200))
def test_the_store_and_the_simulation_run_the_same_for_long(seed: int, lab: Lab) -> None:
    """The same in many histories."""
    play(lab, seed)
