"""Examines the store in one read-only snapshot, and repairs what transactions of the facade can repair.

It may be called while everything is running: invariants hold in every committed state, and what is only late has a
generous bound. Nothing is ever guessed: a repair is what a service or an apply would have done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from freshline.definitions.duration import in_words
from freshline.errors import SchemaError
from freshline.model.json import Json
from freshline.settings import Settings
from freshline.store.apply.stored import read_graph
from freshline.store.db import migrate
from freshline.store.db.database import Connection
from freshline.store.db.queries import load
from freshline.store.doctor import checks
from freshline.store.doctor.checks import Check, Finding, told
from freshline.store.read import status
from freshline.store.read.reader import SILENT_MS
from freshline.store.read.session import json_value

if TYPE_CHECKING:
    from freshline.store.store import Store

SQL = load("doctor")
# A service that is there does its work within seconds; after so long nobody does it.
LATE_MS = 300_000
# Further apart than this, two clocks are told about.
CLOCKS_MS = 2_000
MOST_ROUNDS = 1_000
MATERIALIZER = "start `freshline materializer`: none is there"
STUCK = "{count} there: its log says what keeps it from it; `freshline workers` lists them"


@dataclass(frozen=True, slots=True)
class Examination:
    """One look at the store. `clock_ms`: how far this host's clock is ahead of the database's."""

    at: datetime
    clock_ms: int
    findings: tuple[Finding, ...]
    materializers: tuple[Json, ...]


def examine(store: Store, limit: int) -> Examination:
    """All checks of the store, each with at most `limit` sentences."""
    bounds = {"late": late_ms(store.settings), "grace": SILENT_MS, "limit": limit}
    with store.database.reading(unhurried=True) as connection:
        began = time.time()
        facts = _one(connection, "facts", bounds)
        ahead = round(((began + time.time()) / 2 - facts["clock"].timestamp()) * 1000)
        there = connection.execute(SQL["materializers"], bounds).fetchall()
        findings = (*_findings(connection, bounds, facts), *_processes(connection, bounds, facts, there))
    shown = tuple({key: json_value(row[key]) for key in ("host", "pid", "epoch", "graph", "heads")} for row in there)
    every = (Finding(checks.SCHEMA), *findings, _clock(ahead, limit))  # a store with another schema is not opened
    return Examination(facts["now"].astimezone(UTC), ahead, every, shown)


def late_ms(settings: Settings) -> int:
    """After how long what should have happened is late."""
    return max(LATE_MS, 10 * settings.poll_ms, 4 * settings.lease_ms)


def schema(url: str) -> Finding:
    """Whether the other checks can be made at all: they need the schema of this Freshline."""
    found = migrate.status(url)
    try:
        migrate.require(found)
    except SchemaError as error:
        return told(checks.SCHEMA, [error.message], 1)
    return Finding(checks.SCHEMA)


def _findings(connection: Connection, bounds: Json, facts: Json) -> Iterator[Finding]:
    forgotten = connection.execute(load("evaluation")["forgotten"], bounds).fetchall()
    yield _finding(checks.FORGOTTEN, forgotten, facts)
    for check in checks.STATEMENTS:
        yield _finding(check, connection.execute(SQL[check.statement], bounds).fetchall(), facts)


def _finding(check: Check, rows: Sequence[Mapping[str, Any]], facts: Json) -> Finding:
    if not rows:
        return Finding(check)
    sentences = [check.sentence.format_map({**row, "age": in_words(row.get("age") or 0)}) for row in rows]
    return Finding(check, rows[0]["total"], sentences, check.remedy or _who_is_missing(facts["materializers"]))


def _who_is_missing(materializers: int) -> str:
    """Work that a materializer does is late: either none is there, or it does not get on."""
    if not materializers:
        return MATERIALIZER
    return STUCK.format(count="a materializer is" if materializers == 1 else f"{materializers} materializers are")


def _processes(connection: Connection, bounds: Json, facts: Json, there: Sequence[Json]) -> Iterator[Finding]:
    own = read_graph(connection).digest if there else ""
    odd = [sentence for row in there for sentence in _oddities(row, facts, own)]
    yield told(checks.MATERIALIZERS_DIFFER, odd, bounds["limit"])
    queue = connection.execute(load("read")["queue"], bounds).fetchone() or {}
    yield told(checks.ATTENDANCE, status.notes(queue), bounds["limit"])


def _oddities(row: Json, facts: Json, digest: str) -> Iterator[str]:
    """How one materializer's word differs from what the database says. It may be some seconds old."""
    who = f"the materializer on {row['host']} (pid {row['pid']})"
    if row["epoch"] is None:
        yield f"{who} does not say which definitions it works with: it runs another version of Freshline"
        return
    if row["epoch"] > facts["epoch"] or (row["epoch"] < facts["epoch"] and facts["settled"]):
        yield f"{who} works with epoch {row['epoch']} of the definitions; the database has epoch {facts['epoch']}"
    if row["epoch"] == facts["epoch"] and row["graph"] != digest:
        yield f"{who} works with another graph ({row['graph']}) than epoch {row['epoch']} has ({digest})"
    if not facts["heads"] - row["young"] <= row["heads"] <= facts["heads"]:
        yield f"{who} sees {row['heads']} heads; the database has {facts['heads']}"


def _clock(ahead: int, limit: int) -> Finding:
    if abs(ahead) < CLOCKS_MS:
        return Finding(checks.CLOCK)
    way = "ahead of" if ahead > 0 else "behind"
    return told(checks.CLOCK, [f"this host's clock is {in_words(abs(ahead) / 1000)} {way} the database's"], limit)


def _one(connection: Connection, statement: str, parameters: Json) -> Json:
    row = connection.execute(SQL[statement], parameters).fetchone()
    assert row is not None  # noqa: S101 - the migration inserted the installation
    return row


def repair(store: Store, findings: Sequence[Finding]) -> list[str]:
    """Repair what was found and can be; returns the ids of the checks whose repair was tried."""
    wrong = {finding.check.id for finding in findings if finding.count}
    tried = [check for check in _repairs(store) if check in wrong]
    for work in dict.fromkeys(_repairs(store)[check] for check in tried):
        work()
    if tried:
        store.database.notify("events", "considerations", "timers", "runs")
    return tried


def _repairs(store: Store) -> Mapping[str, Callable[[], None]]:
    batch = store.settings.batch
    return {
        "owner-retired": store.doctor.repair,
        "consideration-retired": store.doctor.repair,
        "timer-missing": store.doctor.repair,
        "timer-orphan": store.doctor.repair,
        "lease-lost": lambda: _until_done(lambda: store.runs.rescue(batch)),
        "timer-late": lambda: _until_done(lambda: store.evaluation.fire_timers(batch)),
        "event-unabsorbed": lambda: _until_done(lambda: store.evaluation.consume_inbox(batch)),
        "event-unstamped": lambda: _until_done(lambda: store.events.stamp_positions(batch)),
        "forgotten": lambda: _until_done(store.evaluation.sweep, rounds=1),
    }


def _until_done(work: Callable[[], int], rounds: int = MOST_ROUNDS) -> None:
    for _ in range(rounds):
        if not work():
            return
