"""Transactions about partitions and backfills beside each other, in all orders of their statements with one switch.

Afterwards: nobody deadlocked, changes are numbered in their order, digests are those of the heads, nothing is
forgotten, and every partition reaches the current inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from freshline.errors import FencedError
from freshline.model.backfill import OPEN, BackfillPolicy, BackfillRequest
from freshline.model.run import ClaimedRun
from freshline.services.reconciler import Reconciler
from freshline.store.evaluation import notes, partitions
from tests.scenarios.test_partitions import divided
from tests.store.saved import Saved
from tests.store.schedule import Act, Stage, Trace, long_timeout_laboratory, stepped
from tests.store_harness import Lab

DAYS: dict[str, Any] = {"time": "day", "start": "2025-12-30"}
ONE, TWO = "2025-12-30", "2025-12-31"
SOURCES = ({"assetId": "raw", "partitioning": DAYS},)
DAILY = divided("daily", {"raw": None, "fx": None}, DAYS)
URGENT = divided("daily", {"raw": None, "fx": None}, DAYS, auto={"onUpstreamUpdate": True, "priority": 50})
TOTAL = divided("total", {"daily": None})
FORBIDDEN = """
SELECT 'two active runs' AS what FROM runs WHERE status IN ('queued', 'running') AND trigger_type <> 'manual'
 GROUP BY workflow_id, partition_key HAVING count(*) > 1
UNION ALL
SELECT 'a head without its snapshot' FROM heads h
  LEFT JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
 WHERE s.data_version IS DISTINCT FROM h.data_version
"""
NOTED = "SELECT 1 FROM considerations WHERE partition_key = '' AND keys_left IS NOT NULL"
DIGESTS = """
SELECT d.asset_id FROM asset_digests d
 WHERE (d.keys, d.digest) <> (SELECT count(*), coalesce(sum(freshline_digest(h.partition_key, h.data_version)), 0)
                                FROM heads h WHERE h.asset_id = d.asset_id AND h.partition_key <> '')
UNION ALL
SELECT asset_id FROM snapshots WHERE change IS NOT NULL GROUP BY asset_id, change HAVING count(DISTINCT run_id) > 1
"""
BEHIND = """
SELECT p.partition_key FROM workflow_partitions p JOIN workflows w ON w.id = p.workflow_id AND w.slug = 'daily'
  JOIN heads f ON f.asset_id = 'fx' JOIN heads r ON (r.asset_id, r.partition_key) = ('raw', p.partition_key)
 WHERE p.consumed_versions -> 'fx' ->> 'dataVersion' <> f.data_version
    OR p.consumed_versions -> ('raw@' || p.partition_key) ->> 'dataVersion' <> r.data_version
