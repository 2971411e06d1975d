"""Run the checks on the store in one read-only snapshot, and repair violations.

This is safe while services run: invariants hold in every committed state, and late work has a generous bound. A repair
does what a service or an apply would have done; nothing is guessed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypedDict

from freshline.duration import in_words
from freshline.errors import SchemaError
from freshline.settings import Settings
from freshline.store.apply.stored_graph import read_graph
from freshline.store.db import migrate
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load
from freshline.store.doctor import checks
from freshline.store.doctor.checks import Check, Finding, finding
from freshline.store.read import status
from freshline.store.read.status import SILENT_MS

if TYPE_CHECKING:
    from freshline.store.store import Store

SQL = load("doctor")
# A running service does its work within seconds. Work that waits this long is not being done.
LATE_MS = 300_000
# A larger difference between two clocks is reported.
CLOCKS_MS = 2_000
MAX_ROUNDS = 1_000
NO_MATERIALIZER = "start `freshline materializer`: none is running"
STUCK = "{count} running: see its log for the cause; `freshline workers` lists them"


class Bounds(TypedDict):
    """The parameters of the statements: milliseconds until late, until dead, and the most rows."""

    late: int
    grace: int
    limit: int


class MaterializerState(TypedDict):
    """The definitions and the number of heads that a live materializer works with, from its last heartbeat."""

    host: str
    pid: int
    epoch: int | None
    graph: str | None
    heads: int | None


@dataclass(frozen=True, slots=True)
class Examination:
    """The findings in the store. `clock_ms`: how far the clock of this host is ahead of the database's."""

    at: datetime
    clock_ms: int
    findings: tuple[Finding, ...]
    materializers: tuple[MaterializerState, ...]


def examine(store: Store, limit: int) -> Examination:
    """Run all checks on the store, with at most `limit` sentences each."""
    bounds: Bounds = {"late": late_ms(store.settings), "grace": SILENT_MS, "limit": limit}
    with store.database.reading(unhurried=True) as connection:
        began = time.time()
        facts = _read_facts(connection, bounds)
        ahead = round(((began + time.time()) / 2 - facts["clock"].timestamp()) * 1000)
        materializers = connection.execute(SQL["materializers"], bounds).fetchall()
        findings = (*_findings(connection, bounds, facts), *_processes(connection, bounds, facts, materializers))
    # A store with another schema cannot be opened, so this check has passed.
    every = (Finding(checks.SCHEMA), *findings, _clock(ahead, limit))
    return Examination(facts["now"].astimezone(UTC), ahead, every, tuple(map(_materializer_state, materializers)))


def _materializer_state(row: Row) -> MaterializerState:
    return {
        "host": row["host"],
        "pid": row["pid"],
        "epoch": row["epoch"],
        "graph": row["graph"],
        "heads": row["heads"],
    }


def late_ms(settings: Settings) -> int:
    """Return the age from which waiting work counts as late."""
    return max(LATE_MS, 10 * settings.poll_ms, 4 * settings.lease_ms)


def schema(url: str) -> Finding:
    """Check the schema. All other checks need the schema of this version of Freshline."""
    found = migrate.status(url)
    try:
        migrate.require(found)
    except SchemaError as error:
        return finding(checks.SCHEMA, [error.message], 1)
    return Finding(checks.SCHEMA)


def _findings(connection: Connection, bounds: Bounds, facts: Row) -> Iterator[Finding]:
    forgotten = connection.execute(load("evaluation")["forgotten"], bounds).fetchall()
    yield _row_finding(checks.FORGOTTEN, forgotten, facts)
    for check in checks.STATEMENTS:
        yield _row_finding(check, connection.execute(SQL[check.statement], bounds).fetchall(), facts)


def _row_finding(check: Check, rows: Sequence[Row], facts: Row) -> Finding:
    if not rows:
        return Finding(check)
    sentences = [check.sentence.format_map({**row, "age": in_words(row.get("age") or 0)}) for row in rows]
    return Finding(check, rows[0]["total"], sentences, check.remedy or _materializer_remedy(facts["materializers"]))


def _materializer_remedy(materializers: int) -> str:
    """Return the remedy for late work of a materializer: none is running, or it is stuck."""
    if not materializers:
        return NO_MATERIALIZER
    return STUCK.format(count="a materializer is" if materializers == 1 else f"{materializers} materializers are")


def _processes(connection: Connection, bounds: Bounds, facts: Row, materializers: Sequence[Row]) -> Iterator[Finding]:
    digest = read_graph(connection).digest if materializers else ""
    different = [sentence for row in materializers for sentence in _differences(row, facts, digest)]
    yield finding(checks.MATERIALIZERS_DIFFER, different, bounds["limit"])
    queue = connection.execute(load("read")["queue"], bounds).fetchone() or {}
    yield finding(checks.ATTENDANCE, status.notes(queue), bounds["limit"])


def _differences(row: Row, facts: Row, digest: str) -> Iterator[str]:
    """Yield how the last heartbeat of a materializer differs from the database. It may be some seconds old."""
    who = f"the materializer on {row['host']} (pid {row['pid']})"
    if row["epoch"] is None:
        yield f"{who} does not report which definitions it works with: it runs another version of Freshline"
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
    direction = "ahead of" if ahead > 0 else "behind"
    return finding(
        checks.CLOCK, [f"this host's clock is {in_words(abs(ahead) / 1000)} {direction} the database's"], limit
    )


def _read_facts(connection: Connection, bounds: Bounds) -> Row:
    row = connection.execute(SQL["facts"], bounds).fetchone()
    assert row is not None  # noqa: S101 - the migration inserted the installation
    return row


def repair(store: Store, findings: Sequence[Finding]) -> list[str]:
    """Repair what can be repaired, and return the ids of the checks whose repair was attempted."""
    violated = {one.check.id for one in findings if one.count}
    repairs = _repairs(store)
    attempted = [check for check in repairs if check in violated]
    # Several checks may have the same repair.
    for work in dict.fromkeys(repairs[check] for check in attempted):
        work()
    if attempted:
        store.database.notify("events", "considerations", "timers", "runs")
    return attempted


def _repairs(store: Store) -> Mapping[str, Callable[[], None]]:
    batch = store.settings.batch
    return {
        "owner-retired": store.doctor.repair,
        "consideration-retired": store.doctor.repair,
        "timer-missing": store.doctor.repair,
        "timer-orphan": store.doctor.repair,
        "digest-differs": store.doctor.repair_digests,
        "backfill-stuck": lambda: _go_on(store),
        "lease-lost": lambda: _until_done(lambda: store.runs.rescue(batch)),
        "incident-stuck": lambda: _until_done(store.alert_evaluation.run),
        "timer-late": lambda: _fire(store, batch),
        "event-unabsorbed": lambda: _until_done(lambda: store.evaluation.consume_inbox(batch)),
        "event-unstamped": lambda: _until_done(lambda: store.events.stamp_positions(batch)),
        "forgotten": lambda: _until_done(store.evaluation.sweep, rounds=1),
    }


def _fire(store: Store, batch: int) -> None:
    _until_done(lambda: store.evaluation.fire_timers(batch))
    _until_done(lambda: store.retirement.retire_partitions() or 0)


def _go_on(store: Store) -> None:
    store.doctor.repair_backfills()
    _until_done(store.backfills.advance)


def _until_done(work: Callable[[], int], rounds: int = MAX_ROUNDS) -> None:
    for _ in range(rounds):
        if not work():
            return
