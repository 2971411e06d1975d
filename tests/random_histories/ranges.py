"""Ranges of histories: run them, keep the result of each range, and sum up."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import structlog
from psycopg.conninfo import make_conninfo

from freshline.store.db import migrate
from freshline.store.db.database import SESSION
from tests.databases import administer
from tests.random_histories.sim_workers import LEASE_MS
from tests.random_histories.simulation import Simulation, keeping_plans, reset
from tests.store_harness import MONDAY, laboratory

ROOT = Path(__file__).parents[2]
SIZE = 100
# What decides the course of a history. A result counts only for the code that it was found with.
CODE = ("src/freshline", "tests/random_histories", "tests/store_harness.py")


@dataclass(slots=True)
class Result:
    """The result of one range of seeds, or of several. `failures` has the text of each failed history."""

    first: int
    histories: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Result) -> None:
        """Add another result."""
        self.histories += other.histories
        self.seconds += other.seconds
        self.counts += other.counts
        self.failures += other.failures


def simulate(url: str, seeds: range) -> Result:
    """Run these histories, one after another on one database."""
    result, started = Result(seeds.start), time.monotonic()
    with keeping_plans(), laboratory(url, lease_ms=LEASE_MS, max_worker_losses=50) as lab:
        for seed in seeds:
            lab.now = MONDAY
            history = Simulation(lab, seed)
            try:
                history.run()
            except AssertionError as error:
                result.failures.append(str(error))
            result.histories += 1
            result.counts += history.counts
            result.counts["storm"] += history.storm
            result.counts["run"] += lab.one("SELECT count(*) FROM runs")
            reset(lab)
    result.seconds = time.monotonic() - started
    return result


_url = ""


def begin(server: str) -> None:
    """Prepare a process that runs ranges: it gets a database of its own."""
    global _url  # noqa: PLW0603 - a process of a pool has no other place
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    # A history that gets little processor time is not one of a stopped process.
    SESSION["idle_in_transaction_session_timeout"] = "10min"
    name = f"sim_{os.getpid()}"
    administer(server, "CREATE DATABASE {}", name)
    _url = make_conninfo(server, dbname=name)
    migrate.upgrade(_url)


def simulate_range(seeds: range) -> Result:
    """Run a range on the database of this process."""
    return simulate(_url, seeds)


def split(first: int, count: int) -> list[range]:
    """Return the ranges that cover these seeds. Their borders do not depend on where a call begins."""
    last = first + count
    starts = [first, *range(first - first % SIZE + SIZE, last, SIZE)]
    return [range(begin, end) for begin, end in zip(starts, [*starts[1:], last], strict=True)]


def code_hash() -> str:
    """Return a hash of everything that decides the course of a history."""
    digest = hashlib.sha256()
    for top in CODE:
        path = ROOT / top
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix in {".py", ".sql"}:
                digest.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


class Ledger:
    """The results of finished ranges, one line each, for one state of the code. A range is run once."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / f"{code_hash()}.jsonl"
        directory.mkdir(parents=True, exist_ok=True)

    def results(self) -> list[Result]:
        """Return the results of all finished ranges."""
        if not self._file.exists():
            return []
        # An interrupted write leaves half a line at the end. Its range is run again.
        lines = self._file.read_text().splitlines(keepends=True)
        return [_parsed(json.loads(line)) for line in lines if line.endswith("\n")]

    def left(self, ranges: Iterable[range]) -> list[range]:
        """Return the ranges that have no result yet."""
        done = {(one.first, one.histories) for one in self.results()}
        return [one for one in ranges if (one.start, len(one)) not in done]

    def keep(self, result: Result) -> None:
        """Store the result of a range."""
        with self._file.open("a") as file:
            file.write(json.dumps({one.name: getattr(result, one.name) for one in fields(result)}) + "\n")


def _parsed(data: dict[str, Any]) -> Result:
    return Result(**{**data, "counts": Counter(data["counts"])})
