"""An answer about rows of older code beside a run that appends to the table, in all orders (docs/semantics.md#R9.9).

Afterwards nothing waits for a decision, and the rows of the run count as those of its own code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.scenarios.test_older_code import FILES, begin, loads, staged, undecided, work
from tests.store.saved import Saved
from tests.store.schedule import Act, Stage, long_timeout_laboratory, stepped
from tests.store_harness import Lab


class Place:
    """A table with rows of two codes, and a run of the new one that is ready to publish."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.stage = Stage(lab)
        begin(lab)
        lab.apply(loads("better"), sources=(FILES,))
        work(lab)
        lab.report("files", "3")
        lab.settle()
        self.run = lab.start()
        self.outputs = staged(self.run)
        self.before = Saved(lab, "before")

    def play(self) -> int:
        """Run and check every schedule; return how many there were."""
        acts: dict[str, Act] = {
            "accept": lambda: self.lab.store.operations.accept("orders"),
            "publish": lambda: self.lab.store.runs.publish(self.run, self.outputs),
        }
        played = 0
        for trace in self.stage.explore(acts, switches=1, before=self.before.restore, most=500):
            assert [actor.error for actor in trace.actors] == [None, None], f"{trace}"
            assert undecided(self.lab)[1] is None, f"the answer is lost: {trace}"
            (head,) = self.lab.rows("SELECT * FROM snapshots ORDER BY sequence DESC LIMIT 1")
            accepted = [(part["rows"], "forVersion" in part) for part in head["code"]]
            assert accepted == [(300, True), (100, False)], f"{trace}"
            played += 1
        return played


@pytest.fixture
def play(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """Return a function that runs schedules with stepped statements."""
    with long_timeout_laboratory(database_url) as lab:
        place = Place(lab)
        with stepped(monkeypatch):
            yield place.play
        place.stage.close()


def test_an_answer_beside_a_run_that_publishes(play: Callable[[], int]) -> None:
    """One switch at each place of either transaction."""
    assert play() >= 4
