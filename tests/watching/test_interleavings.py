"""What is done to a watch, in every order of statements, on real connections.

Afterwards: nobody deadlocked, every file is one delivery with one event, and the next look finds nothing new. Of a
source with partitions each of them has one version, with one event. The gate
plays the dangerous pairs with one switch inside a transaction; `make full` plays every pair with two.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement

import pytest

from freshline.errors import FencedError
from freshline.model.watch import Found, Look, SeenFile
from freshline.store.watches.watches import ClaimedWatch, Looked
from tests.store.saved import Saved
from tests.store.schedule import Act, Stage, Trace, long_timeout_laboratory, stepped
from tests.store_harness import Lab, workflow

SOURCE = "files"
WATCH = {"files": "drop/*.csv"}
PATHS = ("drop/a.csv", "drop/b.csv")
KEYS = ("2025-01-02", "2025-01-31")
EVERY_MS = 30_000
CONSUMER = workflow("b", SOURCE)
ACTS = ("apply", "fail", "late", "note", "release", "report", "turn")
DANGEROUS = [("late", "turn"), ("turn", "turn"), ("apply", "late"), ("late", "report"), ("late", "release")]
PAIRS = list(combinations_with_replacement(ACTS, 2))


class Place:
    """A watch that a process has claimed, whose lease is over, with two new files."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.stage = Stage(lab)
        self._apply(EVERY_MS)
        self._report(0)
        (self._held,) = self._claimed()
        lab.advance(hours=1)
        self.scene = Saved(lab, "watch")

    def acts(self, names: tuple[str, str]) -> dict[str, Act]:
        """Return one act for each name; equal names are made distinct."""
        store = self.lab.store.watches
        known: dict[str, Act] = {
            "apply": lambda: self._apply(10_000),
            "fail": lambda: store.fail(self._held, "planted"),
            "late": lambda: self._record(self._held),
            "note": lambda: store.note([Looked(self._held, Look((), {}, "nothing"), 1)]),
            "release": lambda: store.release([self._held]),
            "report": lambda: self._report(1),
            "turn": self.turn,
        }
        return {f"{name}{'+' * names[:number].count(name)}": known[name] for number, name in enumerate(names)}

    def turn(self) -> None:
        """Claim what is due, and record what a look finds."""
        for watch in self._claimed():
            self._record(watch)

    def play(self, names: tuple[str, str], *, switches: int) -> int:
        """Run and check every schedule of these."""
        played = 0
        for trace in self.stage.explore(self.acts(names), switches=switches, before=self.scene.restore, most=3_000):
            self._check(trace)
            played += 1
        return played

    def _check(self, trace: Trace) -> None:
        for actor in trace.actors:
            assert actor.error is None or isinstance(actor.error, FencedError), f"{actor.name}: {actor.error!r}"
        self.lab.advance(hours=1)
        self.turn()
        self._require_once(trace)

    def _require_once(self, trace: Trace) -> None:
        rows = self.lab.rows(
            "SELECT i.item ->> 'key' AS key FROM deliveries d, jsonb_array_elements(d.items) AS i (item)"
            " WHERE asset_id = %s AND i.item -> 'payload' ? 'path'",
            SOURCE,
        )
        assert sorted(row["key"] for row in rows) == sorted(PATHS), f"{trace}"
        events = "SELECT count(*) FROM events WHERE type = 'asset.produced' AND data -> 'payload' ? 'path'"
        assert self.lab.one(events) == 2, f"{trace}"
        assert self.lab.one("SELECT count(*) FROM watched_files WHERE state = 'delivered'") == 2, f"{trace}"

    def _apply(self, every_ms: int) -> None:
        watch = {**WATCH, "everyMs": every_ms}
        self.lab.apply(CONSUMER, sources=({"assetId": SOURCE, "mode": "append", "watch": watch},))

    def _report(self, number: int) -> None:
        self.lab.report(SOURCE, str(number), key=f"by hand {number}")

    def _claimed(self) -> list[ClaimedWatch]:
        return self.lab.store.watches.claim(("files",), 10)

    def _record(self, watch: ClaimedWatch) -> None:
        """Record a look that sees both files, and reports those that are not stored yet."""
        stored = self.lab.store.watches.files(SOURCE, PATHS)
        new = [path for path in PATHS if path not in stored]
        look = Look(
            tuple(Found(path, None, {"path": path}) for path in new),
            {"started": True},
            "2 files match.",
            seen=tuple(SeenFile(path, 1, "1", "delivered") for path in new),
        )
        self.lab.store.watches.record(Looked(watch, look, 1))


class DividedPlace(Place):
    """The same of a source with partitions, two of which have new files. An apply moves their range."""

    def _apply(self, every_ms: int) -> None:
        watch = {"files": "drop/dt={partitionKey}/*.csv", "everyMs": 30_000}
        days = {"time": "day", "start": "2025-01-01" if every_ms == EVERY_MS else "2024-01-01"}
        self.lab.apply(CONSUMER, sources=({"assetId": SOURCE, "watch": watch, "partitioning": days},))

    def _report(self, number: int) -> None:
        self.lab.report(SOURCE, f"{number} by hand", partition_key="2025-01-31")

    def _record(self, watch: ClaimedWatch) -> None:
        """Record a look that sees files of both partitions, and reports those whose digests are not stored yet."""
        known = (watch.position or {}).get("partitions", {})
        new = [key for key in KEYS if key not in known]
        look = Look(
            tuple(Found(f"files:{key}", f"digest of {key}", {"files": 1}, partition_key=key) for key in new),
            {"partitions": known | dict.fromkeys(new, "digest"), "last": new},
            "2 files match.",
        )
        self.lab.store.watches.record(Looked(watch, look, 1))

    def _require_once(self, trace: Trace) -> None:
        found = self.lab.rows(
            "SELECT partition_key AS key FROM snapshots WHERE data_version LIKE 'digest%%' ORDER BY 1"
        )
        assert [row["key"] for row in found] == list(KEYS), f"{trace}"
        events = "SELECT count(*) FROM events WHERE type = 'asset.produced' AND data -> 'payload' ? 'files'"
        assert self.lab.one(events) == 2, f"{trace}"


@pytest.fixture(scope="module")
def place(module_database_url: str) -> Iterator[Place]:
    """Yield one database for all tests."""
    with long_timeout_laboratory(module_database_url) as lab:
        place = Place(lab)
        yield place
        place.stage.close()


@pytest.fixture
def divided(database_url: str) -> Iterator[Place]:
    """Yield a source with partitions."""
    with long_timeout_laboratory(database_url) as lab:
        place = DividedPlace(lab)
        yield place
        place.stage.close()


@pytest.mark.parametrize("names", DANGEROUS, ids="-".join)
def test_a_switch_inside_a_dangerous_pair(
    place: Place, names: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One switch at each place of either transaction."""
    with stepped(monkeypatch):
        assert place.play(names, switches=1) >= 2


@pytest.mark.parametrize("names", DANGEROUS, ids="-".join)
def test_a_switch_inside_a_dangerous_pair_of_a_source_with_partitions(
    divided: Place, names: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One switch at each place of either transaction."""
    with stepped(monkeypatch):
        assert divided.play(names, switches=1) >= 2


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("names", PAIRS, ids="-".join)
def test_two_switches_inside_every_pair(place: Place, names: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """There and back again, at each place."""
    with stepped(monkeypatch):
        place.play(names, switches=2)
