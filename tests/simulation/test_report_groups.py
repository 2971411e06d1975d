"""In random worlds whose sources are always reported together, no run reads two generations without saying so."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

import pytest

from freshline.model.enums import RunStatus
from freshline.settings import Settings
from freshline.simulation import Catalogue, Observer, Run, Simulator
from freshline.simulation.records import Asset
from tests.simulation.histories import random_project
from tests.store_harness import MONDAY, project

STEPS = 150
SEEDS = 40


class Generations(Observer):
    """From which generations each snapshot stems, and whether a run that read a mix is among its ancestors."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, int], frozenset[int]] = {}
        self.tainted: set[tuple[str, int]] = set()

    def published(self, simulator: Simulator, asset: Asset, run: Run | None, *, changed: bool) -> None:  # noqa: ARG002
        assert asset.head is not None
        made = asset.id, asset.head.sequence
        self.known[made] = self.read_by(run) if run else frozenset({asset.head.sequence})
        if run and self.is_tainted(run):
            self.tainted.add(made)

    def read_by(self, run: Run) -> frozenset[int]:
        """Return the generations of everything that a run reads."""
        read = (self.known[name, pin.sequence] for name, pin in run.pins.items())
        return frozenset[int]().union(*read)

    def is_tainted(self, run: Run) -> bool:
        """Return whether a run reads a mix, or what was made from one."""
        return run.mixed or any((name, pin.sequence) in self.tainted for name, pin in run.pins.items())


def play(seed: int) -> int:
    """Play a random history; return how many runs have read several branches of a group."""
    luck = random.Random(seed)  # noqa: S311 - a seed, not a secret
    sources = luck.randint(2, 4)
    definitions = random_project(luck, dense=True, sources=sources)
    seen, joined = Generations(), 0
    catalogue = Catalogue.of(project(*definitions).workflows, Settings(project=Path("/nowhere")))
    simulator = Simulator(catalogue, MONDAY, observer=seen)
    simulator.start(fresh=False)
    if len(catalogue.sources) < 2:
        return 0
    for number in range(STEPS):
        dice = luck.random()
        queued = [run for run in simulator.active.values() if run.status is RunStatus.QUEUED]
        running = [run for run in simulator.active.values() if run.status is RunStatus.RUNNING]
        if number == 0 or dice < 0.1:
            simulator.report_together((one, "", None) for one in catalogue.sources)
        elif dice < 0.45 and queued:
            run = luck.choice(queued)
            simulator.begin(run)
            if not seen.is_tainted(run):
                joined += len(run.pins) > 1
                assert len(seen.read_by(run)) == 1, f"seed {seed}: {run.slug} reads half of a group: {run.pins}"
        elif dice < 0.85 and running:
            simulator.succeed(luck.choice(running))
        else:
            simulator.advance(simulator.now + timedelta(seconds=luck.choice((1, 5, 15))))
        simulator.settle()
    return joined


def test_no_run_reads_half_of_a_group() -> None:
    """Whatever is slow: what reads several branches reads one generation of all."""
    assert sum(play(seed) for seed in range(SEEDS)) > 5 * SEEDS


@pytest.mark.full
def test_no_run_reads_half_of_a_group_in_many_worlds() -> None:
    """The same, for long."""
    assert sum(play(seed) for seed in range(1_000, 1_000 + 50 * SEEDS)) > 5 * SEEDS
