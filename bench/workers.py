"""Two and four materializers against one: sharing must not cost speed, and nothing is done twice."""

from __future__ import annotations

import statistics

from bench import graph, load
from bench.measure import Claim, Options, Result, phase
from bench.server import started

GOAL = 0.9
COUNTS = (1, 2, 4)


def run(options: Options) -> Result:
    """Measure the load of `throughput` in turns with one, two and four processes."""
    events = options.size(5_000, 200)
    speeds: dict[int, list[float]] = {count: [] for count in COUNTS}
    doubles = 0
    with started() as server:
        layout = graph.fan(events + load.WARM)
        template = server.database()
        with phase(f"a graph of {layout.assets} assets"):
            graph.store(template, layout)
        for _ in range(options.rounds()):
            for count in COUNTS:
                found = load.decide_all(server, template, layout.sources, count=count)
                speeds[count].append(events / found.seconds)
                doubles += found.doubles
        figures = {"events": events, "server": server.settings}
    ratios = {count: _ratio(speeds[count], speeds[1]) for count in COUNTS[1:]}
    claims = [
        Claim("slowest of two and four, against one", min(ratios.values()), GOAL, at_least=True),
        Claim("runs decided twice", doubles, 0, unit=""),
    ]
    figures |= {f"{count} materializers": ratio for count, ratio in ratios.items()}
    slowest = min(ratios, key=lambda count: ratios[count])
    return Result("workers", claims, speeds[slowest], speeds[1], "events/s", figures)


def _ratio(many: list[float], one: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(many, one, strict=True))
