"""The API under load: 500 reads a second for a minute, while workflows run, and no error."""

from __future__ import annotations

import http.client
import itertools
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from freshline.store.store import Store
from tests.cli.conftest import Freshline
from tests.waiting import wait_until

PATHS = [
    "/runs?limit=5",
    "/assets/shop.clean",
    "/workflows/make-clean/auto-materialize",
    "/events?limit=5",
    "/status?name=shop.daily",
    "/decisions?limit=2",
    "/assets/graph",
    "/workers",
]
CLIENTS = 8
TIMEOUT_S = 10.0


@dataclass(slots=True)
class Readers:
    """Clients that send `rate` requests a second in total, however long answers take, up to `most` requests."""

    ports: list[int]
    rate: float
    most: int
    answers: Counter[int | str] = field(default_factory=Counter)
    late_s: list[float] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> float:
        """Send all requests, and return the duration in seconds."""
        began = time.monotonic()
        threads = [threading.Thread(target=self._read, args=(number, began)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.monotonic() - began

    def _read(self, number: int, began: float) -> None:
        """Send the requests of one client at their times; a late one is sent as soon as possible."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[number % len(self.ports)], timeout=TIMEOUT_S)
        answers: Counter[int | str] = Counter()
        late = []
        for turn in range(number, self.most, CLIENTS):
            due = began + turn / self.rate
            time.sleep(max(0.0, due - time.monotonic()))
            answers[self._ask(connection, PATHS[turn % len(PATHS)])] += 1
            late.append(time.monotonic() - due)
        connection.close()
        with self._lock:
            self.answers += answers
            self.late_s += late

    @staticmethod
    def _ask(connection: http.client.HTTPConnection, path: str) -> int | str:
        try:
            connection.request("GET", f"/api/v1{path}")
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return type(error).__name__
        return answer.status


@contextmanager
def program(tmp_path: Path, name: str, *words: str) -> Iterator[Path]:
    """Run the real program, and yield the file with its output."""
    said = tmp_path / f"{name}.txt"
    with said.open("w") as told:
        process = subprocess.Popen(
            [sys.executable, "-m", "freshline.cli.main", *words], stdout=told, stderr=told, text=True
        )
    try:
        yield said
    finally:
        process.terminate()
        process.wait(30)


def port_of(said: Path) -> int:
    """Wait until the API listens, and return its port."""
    found = wait_until(lambda: re.search(r"http://127.0.0.1:(\d+)/", said.read_text()), 60, what="the address")
    assert found is not None
    return int(found[1])


@contextmanager
def wave(store: Store) -> Iterator[None]:
    """Report changes of a source again and again while the block lasts."""
    done = threading.Event()

    def report() -> None:
        for number in itertools.count():
            store.operations.report("shop.raw", version=f"v{number}")
            if done.wait(1.0):
                return

    thread = threading.Thread(target=report)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def load(applied: Freshline, store: Store, tmp_path: Path, *, rate: float, most: int) -> tuple[Readers, float]:
    """Send this number of reads at this rate from two processes, while a materializer and a worker are busy."""
    with (
        program(tmp_path, "api-1", "api", "--port", "0") as one,
        program(tmp_path, "api-2", "api", "--port", "0") as other,
        program(tmp_path, "materializer", "materializer"),
        program(tmp_path, "worker", "worker"),
        wave(store),
    ):
        wait_until(lambda: applied.json("runs", "--status", "succeeded", "--limit", "2"), 60, what="a run")
        readers = Readers([port_of(one), port_of(other)], rate, most)
        return readers, readers.run()


@pytest.mark.process
@pytest.mark.full
def test_reads_beside_a_wave_are_all_answered(applied: Freshline, store: Store, tmp_path: Path) -> None:
    """A few seconds of it."""
    readers, _ = load(applied, store, tmp_path, rate=100, most=300)
    assert readers.answers == {200: 300}


@pytest.mark.full
@pytest.mark.process
def test_five_hundred_reads_a_second_for_a_minute_beside_a_wave(
    applied: Freshline, store: Store, tmp_path: Path
) -> None:
    """30,000 answers, all of them 200; the wave went on meanwhile. How long it took is told, as machines differ."""
    before = len(applied.json("runs", "--limit", "100000"))
    readers, took = load(applied, store, tmp_path, rate=500, most=30_000)
    late = sorted(readers.late_s)
    sys.stdout.write(f"{took:.1f} s, p50 {late[15_000] * 1000:.0f} ms, p99 {late[29_700] * 1000:.0f} ms\n")
    assert readers.answers == {200: 30_000}
    assert len(applied.json("runs", "--limit", "100000")) > before + 20
