"""A report that reaches 1,000 workflows in ten layers, until all are fresh, against the same transactions alone.

The measured side is a materializer and a worker with two slots; the baseline calls the store on one connection, and
its jobs cost nothing.
"""

from __future__ import annotations

import time

from bench import graph
from bench.measure import Claim, Options, Pairs, Result, phase
from bench.play import Player, outputs
from bench.server import Project, Server, listening, materializers, opened, started, worker
from freshline.definitions.code import code_hash

FRESH = """
SELECT (SELECT count(*) FROM heads WHERE data_version = 'v1') = 0
   AND NOT EXISTS (SELECT FROM inbox)
   AND NOT EXISTS (SELECT FROM considerations)
   AND NOT EXISTS (SELECT FROM runs WHERE status IN ('queued', 'running'))
"""
READY = "SELECT count(*) > 0 FROM workers WHERE kind = 'worker' AND stopped_at IS NULL"
RUNS = "SELECT count(*) FROM runs WHERE status = 'succeeded'"
POLL = "(none)"  # polled rarely: a wave sends thousands of notifications


def run(options: Options) -> Result:
    """Measure whole waves in turns, each on a copy of the same graph."""
    layout = graph.cone(options.size(1_000, 30))
    pairs = Pairs()
    ran = []
    with started() as server:
        root = server.home / "wave"
        root.mkdir()
        (root / "jobs.py").write_text("def work(ctx):\n    return None\n")
        template = server.database()
        with phase(f"a graph of {layout.assets} assets"):
            graph.store(template, layout, code_hash(root))
        for _ in range(options.rounds(3)):
            measured, runs = _measured(server, template)
            pairs.add(measured, _baseline(server, template, code_hash(root)))
            ran.append(runs)
        figures = {
            "workflows": len(layout.consumes),
            "runs": ran,
            "runs_per_second": [runs / one for runs, one in zip(ran, pairs.measured, strict=True)],
            "server": server.settings,
        }
    claim = Claim("report to all fresh, against the transactions alone", pairs.ratio)
    return Result("wave", [claim], pairs.measured, pairs.baseline, "s", figures)


def _measured(server: Server, template: str) -> tuple[float, int]:
    with server.copy(template) as url:
        project = Project(server.home / "wave", url)
        with (
            materializers(server, url),
            worker(project, "--slots", "2"),
            opened(url) as store,
            listening(url) as listener,
        ):
            listener.until(POLL, READY)
            began = time.perf_counter()
            store.operations.report("source", version="v2")
            ended = listener.until(POLL, FRESH)
            return ended - began, int(listener.value(RUNS))


def _baseline(server: Server, template: str, code: str) -> float:
    with server.copy(template) as url, opened(url, silent=True) as store:
        player = Player(store, graph.PROJECT, code)
        player.settle()
        began = time.perf_counter()
        store.operations.report("source", version="v2")
        player.settle()
        while (run := player.claim()) is not None:
            store.runs.begin_step(run.id, run.attempt, "work", 1)
            made = outputs(run, f"run:{run.id}")
            store.runs.finish_step(run.id, run.attempt, "work", 1, outputs=made, metrics={})
            store.runs.publish(run, made)
            player.settle()
        return time.perf_counter() - began
