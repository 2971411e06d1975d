"""The in-memory world is equal to the store and the services (issue 3, part 9)."""

from __future__ import annotations

import pytest

from tests.lab import Lab
from tests.world.histories import Both

HISTORIES = 30
STEPS = 40


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_random_history_gives_the_same_decisions_and_runs(seed: int, lab: Lab) -> None:
    """Whatever happens, both worlds decide the same for the same reasons and run the same on the same versions."""
    both = Both(lab, seed)
    both.settle()
    told: list[str] = []
    for _ in range(STEPS):
        told.append(both.step())
        theirs, mine = both.runs()
        assert mine == theirs, f"seed {seed}: " + "; ".join(told)
    said, spoken = both.decisions()
    assert spoken == said, f"seed {seed}: " + "; ".join(told)
