"""The simulator passes over changes of columns as the store does (docs/semantics.md#R1.6)."""

from __future__ import annotations

import random

import pytest

from freshline.model.column_sets import set_key
from freshline.model.run import ClaimedRun
from freshline.simulation import Run
from tests.simulation.histories import Both, named
from tests.simulation.test_equality import play
from tests.store_harness import Lab

READ = ("a", "b")
SEEDS = (7, 10)  # with many changes that are passed over
MORE = range(5_000, 5_100)
PASSED_OVER = "SELECT count(*) FROM decisions WHERE evidence::text LIKE '%%unread%%'"


class ColumnsBoth(Both):
    """Most runs read two columns of their inputs, and most versions are equal in these."""

    def publish(self, theirs: ClaimedRun, mine: Run, versions: dict[str, str]) -> None:
        """Publish with versions of sets. Equal data has equal ones; some have none, or those of another set."""
        columns = {asset_id: _columns(asset_id, version) for asset_id, version in versions.items()}
        reads = self.simulator.catalogue.find(mine.slug).inputs
        self.lab.finish(theirs, columns=columns, reads=dict.fromkeys(reads, READ), **named(versions))
        self.simulator.succeed(mine, versions, columns=columns, reads=dict.fromkeys(reads, set_key(READ)))


def _columns(asset_id: str, version: str) -> dict[str, str]:
    luck = random.Random(f"{asset_id} {version}")  # noqa: S311 - a seed, not a secret
    key, found = luck.choice((*[READ] * 9, ("c",))), luck.choice((*"1111112", ""))
    return {set_key(key): found} if found else {}


@pytest.mark.parametrize("seed", SEEDS)
def test_random_histories_with_columns_give_the_same(lab: Lab, seed: int) -> None:
    """Decisions, consumed versions, waits and runs; and some changes are passed over."""
    play(lab, seed, ColumnsBoth)
    assert lab.one(PASSED_OVER) > 0


@pytest.mark.full
@pytest.mark.parametrize("seed", MORE)
def test_many_histories_with_columns(lab: Lab, seed: int) -> None:
    """The same, for long."""
    play(lab, seed, ColumnsBoth)
