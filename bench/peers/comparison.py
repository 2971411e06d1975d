"""Dagster and Airflow against Freshline: the same graph and PostgreSQL, one after another (needs downloads).

Each peer is measured with its best documented settings and with its defaults. Peers are installed into their own
environments. A peer that cannot be installed is left out, and the output names it.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version as installed
from itertools import zip_longest
from pathlib import Path
from typing import Any

import psycopg

from bench.measure import DIGITS, Claim, Options, echo, phase
from bench.peers import airflow_peer, dagster_peer, environment, ours, table
from bench.peers.environment import Unavailable
from bench.peers.process import Ended
from bench.peers.system import System, TooSlow, chains, during, idle
from bench.server import Server, started
from bench.suite import ROOT, machine

CACHE = ROOT / ".freshline" / "peers"
LIMIT_S = 1_500.0  # no part starts after this; each wait inside a part has its own limit
SMALL, LARGE = 100, 1_000
SYSTEMS = {"Freshline", "Dagster", "Airflow"}
CLAIM = "report to run created, against the fastest peer"
Start = Callable[..., AbstractContextManager[System]]
Measure = Callable[[System], dict[str, Any]]


@dataclass(eq=False, slots=True)
class Column:
    """One system with one configuration, and its results."""

    system: str
    version: str
    settings: str
    found: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"system": self.system, "version": self.version, "settings": self.settings, **self.found}


@dataclass(frozen=True, slots=True)
class Part:
    """One start of a system with a graph of a given size, and its measurements."""

    column: Column
    start: Start
    assets: int
    measures: Mapping[str, Measure]

    def __str__(self) -> str:
        return f"{self.column.system}, {self.column.settings}, {self.assets} assets"

    def run(self, server: Server) -> str | None:
        """Measure one part; return None, or why it was not measured. A failure ends only this part."""
        home = Path(tempfile.mkdtemp(dir=server.home)) / "home"
        try:
            with phase(str(self)), self.start(server, home, chains(self.assets)) as system:
                for name, measure in self.measures.items():
                    self.column.found[name] = measure(system)
        except (TooSlow, Ended, psycopg.Error, subprocess.SubprocessError, OSError) as error:
            return f"Not measured: {self}: {error}."
        return None


def compare(options: Options, cache: Path, only: Sequence[str] = ()) -> dict[str, Any]:
    """Run the comparison. `only`: these peers alone."""
    began = time.perf_counter()
    homes, notes = environments(cache, only or tuple(PEERS))
    theirs = [PEERS[name](home, quick=options.quick) for name, home in homes.items()]
    parts = [*_freshline(quick=options.quick), *in_turns(theirs)]
    with started() as server:
        notes += _measure(parts, server)
        settings = server.settings
    columns = list(dict.fromkeys(part.column for group in (parts[:1], *theirs) for part in group))
    return {
        "name": "peers",
        **sides(columns),
        "unit": "s",
        "columns": [column.as_json() for column in columns if column.found],
        "notes": notes,
        "server": settings,
        "machine": machine(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": options.quick,
        "seconds": round(time.perf_counter() - began, 1),
    }


def in_turns(groups: Sequence[Sequence[Part]]) -> Iterator[Part]:
    """Yield the first part of each peer, then the second: when the time is up, the least important part is missing."""
    for parts in zip_longest(*groups):
        yield from (part for part in parts if part is not None)


def _measure(parts: Sequence[Part], server: Server) -> Iterator[str]:
    """Measure, and return a sentence for each part that was not measured."""
    deadline = time.monotonic() + LIMIT_S
    for part in parts:
        if time.monotonic() > deadline:
            yield f"Not measured, as the time was up: {part}."
        elif problem := part.run(server):
            echo(f"  {problem}")
            yield problem


def environments(cache: Path, names: Sequence[str]) -> tuple[dict[str, Path], list[str]]:
    """Return the environments that can be created, and a sentence for each that cannot."""
    homes, missing = {}, []
    for name in names:
        try:
            homes[name] = environment.environment(name, cache)
        except Unavailable as problem:
            echo(f"  {problem}")
            missing.append(f"{problem}.")
    return homes, missing


def sides(columns: Sequence[Column]) -> dict[str, Any]:
    """Return both sides from report to created run with 100 assets: Freshline, and the fastest other system.

    The ratio is None without another system.
    """
    found = [(one.system == "Freshline", one.found["idle"]["created"]) for one in columns if "idle" in one.found]
    mine, others = ([times for ours, times in found if ours is side] for side in (True, False))
    measured, baseline = (min(times, key=lambda one: one["median"], default=None) for times in (mine, others))
    ratio = measured["median"] / baseline["median"] if measured and baseline else None
    claims = [Claim(CLAIM, ratio).as_json()] if ratio is not None else []
    told = None if ratio is None else round(ratio, DIGITS)
    return {"ratio": told, "goal": None, "met": None, "measured": measured, "baseline": baseline, "claims": claims}


def _freshline(*, quick: bool) -> list[Part]:
    column = Column("Freshline", installed("freshline"), "defaults")
    samples, rounds = (2, 1) if quick else (10, 2)
    chain = partial(idle, samples=samples)
    return [
        Part(column, ours.running, SMALL, {"idle": chain, "during": partial(during, rounds=rounds)}),
        Part(column, ours.running, LARGE, {"large": chain}),
    ]


def _dagster(home: Path, *, quick: bool) -> list[Part]:
    version = environment.version("dagster", "dagster")
    samples, rounds = (1, 1) if quick else (4, 1)  # each takes minutes
    best, own, default = (
        (Column("Dagster", version, one.words), partial(dagster_peer.running, environment=home, settings=one))
        for one in (dagster_peer.BEST, dagster_peer.REQUESTED, dagster_peer.DEFAULT)
    )

    def ticking(system: System) -> dict[str, Any]:
        return {**idle(system, samples), "ticks": dagster_peer.ticks(system)}

    parts = [
        Part(*best, SMALL, {"idle": ticking, "during": partial(during, rounds=rounds)}),
        Part(*best, LARGE, {"large": ticking}),
        Part(*own, SMALL, {"during": partial(during, rounds=1)}),
        Part(*default, SMALL, {"idle": partial(idle, samples=2, warm=0), "during": partial(during, rounds=1)}),
    ]
    return parts[:2] if quick else parts


def _airflow(home: Path, *, quick: bool) -> list[Part]:
    version = environment.version("airflow", "apache-airflow")
    samples, rounds = (1, 1) if quick else (6, 2)
    best, default = (
        (Column("Airflow", version, one.words), partial(airflow_peer.running, environment=home, settings=one))
        for one in (airflow_peer.BEST, airflow_peer.DEFAULT)
    )
    chain = partial(idle, samples=samples)
    parts = [
        Part(*best, SMALL, {"idle": chain, "during": partial(during, rounds=rounds)}),
        Part(*best, LARGE, {"large": chain}),
        Part(*default, SMALL, {"idle": partial(idle, samples=4), "during": partial(during, rounds=1)}),
    ]
    return parts[:2] if quick else parts


PEERS: dict[str, Callable[..., list[Part]]] = {"dagster": _dagster, "airflow": _airflow}


def write(document: dict[str, Any], root: Path = ROOT) -> Iterator[str]:
    """Write the page, unless this is a quick run or a system is missing."""
    systems = {column["system"] for column in document["columns"] if "idle" in column}
    if document["quick"] or not systems >= SYSTEMS:
        yield f"{table.NAME} stays as it is: this was not a whole comparison"
        return
    table.write(document, root / table.NAME)
    yield f"wrote {table.NAME}"
