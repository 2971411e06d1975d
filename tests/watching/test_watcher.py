"""The watcher: each thing is reported once, whoever looks, whatever hangs, fails or is applied meanwhile."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from freshline.model.watch import Look
from freshline.services import watcher as service
from freshline.services.rescuer import Rescuer
from freshline.services.watcher import Watcher
from freshline.store.db.ids import new_id
from freshline.store.read.status import SILENT_MS
from freshline.store.watches.watches import BREAKER_FAILURES, Watches
from tests.store_harness import workflow
from tests.waiting import wait_until
from tests.watching.harness import CONSUMER, SOURCE, Watching, watching

FILES = {"files": "drop/*.csv"}


@pytest.fixture
def place(database_url: str, tmp_path: Path) -> Iterator[Watching]:
    """Yield a project with a watched directory."""
    with watching(database_url, tmp_path) as found:
        yield found


class Gate:
    """Holds the looks of one watcher until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, held: Watcher) -> None:
        self.open = threading.Event()
        self.reached = threading.Event()
        original = service.Watcher._result

        def result(one: Watcher, running: Any) -> Look:
            look = original(one, running)
            if one is held:
                self.reached.set()
                self.open.wait()
            return look

        monkeypatch.setattr(service.Watcher, "_result", result)


def test_a_look_that_lost_its_lease_reports_nothing(place: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two materializers saw the same file. The one whose lease is over is refused, and the file is one delivery."""
    place.write("a.csv")
    place.apply()
    place.lab.advance(seconds=40)
    gate = Gate(monkeypatch, place.watcher)
    place.watcher.run_once()
    assert gate.reached.wait(10)
    place.lab.advance(minutes=5)
    other = Watcher(place.lab.store)
    place.finish(other)
    other.stop()
    assert (place.delivered(), place.events()) == (["drop/a.csv"], 1)
    gate.open.set()
    place.finish(place.watcher)
    assert (place.delivered(), place.events(), place.row()["claim"]) == (["drop/a.csv"], 1, 2)


def test_an_apply_in_between_refuses_the_look(place: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was looked at with the former block is not reported; the new block is looked at."""
    place.write("a.csv")
    place.apply()
    place.lab.advance(seconds=40)
    gate = Gate(monkeypatch, place.watcher)
    place.watcher.run_once()
    assert gate.reached.wait(10)
    place.apply({"files": "drop/*.txt"})
    gate.open.set()
    place.finish(place.watcher)
    assert place.delivered() == []
    assert place.look()["summary"] == "No file matches 'drop/*.txt'; there are others, such as 'a.csv'."


def test_a_look_that_hangs_delays_no_other(
    place: Watching, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A server that accepts and never answers: its look is abandoned, and others go on, with one thread for all."""
    silent = socket.create_server(("127.0.0.1", 0))
    request.addfinalizer(silent.close)
    monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "none")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    hanging = {
        "assetId": "a.hangs",
        "mode": "append",
        "allow": ["s3://bucket/in"],
        "watch": {"files": "s3://bucket/in/*.csv", "timeout": "200ms"},
    }
    good = {"assetId": SOURCE, "mode": "append", "watch": FILES}
    place.lab.apply(CONSUMER, workflow("other", "a.hangs"), sources=(hanging, good), root=place.root)
    place.write("a.csv")
    monkeypatch.setattr(place.lab.store, "settings", place.lab.settings.__class__(place.root, watch_threads=1))
    place.watcher.run_once()
    wait_until(lambda: place.watcher.run_once() or place.row("a.hangs")["failures"] == 1)
    assert place.row("a.hangs")["error"] == "the look did not end within 200ms ('timeout'); it was abandoned"
    wait_until(lambda: place.watcher.run_once() or place.delivered() == ["drop/a.csv"])
    place.lab.advance(hours=1)
    place.finish(place.watcher)
    assert place.row("a.hangs")["claim"] == 1, "this process does not look again while the thread lives"


def test_failures_open_a_breaker_that_a_success_closes(place: Watching) -> None:
    """Pauses grow, then one look per FRESHLINE_WATCH_PROBE_MS; the first success reports everything since."""
    place.apply()
    place.drop.rmdir()
    for failures in range(1, BREAKER_FAILURES + 1):
        row = place.look(minutes=9)
        assert row["failures"] == failures
        assert (row["breaker_at"] is not None) == (failures == BREAKER_FAILURES)
    assert row["next_at"] == place.lab.later(minutes=10)
    place.drop.mkdir()
    place.write("a.csv")
    assert place.look(minutes=9)["failures"] == BREAKER_FAILURES
    row = place.look(minutes=2)
    assert (row["failures"], row["error"], row["breaker_at"]) == (0, None, None)
    assert place.delivered() == ["drop/a.csv"]


def test_apply_adds_keeps_and_removes_watches(place: Watching) -> None:
    """A changed block keeps what was seen; removing it keeps the head; adding it again delivers nothing twice."""
    place.write("a.csv")
    place.apply()
    place.look()
    place.apply({"files": "drop/*.csv", "every": "10s"})
    assert (place.row()["position"], place.row()["every_ms"]) == ({"started": True}, 10_000)
    head = place.lab.head(SOURCE)
    place.apply({})
    assert place.lab.rows("SELECT 1 FROM watches") == []
    assert place.lab.head(SOURCE) == head
    place.apply()
    place.write("b.csv")
    place.look()
    assert place.delivered() == ["drop/a.csv", "drop/b.csv"]
    place.apply({"delta": "drop"})
    assert place.row()["position"] is None
    place.lab.apply(CONSUMER, root=place.root)
    assert place.lab.rows("SELECT 1 FROM watches") == place.lab.rows("SELECT 1 FROM watched_files") == []
    place.apply()
    place.look()
    assert place.delivered() == ["drop/a.csv", "drop/b.csv"], "the keys of deliveries are kept"


def test_a_project_that_moves_delivers_nothing_twice(place: Watching, tmp_path: Path) -> None:
    """Files of a relative pattern are known by their path in the project."""
    place.write("a.csv")
    place.apply()
    place.look()
    moved = tmp_path / "moved"
    moved.mkdir()
    place.drop.rename(moved / "drop")
    place.root, place.drop = moved, moved / "drop"
    place.write("b.csv")
    place.apply()
    place.look()
    assert place.events() == 2


def test_a_closed_file_is_looked_at_without_a_pause(place: Watching) -> None:
    """The kernel tells that a file was closed or moved in. Only that file is examined, long before `every`."""
    place.apply({"files": "drop/*.csv", "every": "1h"})
    place.look()
    place.finish(place.watcher)
    place.write("x.tmp").rename(place.drop / "a.csv")
    wait_until(lambda: place.watcher.run_once() or place.delivered() == ["drop/a.csv"])
    with (place.drop / "b.csv").open("w", encoding="utf-8") as file:
        file.write("id\n")
        file.flush()
        place.write("c.csv")
        wait_until(lambda: place.watcher.run_once() or place.delivered() == ["drop/a.csv", "drop/c.csv"])
    wait_until(lambda: place.watcher.run_once() or place.delivered() == ["drop/a.csv", "drop/c.csv", "drop/b.csv"])
    assert place.row()["looked_at"] == place.lab.now


def test_a_new_directory_is_followed(place: Watching) -> None:
    """Files in a directory that appears later are found without a pause too."""
    place.apply({"files": "drop/*/*.csv", "every": "1h"})
    place.look()
    place.write("new/a.csv")
    wait_until(lambda: place.watcher.run_once() or place.delivered() == ["drop/new/a.csv"])
    place.write("new/b.csv")
    wait_until(lambda: place.watcher.run_once() or place.delivered() == ["drop/new/a.csv", "drop/new/b.csv"])


def test_a_file_that_is_closed_during_a_burst_does_not_hold_the_burst_up(
    place: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one look leaves over and what is closed meanwhile are reported by the next one, without a listing."""
    monkeypatch.setattr("freshline.watching.files.MAX_FOUND", 2)
    place.apply({"files": "drop/*.csv", "every": "1h"})
    place.look()
    for number in range(5):
        place.write(f"{number}.csv")
    place.watcher.notifications.hint(SOURCE, None)
    gate = Gate(monkeypatch, place.watcher)
    place.watcher.run_once()
    assert gate.reached.wait(10)
    place.write("late.csv")
    wait_until(lambda: place.watcher.notifications.pending)
    gate.open.set()
    wait_until(lambda: place.watcher.run_once() or len(place.delivered()) == 6)
    assert (len(set(place.delivered())), place.events()) == (6, 6)


def test_looks_that_find_nothing_share_their_statements(place: Watching) -> None:
    """What is due a moment after a claim waits for others, and so does the result of a look without news."""
    names = {"s0": "30s", "s1": "32s"}
    for name in names:
        (place.root / name).mkdir()
    sources = [
        {"assetId": name, "mode": "append", "watch": {"files": f"{name}/*.csv", "every": every}}
        for name, every in names.items()
    ]
    place.lab.apply(workflow("both", list(names)), sources=sources, root=place.root)
    place.finish(place.watcher)
    place.lab.advance(minutes=1)
    place.finish(place.watcher)
    place.lab.advance(seconds=31)
    place.watcher._wakeup.clear()
    place.watcher.run_once()
    assert [place.row(name)["lease_until"] is not None for name in names] == [True, False]
    place.lab.advance(seconds=2)
    left = place.watcher.time_left()
    assert left is not None
    assert 0 < left <= service.BATCH_S
    wait_until(lambda: place.watcher._ended.qsize() == 1)
    assert not place.watcher._wakeup.is_set()
    (place.root / "s1" / "new.csv").write_text("id\n")
    place.watcher.run_once()
    assert place.row("s0")["lease_until"] is None
    wait_until(place.watcher._wakeup.is_set)
    place.finish(place.watcher)
    assert place.lab.one("SELECT count(*) FROM deliveries WHERE asset_id = 's1'") == 1


def test_a_look_that_ends_at_once_is_recorded_within_a_moment(place: Watching) -> None:
    """A look without news that ends before its watcher sleeps waits for no deadline, and neither does the next look."""
    place.apply({"files": "drop/*.csv", "every": "1h"})
    place.look()
    place.lab.advance(hours=1)
    place.watcher._wakeup.clear()
    place.watcher.run_once()
    wait_until(lambda: place.watcher._ended.qsize() == 1)
    assert not place.watcher._wakeup.is_set()
    waiting = threading.Thread(target=place.watcher._wait, args=(threading.Event(),), daemon=True)
    waiting.start()
    waiting.join(10)
    assert not waiting.is_alive()
    place.watcher.run_once()
    assert place.row()["lease_until"] is None


def test_a_process_does_not_read_again_what_it_has_stored(place: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that a look reports are known to the next one; those that another process reported are read."""
    read: list[str] = []
    original = Watches.files_since

    def files_since(store: Watches, asset_id: str, revision: int) -> Iterator[tuple[UUID, int]]:
        read.append(asset_id)
        return original(store, asset_id, revision)

    monkeypatch.setattr(Watches, "files_since", files_since)
    place.apply()
    place.write("a.csv")
    place.look()
    assert len(read) == 1
    place.write("b.csv")
    place.look()
    place.look()
    assert len(read) == 1
    other = Watcher(place.lab.store)
    place.write("c.csv")
    place.lab.advance(seconds=40)
    place.finish(other)
    other.stop()
    place.look()
    assert len(read) == 3, "the first look of the other process, and the next of this one"
    assert place.delivered() == ["drop/a.csv", "drop/b.csv", "drop/c.csv"]


def test_a_stopped_process_gives_its_looks_back(place: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process looks at once, not after the lease; what the old thread finds later counts for nothing."""
    monkeypatch.setattr(service, "STOP_S", 0.05)
    place.write("a.csv")
    place.apply()
    gate = Gate(monkeypatch, place.watcher)
    place.watcher.start()
    assert gate.reached.wait(10)
    place.watcher.stop()
    assert place.row()["lease_until"] is None
    other = Watcher(place.lab.store)
    place.finish(other)
    other.stop()
    assert (place.delivered(), place.events(), place.row()["claim"]) == (["drop/a.csv"], 1, 3)
    gate.open.set()
    wait_until(lambda: not place.watcher._ended.empty())
    place.watcher._record()
    assert (place.delivered(), place.events()) == (["drop/a.csv"], 1)


def test_the_looks_of_a_process_that_is_gone_are_ended(place: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as its heartbeat is missed, before the lease ends. A process that is seen keeps its looks."""
    store, rescuer = place.lab.store, Rescuer(place.lab.store)
    place.watcher.holder = new_id()
    place.write("a.csv")
    place.apply({"files": "drop/*.csv", "timeout": "10m"})
    gate = Gate(monkeypatch, place.watcher)
    place.watcher.run_once()
    assert gate.reached.wait(10)
    rescuer.run_once()
    assert place.row()["lease_until"] is not None, "it may not be registered yet"
    store.processes.register(place.watcher.holder, "materializer", project=None, code_hash=None, info={})
    place.lab.advance(seconds=5)
    rescuer.run_once()
    assert place.row()["lease_until"] is not None
    place.lab.advance(milliseconds=SILENT_MS)
    rescuer.run_once()
    assert place.row()["lease_until"] is None
    other = Watcher(store)
    place.finish(other)
    other.stop()
    gate.open.set()
    place.finish(place.watcher)
    assert (place.delivered(), place.events()) == (["drop/a.csv"], 1)