"""
DANGEROUS = [
    ("publish-one", "publish-two"),
    ("report-one", "report-two"),
    ("create", "absorb"),
    ("advance", "cancel"),
]
OTHERS = [
    ("expand", "apply"),
    ("report-one", "report-one"),
    ("publish-one", "report-one"),
    ("publish-one", "reconcile"),
    ("create", "publish-one"),
    ("advance", "advance"),
    ("advance", "reconcile"),
    ("cancel", "reconcile"),
    ("expand", "change"),
    ("expand", "expand"),
    ("expand", "publish-one"),
    ("expand", "sweep"),
]


class Place:
    """Two days whose runs are going on, a change of what every day reads, a note about it, and a backfill."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.stage = Stage(lab)
        lab.apply(DAILY, TOTAL, sources=SOURCES)
        lab.report("fx", "v1")
        for day in (ONE, TWO):
            lab.report("raw", "v1", partition_key=day)
        lab.settle()
        self.runs: list[ClaimedRun] = sorted((lab.start(), lab.start()), key=lambda run: run.partition_key)
        lab.report("fx", "v2")
        self.changed = Saved(lab, "changed")
        lab.store.evaluation.consume_inbox(10)
        lab.reconciler.run_once()
        self.noted = Saved(lab, "noted")
        self.backfill_id = lab.store.backfills.create(request())
        lab.store.backfills.advance()
        self.backfilled = Saved(lab, "backfilled")

    def acts(self, names: tuple[str, str]) -> dict[str, Act]:
        """Return one act for each name; equal names are made distinct."""
        return {f"{name}{'+' * names[:number].count(name)}": self._act(name) for number, name in enumerate(names)}

    def _act(self, name: str) -> Act:
        lab, store = self.lab, self.lab.store
        one, two = self.runs
        known: dict[str, Act] = {
            "absorb": lambda: store.evaluation.consume_inbox(10),
            "advance": store.backfills.advance,
            "apply": lambda: lab.apply(URGENT, TOTAL, sources=SOURCES),
            "cancel": lambda: store.backfills.cancel(self.backfill_id),
            "change": lambda: (lab.report("fx", "v3"), store.evaluation.consume_inbox(10)),
            "create": lambda: store.backfills.create(request()),
            "expand": Reconciler(store).run_once,
            "publish-one": lambda: lab.finish(one),
            "publish-two": lambda: lab.finish(two),
            "reconcile": Reconciler(store).run_once,
            "report-one": lambda: lab.report("raw", "v2", partition_key=ONE),
            "report-two": lambda: lab.report("raw", "v2", partition_key=TWO),
            "sweep": store.evaluation.sweep,
        }
        return known[name]

    def play(self, names: tuple[str, str]) -> int:
        """Run and check every schedule with one switch; return how many there were."""
        before = self.backfilled if set(names) & {"advance", "cancel"} else self.changed
        before = self.noted if "expand" in names else before
        played = 0
        for trace in self.stage.explore(self.acts(names), switches=1, before=before.restore, most=500):
            self._check(trace)
            played += 1
        return played

    def _check(self, trace: Trace) -> None:
        lab = self.lab
        for actor in trace.actors:
            assert actor.error is None or isinstance(actor.error, FencedError), (
                f"{actor.name}: {actor.error!r}: {trace}"
            )
        assert lab.rows(FORBIDDEN) == [], f"{trace}"
        assert lab.rows(DIGESTS) == [], f"{trace}"
        assert lab.forgotten() == 0, f"a partition is forgotten: {trace}"
        for run in self.runs:
            if lab.one("SELECT status FROM runs WHERE id = %s", run.id) == "running":
                lab.finish(run)
        lab.work()
        assert lab.rows(BEHIND) == [], f"{trace}"
        assert lab.forgotten() == 0, f"a partition is forgotten at the end: {trace}"
        assert lab.rows("SELECT 1 FROM considerations WHERE partition_key = '' AND keys_left IS NOT NULL") == [], (
            f"{trace}"
        )
        assert not lab.store.backfills.list(statuses=tuple(OPEN)), f"a backfill does not end: {trace}"


def request() -> BackfillRequest:
    """Return a backfill of two days, one after the other."""
    return BackfillRequest("daily", keys=(ONE, TWO), policy=BackfillPolicy(concurrency=1))


@pytest.fixture(scope="module")
def place(module_database_url: str) -> Iterator[Place]:
    """Yield a place whose notes are expanded two partitions at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitions, "MOST_NOTED", 2)
        patch.setattr(notes, "MOST_NOTED", 2)
        with long_timeout_laboratory(module_database_url) as lab:
            found = Place(lab)
            yield found
            found.stage.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("names", DANGEROUS, ids="-".join)
def test_partitions_beside_each_other(place: Place, monkeypatch: pytest.MonkeyPatch, names: tuple[str, str]) -> None:
    """Every order with one switch inside a transaction ends well."""
    with stepped(monkeypatch):
        assert place.play(names) > 2


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("names", OTHERS, ids="-".join)
def test_other_pairs_of_partitions(place: Place, monkeypatch: pytest.MonkeyPatch, names: tuple[str, str]) -> None:
    """The same for pairs that share fewer rows."""
    with stepped(monkeypatch):
        assert place.play(names) > 2
