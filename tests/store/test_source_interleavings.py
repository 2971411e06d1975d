"""Skipping a delivery and forgetting an asset, beside every transaction that shares their rows, in all orders.

Afterwards: nobody deadlocked, nothing is half done, nobody is forgotten, and the doctor finds nothing. The gate plays
the dangerous pairs with one switch inside a transaction; `make full` plays all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from freshline.errors import ConflictError, FencedError, NotFoundError
from freshline.model.run import ClaimedRun
from freshline.services.reconciler import Reconciler
from freshline.store.db.ids import new_id
from tests.store.saved import Saved
from tests.store.schedule import Act, Stage, Trace, long_timeout_laboratory, stepped
from tests.store.test_interleavings import FORBIDDEN
from tests.store_harness import Lab, workflow

DROP = {"assetId": "drop", "mode": "append"}
LOAD = workflow("load", [{"assetId": "drop", "rows": "new"}], backoff={"baseMs": 600_000, "maxMs": 600_000})
OLD = workflow("old", "drop")
ERROR = {"code": "job", "message": "delivery 2 cannot be read"}
# What a crash or a lost lock would leave of a forgotten asset.
REMAINS = """
SELECT 'snapshots' AS what FROM snapshots WHERE asset_id = 'old'
UNION ALL SELECT 'heads' FROM heads WHERE asset_id = 'old'
UNION ALL SELECT 'timers' FROM timers WHERE asset_id = 'old'
UNION ALL SELECT 'edges' FROM edges WHERE asset_id = 'old'
UNION ALL SELECT 'inbox' FROM inbox WHERE asset_id = 'old'
"""


class Place:
    """A source with three deliveries whose consumer has failed, a run of it, and an asset that nobody uses."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.stage = Stage(lab)
        lab.apply(LOAD, OLD, sources=(DROP,))
        lab.report("drop", "1")
        lab.work()
        lab.apply(LOAD, sources=(DROP,))
        lab.report("drop", "2")
        lab.settle()
        lab.fail(lab.start(), "delivery 2 cannot be read")
        lab.settle()
        self.cooling = self._scene("cooling")
        lab.advance(hours=1)
        lab.settle()
        self.queued = self._scene("queued")
        self.run: ClaimedRun = lab.start()
        self.held = self._scene("held")

    def _scene(self, name: str) -> Saved:
        """Save a state with an unconsumed report."""
        self.lab.report("drop", f"{name} 3")
        return Saved(self.lab, name)

    def acts(self, names: tuple[str, str]) -> dict[str, Act]:
        """Return one act for each name; equal names are made distinct."""
        return {f"{name}{'+' * names[:number].count(name)}": self._act(name) for number, name in enumerate(names)}

    def _act(self, name: str) -> Act:
        lab, store, run = self.lab, self.lab.store, self.run
        known: dict[str, Act] = {
            "absorb": lambda: store.evaluation.consume_inbox(10),
            "apply": lambda: lab.apply({**LOAD, "quietHours": [{"from": "01:00", "to": "02:00"}]}, sources=(DROP,)),
            "back": lambda: lab.apply(LOAD, OLD, sources=(DROP,)),
            "claim": lambda: store.runs.claim(lab.claimant(new_id())),
            "fail": lambda: store.runs.fail(run.id, 1, ERROR),
            "forget": lambda: store.operations.forget("old"),
            "outside": lambda: lab.report("old", "9"),
            "pause": lambda: store.operations.pause("load"),
            "publish": lambda: lab.finish(run),
            "reconcile": Reconciler(store).run_once,
            "report": lambda: lab.report("drop", "4"),
            "rescue": lambda: store.runs.rescue(10),
            "reset": lambda: store.operations.reset("load"),
            "skip": lambda: store.operations.skip_delivery("drop", 2, "damaged"),
        }
        return known[name]

    def play(self, names: tuple[str, str], *, switches: int) -> int:
        """Run and check every schedule; return how many there were."""
        scene = self.held if set(names) & {"fail", "publish", "rescue"} else self.queued
        played = 0
        for before in (scene, self.cooling) if scene is self.queued else (scene,):
            for trace in self.stage.explore(self.acts(names), switches=switches, before=before.restore, most=3_000):
                self._check(trace, names)
                played += 1
        return played

    def _check(self, trace: Trace, names: tuple[str, str]) -> None:
        lab = self.lab
        refused = (FencedError, NotFoundError, ConflictError) if "forget" in names else (FencedError,)
        for actor in trace.actors:
            assert actor.error is None or isinstance(actor.error, refused), f"{actor.name}: {actor.error!r}: {trace}"
        assert lab.rows(FORBIDDEN) == [], f"{trace}"
        assert lab.forgotten() == 0, f"somebody is forgotten: {trace}"
        if "skip" in names:
            skipped = [one["number"] for one in lab.store.reader.deliveries("drop") if "skipped" in one]
            assert skipped == [2], f"{trace}"
        if "forget" in names and not lab.rows("SELECT 1 FROM assets WHERE id = 'old'"):
            assert lab.rows(REMAINS) == [], f"{trace}"


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


BESIDE_SKIP = ("absorb", "apply", "claim", "fail", "pause", "publish", "reconcile", "report", "rescue", "reset", "skip")
BESIDE_FORGET = ("absorb", "apply", "back", "forget", "outside", "reconcile", "report")
DANGEROUS = {("fail", "skip"), ("forget", "outside")}
PAIRS = [
    *(tuple(sorted((one, "skip"))) for one in BESIDE_SKIP),
    *(tuple(sorted((one, "forget"))) for one in BESIDE_FORGET),
]


@pytest.mark.parametrize(
    "names",
    [pytest.param(pair, marks=() if pair in DANGEROUS else pytest.mark.full) for pair in PAIRS],
    ids="-".join,
)
def test_a_switch_inside_every_pair(play: Callable[..., int], names: tuple[str, str]) -> None:
    """One switch at each place of either transaction."""
    assert play(names, switches=1) >= 2
