"""From the report of a source to the queued run of its consumer on an idle system, against the transactions alone.

The measured side is a client, a materializer process and notifications; the baseline calls `report`, `absorb` and
`reconcile` one after another on one connection.
"""

from __future__ import annotations

import time

from bench import graph
from bench.measure import Claim, Options, Pairs, Result, percentile
from bench.play import Player
from bench.server import Listener, listening, materializers, opened, started
from freshline.store.store import Store

P50, P99 = 3.0, 10.0
SOURCES = 20
WARM = 10
QUEUED = "SELECT count(*) = 1 FROM runs WHERE status = 'queued'"


def run(options: Options) -> Result:
    """Measure both sides in turns; after each report the run is executed, so that the system is idle again."""
    samples = options.size(300, 10)
    pairs = Pairs()
    with started() as server:
        layout = graph.fan(SOURCES)
        template = server.database()
        graph.store(template, layout)
        with (
            server.copy(template) as url,
            server.copy(template) as twin,
            materializers(server, url),
            opened(url) as store,
            listening(url) as listener,
            opened(twin, silent=True) as alone,
        ):
            worker, player = (Player(one, graph.PROJECT, graph.CODE) for one in (store, alone))
            for number in range(WARM + samples):
                source = layout.sources[number % SOURCES]
                pair = _measured(store, listener, worker, source, number), _baseline(player, source, number)
                if number >= WARM:
                    pairs.add(*pair)
        figures = {
            "p50_ms": [1000 * percentile(side, 0.5) for side in (pairs.measured, pairs.baseline)],
            "p99_ms": [1000 * percentile(side, 0.99) for side in (pairs.measured, pairs.baseline)],
            "server": server.settings,
        }
    claims = [Claim("p50", pairs.at(0.5), P50), Claim("p99", pairs.at(0.99), P99)]
    return Result("latency", claims, pairs.measured, pairs.baseline, "s", figures)


def _measured(store: Store, listener: Listener, worker: Player, source: str, number: int) -> float:
    began = time.perf_counter()
    store.operations.report(source, version=f"e{number}")
    ended = listener.until("runs", QUEUED)
    worker.drain("v1")
    store.database.notify("events")
    listener.idle()
    return ended - began


def _baseline(player: Player, source: str, number: int) -> float:
    began = time.perf_counter()
    player.store.operations.report(source, version=f"e{number}")
    player.decide()
    ended = time.perf_counter()
    assert player.drain("v1") == 1, "the same report queues the same run"
    player.settle()
    return ended - began
