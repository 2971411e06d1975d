"""Dagster with declarative automation: its daemon with a code server, on PostgreSQL, and a process that reports.

Best: the sensor may look every second (the daemon's own loop takes five), runs start at once instead of through the
queue, and a run does its steps in its own process. Default: what an installation does that only names its database.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.graph import Layout
from bench.measure import spread
from bench.peers import process, system
from bench.peers.system import Queries, System
from bench.server import Server

DEFINITIONS = Path(__file__).with_name("definitions")
PACKAGES = ("dagster", "dagster-postgres")
QUERIES = Queries(
    runs="SELECT count(*) FROM runs",
    active="SELECT count(*) FROM runs WHERE status NOT IN ('SUCCESS', 'FAILURE', 'CANCELED')",
    results="""SELECT count(*) FROM event_logs
               WHERE dagster_event_type = 'ASSET_MATERIALIZATION' AND asset_key = '["' || %s || '"]'""",
)
TICKS = "SELECT status, tick_body FROM job_ticks WHERE status IN ('SUCCESS', 'SKIPPED') ORDER BY id"
TICKED = "SELECT count(*) FROM job_ticks WHERE status IN ('SUCCESS', 'SKIPPED')"


@dataclass(frozen=True, slots=True)
class Settings:
    """Configuration. `interval`: the effective polling interval; `handled`: when an update counts as handled.

    `first`: the number of initial full evaluations to wait for.
    """

    words: str
    sensor: str
    interval: float
    coordinator: str
    handled: str = ""
    first: int = 2


DEFAULT = Settings("defaults", "", 30.0, "", first=1)
BEST = Settings("best", "1", 5.0, "DefaultRunCoordinator")
REQUESTED = Settings("best, own condition", "1", 5.0, "DefaultRunCoordinator", "requested")


@contextmanager
def running(
    server: Server, home: Path, layout: Layout, environment: Path, settings: Settings = BEST
) -> Iterator[System]:
    """Yield a running installation in which every asset is materialized and the first evaluation is done."""
    home.mkdir(parents=True)
    url, notes, program = server.empty(), home / "notes", environment / "bin"
    (home / "dagster.yaml").write_text(configuration(url, settings.coordinator), encoding="utf-8")
    (home / "graph.json").write_text(system.as_json(layout), encoding="utf-8")
    environ = process.plain(
        DAGSTER_HOME=str(home),
        PYTHONPATH=str(DEFINITIONS),
        PYTHONWARNINGS="ignore",
        PEERS_GRAPH=str(home / "graph.json"),
        PEERS_LOG=str(notes),
        PEERS_SLOW_SECONDS=str(system.SLOW_S),
        PEERS_INTERVAL=settings.sensor,
        PEERS_HANDLED=settings.handled,
    )
    log = home / "dagster.log"
    reporter: list[str | Path] = [program / "python", DEFINITIONS / "dagster_report.py"]
    daemon: list[str | Path] = [program / "dagster-daemon", "run", "-f", DEFINITIONS / "dagster_assets.py"]
    with process.running(reporter, environ, log) as client:
        _hear(client, "ready")
        _report(client, [*layout.sources, *layout.consumes])
        with process.service(daemon, environ, log) as one, psycopg.connect(url, autocommit=True) as connection:
            found = System(QUERIES, connection, lambda source: _report(client, [source]), notes)
            found.interval, found.calm = settings.interval, 2 * settings.interval + 3
            system.ready(lambda: process.alive(one, log) and found.count(TICKED) >= settings.first, "Dagster's daemon")
            yield found


def configuration(url: str, coordinator: str) -> str:
    """Return the text of dagster.yaml; JSON is YAML."""
    words: dict[str, Any] = {"storage": {"postgres": {"postgres_url": url}}, "telemetry": {"enabled": False}}
    if coordinator:
        words["run_coordinator"] = {"module": "dagster.core.run_coordinator", "class": coordinator}
    return json.dumps(words, indent=2)


def ticks(found: System) -> dict[str, Any]:
    """Return the durations of its evaluations as it reports them: with and without requested runs."""
    return summary(found.connection.execute(TICKS).fetchall()[BEST.first :])


def summary(rows: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Summarize the status and body of ticks as Dagster stores them."""
    lengths: dict[str, list[float]] = {"SUCCESS": [], "SKIPPED": []}
    for status, body in rows:
        tick = json.loads(body)
        lengths[status].append(tick["end_timestamp"] - tick["timestamp"])
    busy, quiet = lengths["SUCCESS"], lengths["SKIPPED"]
    return {"busy": spread(busy) if busy else None, "quiet": statistics.median(quiet) if quiet else None}


def _report(client: subprocess.Popen[str], assets: Sequence[str]) -> None:
    assert client.stdin is not None
    client.stdin.write(f"{' '.join(assets)}\n")
    client.stdin.flush()
    _hear(client, "ok")


def _hear(client: subprocess.Popen[str], word: str) -> None:
    assert client.stdout is not None
    line = client.stdout.readline().strip()
    if line != word:
        raise system.TooSlow(f"the process that reports to Dagster said {line!r} instead of {word!r}")
