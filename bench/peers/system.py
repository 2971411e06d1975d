"""The graph of all systems, and the measurements: they need three queries and a way to report."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from bench.graph import Layout
from bench.measure import spread

LAYERS = 3
SLOW, SLOW_SOURCE = "slow", "slow_source"
SLOW_S = 3.0
POLL_S = 0.005
TIMEOUT_S = 90.0
START_S, START_POLL_S = 180.0, 0.2
BURST = 3


def chains(assets: int) -> Layout:
    """Return sources with three layers below each, and one with a slow consumer."""
    consumes: dict[str, Sequence[str]] = {SLOW: (SLOW_SOURCE,)}
    names = [f"c{number:03}" for number in range((assets - 2) // (LAYERS + 1))]
    for name in names:
        consumes |= {f"{name}_{layer}": (f"{name}_{layer - 1}",) for layer in range(1, LAYERS + 1)}
    return Layout([SLOW_SOURCE, *(f"{name}_0" for name in names)], consumes)


def as_json(layout: Layout) -> str:
    """Return the JSON that the peers' definitions read."""
    return json.dumps({"sources": list(layout.sources), "consumes": {k: list(v) for k, v in layout.consumes.items()}})


@dataclass(frozen=True, slots=True)
class Queries:
    """Queries for the number of runs, of active runs, and of materializations of an asset."""

    runs: str
    active: str
    results: str


@dataclass(slots=True)
class System:
    """A running system. `interval`: its longest polling interval; `calm`: the quiet seconds that make it idle."""

    queries: Queries
    connection: psycopg.Connection[Any]
    report: Callable[[str], None]
    notes: Path
    interval: float = 0.0
    calm: float = 3.0
    extra: dict[str, Any] = field(default_factory=dict)

    def runs(self) -> int:
        """Return the count so far."""
        return self.count(self.queries.runs)

    def active(self) -> int:
        """Return the current count."""
        return self.count(self.queries.active)

    def results(self, asset: str) -> int:
        """Return the count so far."""
        return self.count(self.queries.results, asset)

    def count(self, query: str, *parameters: str) -> int:
        """Return the only number of a query."""
        row = self.connection.execute(query.encode(), parameters or None).fetchone()
        return int(row[0]) if row else 0


def ready(condition: Callable[[], object], what: str) -> None:
    """Wait until a system has started, polling rarely so as not to slow it."""
    until(condition, what, START_S, every=START_POLL_S)


class TooSlow(Exception):
    """A condition did not become true in time; the text is a full sentence."""


def until(condition: Callable[[], object], what: str, timeout: float = TIMEOUT_S, every: float = POLL_S) -> float:
    """Return the time at which the condition is true. All systems are polled equally often."""
    deadline = time.perf_counter() + timeout
    while not condition():
        if time.perf_counter() > deadline:
            raise TooSlow(f"waited {timeout:g} s for {what}")
        time.sleep(every)
    return time.perf_counter()


def idle(system: System, samples: int, warm: int = 1) -> dict[str, Any]:
    """Measure from the report of a source to a run, to the first and to the last layer's result; one chain at a time.

    Reports are spread evenly over the system's polling interval, so that no phase is preferred.
    """
    times: dict[str, list[float]] = {"created": [], "first": [], "last": []}
    for number in range(warm + samples):
        _wait_for_phase(system.interval, (number % samples) / samples)
        found = _chain(system, number)
        if number >= warm:
            for name, one in found.items():
                times[name].append(one)
    return {name: spread(values) for name, values in times.items()}


def _chain(system: System, number: int) -> dict[str, float]:
    source, first, last = (f"c{number % 20:03}_{layer}" for layer in (0, 1, LAYERS))
    runs, firsts, lasts = system.runs(), system.results(first), system.results(last)
    began = time.perf_counter()
    system.report(source)
    moments = {
        "created": until(lambda: system.runs() > runs, f"a run after the report of {source}"),
        "first": until(lambda: system.results(first) > firsts, f"a result of {first}"),
        "last": until(lambda: system.results(last) > lasts, f"a result of {last}"),
    }
    until(lambda: not system.active(), "the end of all runs")
    return {name: moment - began for name, moment in moments.items()}


def _wait_for_phase(interval: float, share: float) -> None:
    if interval:
        time.sleep((share * interval - time.time()) % interval)


def during(system: System, rounds: int) -> dict[str, Any]:
    """Measure the outcome of one update, and of several, that are reported while their consumer runs."""
    one = [_interrupt(system, 1) for _ in range(rounds)]
    return {"one": tally(one), "burst": tally([_interrupt(system, BURST)])}


def _interrupt(system: System, updates: int) -> Interrupted:
    before = len(executions(system.notes))
    system.report(SLOW_SOURCE)
    until(lambda: len(executions(system.notes)) > before, "the slow job to begin")
    for _ in range(updates):
        time.sleep(SLOW_S / (2 * updates))
        reported = time.time()
        system.report(SLOW_SOURCE)
    _calm(system, before)
    return Interrupted(reported, tuple(executions(system.notes)[before:]))


def _calm(system: System, before: int) -> None:
    """Wait until no run and no job has been active for a while."""
    quiet = time.monotonic()
    deadline = quiet + system.calm + TIMEOUT_S
    while time.monotonic() - quiet < system.calm:
        if system.active() or any(one.end is None for one in executions(system.notes)[before:]):
            quiet = time.monotonic()
        if time.monotonic() > deadline:
            raise TooSlow(f"it was not calm for {system.calm:g} s within {system.calm + TIMEOUT_S:g} s")
        time.sleep(20 * POLL_S)


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of the slow job. `end` None: it still runs, or was interrupted."""

    begin: float
    end: float | None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The time of the last report, and all executions from the one during which it happened."""

    reported: float
    executions: tuple[Execution, ...]

    @property
    def lost(self) -> bool:
        """Return whether no execution began after the update, so that none has read it."""
        return all(one.begin < self.reported for one in self.executions)

    @property
    def overlapped(self) -> bool:
        """Return whether two executions of one asset overlapped."""
        pairs = zip(self.executions, self.executions[1:], strict=False)
        return any(one.end is None or after.begin < one.end for one, after in pairs)


def executions(notes: Path) -> list[Execution]:
    """Return the executions that the slow job wrote, ordered by start."""
    if not notes.exists():
        return []
    return sorted(parsed(notes.read_text(encoding="utf-8")), key=lambda one: one.begin)


def parsed(text: str) -> Iterator[Execution]:
    """Parse lines `begin TIME PROCESS` and `end TIME PROCESS`."""
    begun: dict[str, float] = {}
    for line in text.splitlines():
        word, moment, process = line.split()
        if word == "begin":
            begun[process] = float(moment)
        else:
            yield Execution(begun.pop(process), float(moment))
    yield from (Execution(begin, None) for begin in begun.values())


def tally(rounds: Sequence[Interrupted]) -> dict[str, Any]:
    """Return the counts. Correct is: none lost, one further run each, never two at once."""
    return {
        "rounds": len(rounds),
        "lost": sum(one.lost for one in rounds),
        "more": [len(one.executions) - 1 for one in rounds],
        "overlapped": sum(one.overlapped for one in rounds),
    }
