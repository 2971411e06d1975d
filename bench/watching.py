"""From a file in a watched directory to the queued run, and the processor time of watching 1,000 sources every 30 s.

The baseline of the latency is a report by hand to the same processes. The processor time is that of the materializer
and of its database sessions together, while nothing new appears.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from bench.measure import Claim, Options, Pairs, Result, phase
from bench.play import Player
from bench.server import Listener, Project, Server, listening, opened, started
from freshline.definitions.loading.project import load_project

MEDIAN_S, SHARE = 1.5, 0.10
SAMPLES = 20
SOURCES = 1_000
WINDOW_S = 90.0
TICK = os.sysconf("SC_CLK_TCK")
QUEUED = "SELECT count(*) = 1 FROM runs WHERE status = 'queued'"
LOOKED = "SELECT count(*) = %s FROM watches WHERE looked_at IS NOT NULL"
SOURCE = """- assetId: {name}
  mode: append
  watch: {{ files: "{name}/*.csv", every: 30s }}
"""
WORKFLOW = """slug: consumer
steps:
  - id: work
    job: {kind: python, entrypoint: "jobs:work"}
    consumes: [{assetId: s0, rows: new}, {assetId: manual}]
    produces: [{assetId: consumer, autoMaterialize: {onUpstreamUpdate: true}}]
"""


def run(options: Options) -> Result:
    """Measure the latency with one source, then the processor time with many."""
    samples, sources = options.size(SAMPLES, 3), options.size(SOURCES, 20)
    with started() as server:
        with phase(f"{samples} files"):
            pairs = _latency(server, samples)
        with phase(f"{sources} sources"):
            process, database = _processor(server, sources, options.size(int(WINDOW_S), 5))
        figures = {"sources": sources, "server": server.settings}
    median = statistics.median(pairs.measured)
    claims = [
        Claim("a file against a report", pairs.ratio),
        Claim("median", median, MEDIAN_S, unit=" s"),
        Claim("share of a core, the process", process, unit=""),
        Claim("share of a core, the database", database, unit=""),
        Claim("share of a core, both", process + database, SHARE, unit=""),
    ]
    return Result("watching", claims, pairs.measured, pairs.baseline, "s", figures)


def _project(server: Server, url: str, sources: int) -> Project:
    root = server.home / f"project-{sources}"
    project = Project(root, url)
    names = [f"s{number}" for number in range(sources)]
    for name in names:
        (root / name).mkdir(parents=True)
        (root / name / "first.csv").write_text("id\n0\n")
    (root / "sources").mkdir()
    (root / "sources" / "all.yaml").write_text(
        "".join(SOURCE.format(name=name) for name in names) + "- assetId: manual\n  mode: append\n"
    )
    (root / "workflows" / "consumer.yaml").write_text(WORKFLOW)
    (root / "jobs.py").write_text("def work(ctx):\n    return None\n")
    project.call("apply", "--yes")
    return project


def _latency(server: Server, samples: int) -> Pairs:
    pairs = Pairs()
    url = server.database()
    project = _project(server, url, 1)
    with project.running("materializer"), opened(url) as store, listening(url) as listener:
        player = Player(store, "bench", load_project(project.root).code_hash)
        store.operations.report("manual")
        for number in range(samples + 1):
            _settle(listener, player)
            began = time.perf_counter()
            (project.root / "s0" / f"{number}.csv").write_text(f"id\n{number}\n")
            measured = listener.until("runs", QUEUED) - began
            _settle(listener, player)
            began = time.perf_counter()
            store.operations.report("manual", version=str(number))
            if number:  # the first one warms both sides
                pairs.add(measured, listener.until("runs", QUEUED) - began)
    return pairs


def _settle(listener: Listener, player: Player) -> None:
    """Execute the queued run, and wait until nothing is to be decided."""
    listener.until("runs", QUEUED)
    player.drain("v1")
    player.store.database.notify("events")
    listener.idle()


def _processor(server: Server, sources: int, window_s: float) -> tuple[float, float]:
    """Return the share of a core that a materializer and its database sessions need."""
    url = server.database()
    project = _project(server, url, sources)
    with project.running("materializer") as process, listening(url) as listener:
        listener.until("watches", LOOKED, sources)
        began, before = time.perf_counter(), _seconds(process.pid)
        sessions = {pid: _seconds(pid) for pid in _sessions(listener)}
        time.sleep(window_s)
        elapsed = time.perf_counter() - began
        used = sum(_seconds(pid) - sessions.get(pid, 0.0) for pid in _sessions(listener))
        return (_seconds(process.pid) - before) / elapsed, used / elapsed


def _sessions(listener: Listener) -> list[int]:
    query = "SELECT array_agg(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    return list(listener.value(query) or ())


def _seconds(pid: int) -> float:
    """Return the processor time of a process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK
