"""One source with many consumers: from its report to the last queued run, against plain inserts of the same rows."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench import baseline, graph
from bench.baseline import Rows
from bench.measure import Claim, Options, Pairs, Result, phase
from bench.server import Server, listening, materializers, opened, started

GOAL = 4.0
QUEUED = "SELECT count(*) = %s FROM runs WHERE status = 'queued'"
WARM = 2  # further sources, with one consumer each


def run(options: Options) -> Result:
    """Measure with a warm materializer on an idle system."""
    consumers = options.size(10_000, 200)
    pairs = Pairs()
    with started() as server:
        wide = graph.fan(1, consumers)
        layout = graph.Layout(
            [*wide.sources, "warm"], {**wide.consumes, **{f"warm-{one}": ("warm",) for one in range(WARM)}}
        )
        template = server.database()
        with phase(f"a graph of {layout.assets} assets"):
            graph.store(template, layout)
        rows: Sequence[Rows] = ()
        for _ in range(options.rounds()):
            seconds, rows = _wave(server, template, layout, consumers)
            with server.copy(template) as twin:
                pairs.add(seconds, baseline.write(twin, rows))
        figures = {"consumers": consumers, "rows": dict(baseline.counts(rows)), "server": server.settings}
    claim = Claim("report to last queued, against plain rows", pairs.ratio, GOAL)
    return Result("fanout", [claim], pairs.measured, pairs.baseline, "s", figures)


def _wave(server: Server, template: str, layout: graph.Layout, consumers: int) -> tuple[float, list[Rows]]:
    with server.copy(template) as url, materializers(server, url), opened(url) as store, listening(url) as listener:
        store.operations.report("warm", version="v2")
        listener.until("runs", QUEUED, WARM)
        since = baseline.now(url)
        began = time.perf_counter()
        store.operations.report(layout.sources[0], version="v2")
        ended = listener.until("runs", QUEUED, WARM + consumers)
        return ended - began, baseline.written(url, since)
