"""Events per second through one materializer, up to the decision, against plain inserts of the same rows."""

from __future__ import annotations

from bench import baseline, graph, load
from bench.measure import Claim, Options, Pairs, Result, phase
from bench.server import started

GOAL = 0.25


def run(options: Options) -> Result:
    """Measure sources with one consumer each, so that an event is one decision and one run."""
    events = options.size(10_000, 200)
    pairs = Pairs()
    with started() as server:
        layout = graph.fan(events + load.WARM)
        template = server.database()
        with phase(f"a graph of {layout.assets} assets"):
            graph.store(template, layout)
        rows = {}
        for _ in range(options.rounds()):
            found = load.decide_all(server, template, layout.sources)
            plain = load.write_again(server, template, found.rows)
            pairs.add(events / found.seconds, events / plain)
            rows = dict(baseline.counts(found.rows))
        figures = {"events": events, "rows": rows, "server": server.settings}
    claim = Claim("events per second, against plain rows", pairs.ratio, GOAL, at_least=True)
    return Result("throughput", [claim], pairs.measured, pairs.baseline, "events/s", figures)
