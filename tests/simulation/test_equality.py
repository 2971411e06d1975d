"""The simulator is equal to the store and the services."""

from __future__ import annotations

import pytest

from tests.simulation.facts import decisions, remembered, stored, stored_decisions
from tests.simulation.histories import Both
from tests.simulation.partition_histories import PartitionedBoth
from tests.store_harness import Lab

STEPS = 70
# A missed wake-up shows in one history of fifty. Every bug planted by tests/mutants/simulation.toml shows in these.
TELLING = (3, 40, 58, 81, 99, 112, 128, 147, 174, 233, 244)
ANY = range(1_000, 1_006)
MORE = range(2_000, 2_200)


def play(lab: Lab, seed: int, kind: type[Both] = Both, *, groups: int | None = None) -> None:
    """Compare a random history in the store and the simulator: all facts after every step, and all decisions."""
    both = kind(lab, seed, groups=groups)
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


GROUPED = range(5_001, 5_009)
MANY_GROUPED = range(6_000, 6_200)


@pytest.mark.parametrize("seed", GROUPED)
def test_a_random_history_with_groups_gives_the_same(seed: int, lab: Lab) -> None:
    """Sources that are reported together, alone, and in several groups (docs/semantics.md#R4.7)."""
    play(lab, seed, groups=2 + seed % 3)


@pytest.mark.full
@pytest.mark.parametrize("seed", MANY_GROUPED)
def test_many_random_histories_with_groups_give_the_same(seed: int, lab: Lab) -> None:
    """The same, for long."""
    play(lab, seed, groups=2 + seed % 3)


PARTITIONED = range(3_001, 3_005)
PARTITIONED_STEPS = 20  # a step with partitions takes ten times as long as one without
MANY_PARTITIONED = range(4_000, 4_200)


def play_partitions(lab: Lab, seed: int, steps: int) -> None:
    """Compare a random history with partitions and backfills."""
    both = PartitionedBoth(lab, seed)
    for _ in range(steps):
        compare(lab, both, seed)
        try:
            both.step()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}, after: " + "; ".join(both.told)) from error
    compare(lab, both, seed)
    assert decisions(both.said) == stored_decisions(lab), f"seed {seed}: " + "; ".join(both.told)


def compare(lab: Lab, both: PartitionedBoth, seed: int) -> None:
    """Assert that both know the same."""
    theirs, mine = stored(lab), remembered(both.simulator, both.said)
    for name, facts in theirs.items():
        assert mine[name] == facts, f"seed {seed}, {name} after: " + "; ".join(both.told)


@pytest.mark.parametrize("seed", PARTITIONED)
def test_a_random_history_with_partitions_gives_the_same(seed: int, lab: Lab) -> None:
    """Partitions of all kinds, late data, new windows, failures, and backfills with all their policies."""
    play_partitions(lab, seed, PARTITIONED_STEPS)


@pytest.mark.full
@pytest.mark.parametrize("seed", MANY_PARTITIONED)
def test_many_random_histories_with_partitions_give_the_same(seed: int, lab: Lab) -> None:
    """The same, for long."""
    play_partitions(lab, seed, STEPS)
