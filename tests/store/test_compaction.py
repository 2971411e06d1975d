"""Compaction joins old deliveries into chunks and loses nothing (docs/semantics.md#R3.4).

The interleavings play compaction, reports, skips and readers of one source in every order of their statements.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations_with_replacement
from typing import Any

import pytest

from freshline.errors import KeyReusedError
from freshline.model.deliveries import Deliveries
from freshline.model.documents.asset import Delivery
from freshline.model.run import ClaimedRun
from freshline.services.pruner import Pruner
from freshline.store.retention import compaction
from freshline.store.retention.compaction import FIRST_SOURCE, Source
from tests.store.saved import Saved
from tests.store.schedule import Act, Stage, Trace, long_timeout_laboratory, stepped
from tests.store_harness import Lab, laboratory, many_deliveries, workflow

KEEP = 30
CHUNK = 3
DROP = {"assetId": "drop", "mode": "append"}
ACTS = ("compact", "read", "report", "repeat", "skip")
PAIRS = list(combinations_with_replacement(ACTS, 2))


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a source with a consumer."""
    with laboratory(database_url) as lab:
        lab.apply(workflow("load", "drop"), sources=(DROP,))
        yield lab


def deliver(lab: Lab, *numbers: int) -> None:
    """Report batches with keys."""
    for number in numbers:
        lab.report("drop", f"batch-{number}", key=f"k{number}", payload={"n": number}, sequence=number)


def compact(lab: Lab, chunk: int = CHUNK) -> int:
    """Compact until nothing is left to join; return how many deliveries were joined."""
    joined, place = 0, FIRST_SOURCE
    while True:
        page = lab.store.retention.compact_deliveries(KEEP, 10, place, chunk=chunk)
        joined += page.deliveries
        if page.next is None:
            return joined
        place = page.next


def shape(lab: Lab) -> list[int]:
    """Return the sizes of the rows, in order."""
    rows = lab.rows("SELECT jsonb_array_length(items) AS size FROM deliveries ORDER BY asset_id, last_number")
    return [row["size"] for row in rows]


def everything(lab: Lab) -> list[Delivery]:
    """Return all facts about all deliveries, newest first."""
    return lab.store.reader.deliveries("drop", 1_000)


def read(lab: Lab, run: ClaimedRun) -> list[int]:
    """Return the numbers of the deliveries that a run reads."""
    known = run.inputs["drop"].deliveries
    assert known is not None
    return [one.number for one in Deliveries(known, partial(lab.store.runs.deliveries, "drop", ""))]


def test_nothing_is_lost(lab: Lab) -> None:
    """Every field of every delivery stays, skip marks and keys included, and a run that was pinned before goes on."""
    deliver(lab, 1, 2, 3, 4, 5, 6, 7)
    lab.store.operations.skip_delivery("drop", 2, "damaged")
    lab.settle()
    run = lab.start()
    before = everything(lab)
    lab.finish(run)
    lab.advance(hours=2)
    assert compact(lab) == 6
    assert shape(lab) == [3, 3, 1]
    assert everything(lab) == before
    assert [one["number"] for one in lab.store.reader.deliveries("drop", 3, before=6)] == [5, 4, 3]
    assert read(lab, run) == [1, 3, 4, 5, 6, 7]
    again = lab.report("drop", "batch-2", key="k2", payload={"n": 2}, sequence=2)
    assert (again["duplicate"], again["delivery"]) == (True, 2)
    with pytest.raises(KeyReusedError, match="with another payload"):
        lab.report("drop", "batch-2", key="k2", payload={"n": 3}, sequence=2)
    deliver(lab, 8)
    assert everything(lab)[0]["number"] == 8


def test_a_joined_delivery_can_be_skipped(lab: Lab) -> None:
    """The next full refresh leaves it out; others of the same row stay."""
    deliver(lab, 1, 2, 3)
    lab.work()
    lab.advance(hours=2)
    assert compact(lab) == 3
    skipped = lab.store.operations.skip_delivery("drop", 2, "wrong prices")
    assert (skipped["number"], skipped["skipped"]["reason"]) == (2, "wrong prices")
    lab.store.operations.request_run("load", full_refresh=True)
    assert read(lab, lab.start_of("load")) == [1, 3]


def test_what_a_consumer_has_not_read_is_joined_after_the_retention(lab: Lab) -> None:
    """A consumer that is paused for ever does not let the list grow for ever."""
    lab.apply(workflow("load", "drop"), workflow("other", "drop"), sources=(DROP,))
    deliver(lab, 1, 2, 3)
    lab.store.operations.pause("other")
    assert lab.work() == ["load"]
    assert compact(lab) == 0
    lab.advance(days=KEEP - 1)
    assert compact(lab) == 0
    lab.advance(days=2)
    assert compact(lab) == 3
    lab.store.operations.resume("other")
    lab.settle()
    assert read(lab, lab.start_of("other")) == [1, 2, 3]


def test_only_whole_chunks_of_an_hour_are_joined(lab: Lab) -> None:
    """A row is written at most twice, however often the pruner looks."""
    deliver(lab, 1, 2)
    lab.advance(hours=2)
    deliver(lab, 3)
    lab.work()
    assert compact(lab) == 0
    lab.advance(hours=2)
    assert (compact(lab), compact(lab)) == (3, 0)


