"""Dagster and Airflow beside Freshline: the same graph, the same PostgreSQL, one after another (needs downloads).

Each peer has its best documented settings, and beside them its defaults. They are installed into environments of
their own; one that cannot be is left out, and that is said.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import psycopg

from bench.measure import DIGITS, Options, phase, say
from bench.peers import airflow_peer, dagster_peer, environment, ours, table
from bench.peers.environment import Unavailable
from bench.peers.system import System, TooSlow, chains, during, idle
from bench.server import Server, started
from bench.suite import ROOT, machine

CACHE = ROOT / ".freshline" / "peers"
LIMIT_S = 600.0  # no part begins later; each wait inside a part has a limit of its own
SMALL, LARGE = 100, 1_000
Start = Callable[..., AbstractContextManager[System]]
Measure = Callable[[System], dict[str, Any]]


@dataclass(slots=True)
class Column:
    """One system with one way to set it up, and what was found."""

    system: str
    version: str
    settings: str
    found: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"system": self.system, "version": self.version, "settings": self.settings, **self.found}


@dataclass(slots=True)
class Comparison:
    """What is measured on one server until the time is up."""

    server: Server
    quick: bool
    deadline: float
    columns: list[Column] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def measure(self, column: Column, start: Start, assets: int, *parts: tuple[str, Measure]) -> None:
        """Start a system with a graph of this size, and take these measurements; a problem ends only this."""
        what = f"{column.system}, {column.settings}, {assets} assets"
        if time.monotonic() > self.deadline:
            self.notes.append(f"Not measured, as the time was up: {what}.")
            return
        home = self.server.home / f"peer-{len(list(self.server.home.iterdir()))}"
        try:
            with phase(what), start(self.server, home, chains(assets)) as system:
                for name, part in parts:
                    column.found[name] = part(system)
        except (TooSlow, psycopg.Error, subprocess.SubprocessError, OSError) as error:
            self.notes.append(f"Not measured: {what}: {error}.")

    def column(self, system: str, version: str, settings: str) -> Column:
        """A further one."""
        self.columns.append(Column(system, version, settings))
        return self.columns[-1]


def compare(options: Options, cache: Path, only: Sequence[str] = ()) -> dict[str, Any]:
    """The whole comparison. `only`: these peers and no others."""
    began = time.perf_counter()
    homes, missing = environments(cache, only or tuple(PEERS))
    with started() as server:
        comparison = Comparison(server, options.quick, time.monotonic() + LIMIT_S, notes=missing)
        _freshline(comparison)
        for name, home in homes.items():
            PEERS[name](comparison, home)
        settings = server.settings
    return {
        "name": "peers",
        "ratio": ratio(comparison.columns),
        "goal": None,
        "met": None,
        "unit": "s",
        "columns": [column.as_json() for column in comparison.columns],
        "notes": comparison.notes,
        "server": settings,
        "machine": machine(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": options.quick,
        "seconds": round(time.perf_counter() - began, 1),
    }


def environments(cache: Path, names: Sequence[str]) -> tuple[dict[str, Path], list[str]]:
    """Those that can be made, and a sentence for each that cannot."""
    homes, missing = {}, []
    for name in names:
        try:
            homes[name] = environment.environment(name, cache)
        except Unavailable as problem:
            say(f"  {problem}")
            missing.append(f"{problem}.")
    return homes, missing


def ratio(columns: Sequence[Column]) -> float | None:
    """Report to run created, 100 assets: Freshline against the fastest of the others; None: there is no other."""
    medians = [(one.system, one.found["idle"]["created"]["median"]) for one in columns if "idle" in one.found]
    mine = [median for name, median in medians if name == "Freshline"]
    others = [median for name, median in medians if name != "Freshline"]
    return round(min(mine) / min(others), DIGITS) if mine and others else None


def _freshline(comparison: Comparison) -> None:
    column = comparison.column("Freshline", installed("freshline"), "defaults")
    samples, rounds = (2, 1) if comparison.quick else (10, 2)
    parts: list[tuple[str, Measure]] = [
        ("idle", partial(idle, samples=samples)),
        ("during", partial(during, rounds=rounds)),
    ]
    comparison.measure(column, ours.running, SMALL, *parts)
    comparison.measure(column, ours.running, LARGE, ("large", partial(idle, samples=samples)))


def _dagster(comparison: Comparison, home: Path) -> None:
    version = environment.version("dagster", "dagster")
    samples, rounds = (1, 1) if comparison.quick else (5, 2)

    def ticking(system: System) -> dict[str, Any]:
        return {**idle(system, samples), "ticks": dagster_peer.ticks(system)}

    best = comparison.column("Dagster", version, dagster_peer.BEST.words)
    start = partial(dagster_peer.running, environment=home)
    comparison.measure(best, start, SMALL, ("idle", ticking), ("during", partial(during, rounds=rounds)))
    comparison.measure(best, start, LARGE, ("large", ticking))
    if not comparison.quick:
        own = comparison.column("Dagster", version, dagster_peer.REQUESTED.words)
        start = partial(dagster_peer.running, environment=home, settings=dagster_peer.REQUESTED)
        comparison.measure(own, start, SMALL, ("during", partial(during, rounds=1)))
        default = comparison.column("Dagster", version, dagster_peer.DEFAULT.words)
        start = partial(dagster_peer.running, environment=home, settings=dagster_peer.DEFAULT)
        comparison.measure(default, start, SMALL, ("idle", partial(idle, samples=3, warm=0)))


def _airflow(comparison: Comparison, home: Path) -> None:
    version = environment.version("airflow", "apache-airflow")
    samples, rounds = (1, 1) if comparison.quick else (6, 2)
    best = comparison.column("Airflow", version, airflow_peer.BEST.words)
    start = partial(airflow_peer.running, environment=home)
    parts: list[tuple[str, Measure]] = [
        ("idle", partial(idle, samples=samples)),
        ("during", partial(during, rounds=rounds)),
    ]
    comparison.measure(best, start, SMALL, *parts)
    comparison.measure(best, start, LARGE, ("large", partial(idle, samples=samples)))
    if not comparison.quick:
        default = comparison.column("Airflow", version, airflow_peer.DEFAULT.words)
        start = partial(airflow_peer.running, environment=home, settings=airflow_peer.DEFAULT)
        comparison.measure(
            default, start, SMALL, ("idle", partial(idle, samples=4)), ("during", partial(during, rounds=1))
        )


PEERS: dict[str, Callable[[Comparison, Path], None]] = {"dagster": _dagster, "airflow": _airflow}


def write(document: dict[str, Any], root: Path = ROOT) -> Iterator[str]:
    """The page, unless the figures mean nothing or a peer is missing."""
    if document["quick"] or document["ratio"] is None:
        yield f"{table.NAME} stays as it is: this was not a whole comparison"
        return
    table.write(document, root / table.NAME)
    yield f"wrote {table.NAME}"
