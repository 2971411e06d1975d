"""Properties of `latest` and `affects` on random graphs, while partitions come and data changes.

See docs/semantics.md#R13.17.
"""

from __future__ import annotations

import pytest

from freshline.partitions.declaration import Affects, All, Around, Declaration, Latest
from freshline.partitions.grain import Grain
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.requirements import ANY, Requirement
from freshline.partitions.time_partitioning import TimePartitioning
from freshline.simulation import Run
from tests.simulation.generations import Generations, TrackedSimulation
from tests.simulation.partitioned import NONE
from tests.simulation.worlds import NEW_YEAR, World, check, limited_inputs, overlapping

GATE, FULL = 60, 5_000
MINUTES = TimePartitioning(Grain.MINUTE, "2026-01-05T08:57", end="2026-01-05T09:05")


class NewestWorld(World):
    """A random catalogue with `latest` and `affects`, and with partitions that come while data changes."""

    rules = (None, None, All(), Latest(1), Latest(1), Latest(2), Around(-1, 0))

    def _partitionings(self) -> tuple[tuple[Partitioning, ...], tuple[Partitioning, ...]]:
        return NEW_YEAR, (*NEW_YEAR[1:], MINUTES, MINUTES, MINUTES, NONE)

    def _required(self, made: Partitioning) -> Requirement:  # noqa: ARG002 - as in `World`
        return ANY

    def _declared(self, above: Partitioning, below: Partitioning) -> Declaration | None:
        if not above.columns and below.columns:
            return Declaration(affects=self.rng.choice([Affects.LATEST, Affects.LATEST, Affects.NONE, Affects.ALL]))
        return super()._declared(above, below)


class NewestSimulation(TrackedSimulation):
    """A simulation in which partitions may come from different generations of an input that does not concern all."""

    def inherited(self, run: Run) -> list[Generations]:
        """Return the generations that the outputs of the run come from: those of which all partitions are equal."""
        limited = set(limited_inputs(self.catalogue, self.catalogue.members[run.workflow_id]))
        return [self.origin_of[pin.data_version] for name, pin in run.pins.items() if name not in limited]


@pytest.mark.parametrize("first", range(0, GATE, 20))
def test_random_worlds_read_the_newest_and_lose_no_change(first: int) -> None:
    """With `latest` and `affects`, while partitions come: nothing is stale, no run is needless, each mix is marked."""
    for seed in range(first, first + 20):
        check(overlapping(NewestWorld(seed), seed, NewestSimulation), seed)


@pytest.mark.full
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("first", range(0, FULL, 1_000))
def test_many_worlds_of_the_newest(first: int) -> None:
    """The same in many worlds."""
    for seed in range(first, first + 1_000):
        check(overlapping(NewestWorld(seed), seed, NewestSimulation), seed)
