"""Random histories with faults: safe at every step, and converging when the faults stop."""

from __future__ import annotations

import pytest

from tests.random_histories.ranges import simulate

BLOCK = 12
GATE = 24


@pytest.mark.parametrize("first", range(0, GATE, BLOCK))
def test_histories_are_safe_and_converge(database_url: str, first: int) -> None:
    """The guarantees of docs/guarantees.md hold in histories with crashes, pauses and jumps of the clock."""
    assert simulate(database_url, range(first, first + BLOCK)).failures == []


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_many_histories_are_safe_and_converge(database_url: str) -> None:
    """The same for more seeds; `make sim` runs as many as asked for."""
    assert simulate(database_url, range(GATE, GATE + 512)).failures == []
