"""The simulator is equal to the store and the services."""

from __future__ import annotations

import pytest

from tests.simulation.facts import decisions, remembered, stored, stored_decisions
from tests.simulation.histories import Both
from tests.store_harness import Lab

STEPS = 70
# A missed wake-up shows in one history of fifty. Every bug planted by tests/mutants/simulation.toml shows in these.
TELLING = (3, 40, 58, 81, 99, 112, 128, 147, 174, 233, 244)
ANY = range(1_000, 1_006)
MORE = range(2_000, 2_200)


def play(lab: Lab, seed: int) -> None:
    """Compare a random history in the store and the simulator: all facts after every step, and all decisions."""
    both = Both(lab, seed)
    both.settle()
    told: list[str] = []
    for _ in range(STEPS):
        told.append(both.step())
        theirs, mine = stored(lab), remembered(both.simulator, both.said)
        for name, facts in theirs.items():
            assert mine[name] == facts, f"seed {seed}, {name} after: " + "; ".join(told)
    assert decisions(both.said) == stored_decisions(lab), f"seed {seed}: " + "; ".join(told)


@pytest.mark.parametrize("seed", [*TELLING, *ANY])
def test_a_random_history_gives_the_same_decisions_and_runs(seed: int, lab: Lab) -> None:
    """Whatever happens, both decide the same for the same reasons at the same times, and run the same on the same."""
    play(lab, seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", MORE)
def test_many_random_histories_give_the_same(seed: int, lab: Lab) -> None:
    """The same, for long."""
    play(lab, seed)
