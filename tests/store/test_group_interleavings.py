"""Groups of reports beside the transactions that bring their branches to rest, in all orders (docs/semantics.md#R4.7).

Afterwards no join has read half of a group, nobody deadlocked, and every group has settled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from freshline.errors import FencedError
from freshline.model.reports import SourceReport
from freshline.services.reconciler import Reconciler
from tests.store.saved import Saved
from tests.store.schedule import Act, Stage, Trace, long_timeout_laboratory, stepped
from tests.store.test_interleavings import FORBIDDEN
from tests.store_harness import Lab, workflow

BRANCHES = (workflow("a", "orders"), workflow("b", "lineitem"), workflow("join", "a b"))
# From which generation of each source the runs of the join stem.
STEMS = """
SELECT a.sources -> 'orders' ->> 'sequence' AS orders, b.sources -> 'lineitem' ->> 'sequence' AS lineitem, r.mixed
  FROM runs r JOIN workflows w ON w.id = r.workflow_id AND w.slug = 'join'
  JOIN snapshots a ON a.asset_id = 'a' AND a.sequence = (r.pins -> 'a' ->> 'sequence')::bigint
  JOIN snapshots b ON b.asset_id = 'b' AND b.sequence = (r.pins -> 'b' ->> 'sequence')::bigint
 WHERE r.status = 'succeeded'
"""


class Place:
    """A group whose fast branch has just come to rest, and whose slow branch is running."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.stage = Stage(lab)
        lab.apply(*BRANCHES)
        self.together("1")
        lab.work()
        self.together("2")
        lab.settle()
        fast, self.slow = lab.start_of("a"), lab.start_of("b")
        lab.finish(fast)
        self.ended = Saved(lab, "ended")
        lab.store.evaluation.consume_inbox(10)
        self.noted = Saved(lab, "noted")

    def together(self, version: str) -> None:
        """Report both sources, in the order that is not that of their locks."""
        reports = [SourceReport(one, version) for one in ("orders", "lineitem")]
        self.lab.store.operations.report_together(reports)

    def play(self, names: tuple[str, str], *, switches: int) -> int:
        """Run and check every schedule; return how many there were."""
        acts: dict[str, Act] = {
            "absorb": lambda: self.lab.store.evaluation.consume_inbox(10),
            "publish": lambda: self.lab.finish(self.slow),
            "reconcile": Reconciler(self.lab.store).run_once,
            "together": lambda: self.together("3"),
            "together+": lambda: self.together("4"),
        }
        before = self.noted if "reconcile" in names else self.ended
        played = 0
        for trace in self.stage.explore(
            {name: acts[name] for name in names}, switches=switches, before=before.restore, most=3_000
        ):
            self._check(trace)
            played += 1
        return played

    def _check(self, trace: Trace) -> None:
        lab = self.lab
        for actor in trace.actors:
            assert actor.error is None, f"{actor.name}: {actor.error!r}: {trace}"
        assert lab.rows(FORBIDDEN) == [], f"{trace}"
        lab.work()
        with suppress(FencedError):
            lab.finish(self.slow)
        lab.work()
        for row in lab.rows(STEMS):
            assert (row["orders"], row["mixed"]) == (row["lineitem"], False), f"half of a group: {trace}"
        assert lab.forgotten() == 0, f"somebody is forgotten: {trace}"
        assert lab.rows("SELECT * FROM report_groups") == [], f"a group stays open: {trace}"


@pytest.fixture(scope="module")
def place(module_database_url: str) -> Iterator[Place]:
    """Yield one database for all schedules."""
    with long_timeout_laboratory(module_database_url) as lab:
        place = Place(lab)
        yield place
        place.stage.close()


@pytest.fixture
def play(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    """Return a function that runs schedules with stepped statements."""
    with stepped(monkeypatch):
        yield place.play


PAIRS = [
    ("together", "reconcile"),
    ("publish", "reconcile"),
    ("together", "together+"),
    ("together", "publish"),
    ("together", "absorb"),
    ("publish", "absorb"),
]


@pytest.mark.parametrize(
    "names",
    [pytest.param(one, marks=pytest.mark.full if number else ()) for number, one in enumerate(PAIRS)],
    ids="-".join,
)
def test_a_switch_inside_every_pair(play: Callable[..., int], names: tuple[str, str]) -> None:
    """One switch at each place of either transaction."""
    assert play(names, switches=1) >= 2
