"""Random histories with faults: safe at every step, and converging when the faults stop."""

from __future__ import annotations

import os

import pytest

from tests.random_histories.sim_workers import LEASE_MS
from tests.random_histories.simulation import Simulation, reset
from tests.store_harness import MONDAY, laboratory

BLOCK = 6
GATE = 18


def simulate(url: str, seeds: range) -> None:
    """Run these histories, one after another on one database."""
    with laboratory(url, lease_ms=LEASE_MS, max_worker_losses=50) as lab:
        for seed in seeds:
            lab.now = MONDAY
            Simulation(lab, seed).run()
            reset(lab)


@pytest.mark.parametrize("first", range(0, GATE, BLOCK))
def test_histories_are_safe_and_converge(database_url: str, first: int) -> None:
    """The guarantees of docs/guarantees.md hold in histories with crashes, pauses and jumps of the clock."""
    simulate(database_url, range(first, first + BLOCK))


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_many_histories_are_safe_and_converge(database_url: str) -> None:
    """The same for as many seeds as asked for: FRESHLINE_SIM_SEEDS, from FRESHLINE_SIM_FIRST."""
    first = int(os.environ.get("FRESHLINE_SIM_FIRST", "0"))
    simulate(database_url, range(first, first + int(os.environ.get("FRESHLINE_SIM_SEEDS", "200"))))