def test_large_deliveries_make_small_chunks(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row has about a megabyte at most, and a page of them fits into one message."""
    monkeypatch.setattr(compaction, "MAX_CHUNK_BYTES", 300_000)
    for _ in range(7):
        lab.report("drop", payload={"text": "x" * 200_000})
    lab.work()
    lab.advance(hours=2)
    compact(lab, chunk=4)
    assert shape(lab) == [2, 2, 1, 1, 1]
    monkeypatch.setattr("freshline.store.runs.runs.MAX_PAGE_BYTES", 300_000)
    assert [one.number for one in lab.store.runs.deliveries("drop", "", 1, 7)] == [1, 2]
    assert [one.number for one in lab.store.runs.deliveries("drop", "", 4, 4)] == [4]
    lab.store.operations.request_run("load")
    assert read(lab, lab.start()) == [1, 2, 3, 4, 5, 6, 7]


def test_sources_are_visited_in_pages(lab: Lab) -> None:
    """Each source once per tour, also those with nothing to join."""
    names = [f"s{number}" for number in range(5)]
    sources = tuple({"assetId": name, "mode": "append"} for name in names)
    lab.apply(*(workflow(f"w{name}", name) for name in names), sources=sources)
    for name in ("s1", "s3", "s4"):
        lab.report(name)
    page = lab.store.retention.compact_deliveries(KEEP, 2)
    assert page.next == Source("s3")
    assert lab.store.retention.compact_deliveries(KEEP, 2, page.next).next is None


def test_the_pruner_joins_a_thousand(lab: Lab) -> None:
    """The service does it, with chunks of 1,000, and rests when nothing is left."""
    many_deliveries(lab, "drop", 2_500)
    lab.advance(days=KEEP + 1)
    pruner = Pruner(lab.store)
    while pruner.run_once():
        pass
    assert shape(lab) == [1_000, 1_000] + [1] * 500
    assert [one.number for one in lab.store.runs.deliveries("drop", "", 990, 2_500)] == list(range(990, 1_990))


class Scene:
    """A source with four deliveries that are due to be joined, and what is done to it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.stage = Stage(lab)
        lab.apply(workflow("load", "drop"), sources=(DROP,))
        deliver(lab, 1, 2, 3, 4)
        lab.settle()
        self.run = lab.start()
        lab.finish(self.run)
        lab.advance(hours=2)
        self.before = everything(lab)
        self._saved = Saved(lab, "drop")

    def acts(self, names: tuple[str, str]) -> dict[str, Act]:
        """Return one act for each name; equal names are made distinct."""
        lab = self.lab
        known: dict[str, Act] = {
            "compact": lambda: lab.store.retention.compact_deliveries(KEEP, 10, chunk=CHUNK),
            "read": lambda: read(lab, self.run),
            "repeat": lambda: deliver(lab, 2),
            "report": lambda: deliver(lab, 5),
            "skip": lambda: lab.store.operations.skip_delivery("drop", 2, "damaged"),
        }
        return {f"{name}{'+' * names[:number].count(name)}": known[name] for number, name in enumerate(names)}

    def play(self, names: tuple[str, str], *, switches: int) -> int:
        """Run and check every schedule; return how many there were."""
        played = 0
        for trace in self.stage.explore(self.acts(names), switches=switches, before=self._saved.restore, most=2_000):
            self._check(trace, names)
            played += 1
        return played

    def _check(self, trace: Trace, names: tuple[str, str]) -> None:
        for actor in trace.actors:
            assert actor.error is None, f"{actor.name}: {actor.error!r}: {trace}"
            assert not actor.name.startswith("read") or actor.result == [1, 2, 3, 4], f"{trace}"
        found: list[Any] = everything(self.lab)[::-1]
        skipped = [one["number"] for one in found if "skipped" in one]
        assert skipped == ([2] if "skip" in names else []), f"{trace}"
        assert [one["number"] for one in found] == [1, 2, 3, 4, *([5] if "report" in names else [])], f"{trace}"
        kept = [{name: value for name, value in one.items() if name != "skipped"} for one in found]
        assert kept[:4] == self.before[::-1], f"{trace}"
        assert set(shape(self.lab)) <= {1, CHUNK}, f"{trace}"


@pytest.fixture(scope="module")
def scene(module_database_url: str) -> Iterator[Scene]:
    """Yield one database for all schedules."""
    with long_timeout_laboratory(module_database_url) as lab:
        scene = Scene(lab)
        yield scene
        scene.stage.close()


@pytest.mark.parametrize("name", ACTS)
def test_a_switch_inside_compaction(scene: Scene, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Whoever reads, reports or skips meanwhile finds every delivery."""
    with stepped(monkeypatch):
        assert scene.play(("compact", name), switches=1) >= 4


@pytest.mark.full
@pytest.mark.parametrize("names", PAIRS, ids="-".join)
def test_two_switches_inside_every_pair(scene: Scene, monkeypatch: pytest.MonkeyPatch, names: tuple[str, str]) -> None:
    """There and back again, at each place."""
    with stepped(monkeypatch):
        assert scene.play(names, switches=2) >= 2
