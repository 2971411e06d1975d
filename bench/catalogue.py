"""What one event costs in a catalogue of 100,000 assets, against one of 1,000: an event costs its consumers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from bench import graph
from bench.measure import Claim, Options, Pairs, Result, percentile, phase
from bench.play import Player
from bench.server import Server, opened, started

GOAL = 1.3
WARM = 10
SHAPES: dict[str, Callable[[int], graph.Layout]] = {"components": graph.components, "layers": graph.layers}
MIDDLE = f"l{graph.LAYERS // 2:02}-"


def run(options: Options) -> Result:
    """For both shapes: events in turns in the large and in the small catalogue."""
    large, small = options.size(100_000, 2_000), options.size(1_000, 200)
    found: dict[str, Pairs] = {}
    with started() as server:
        for shape, layout in SHAPES.items():
            found[shape] = _compare(server, layout(large), layout(small), options.size(200, 10))
        figures: dict[str, Any] = {
            f"{shape}_ms": [1000 * percentile(side, 0.5) for side in (pairs.measured, pairs.baseline)]
            for shape, pairs in found.items()
        }
        figures |= {"assets": [large, small], "server": server.settings}
    claims = [Claim(shape, pairs.ratio, GOAL) for shape, pairs in found.items()]
    claims.sort(key=lambda claim: -claim.value)  # the worse one is the ratio
    worst = found[claims[0].what]
    return Result("catalogue", claims, worst.measured, worst.baseline, "s", figures)


def _compare(server: Server, large: graph.Layout, small: graph.Layout, events: int) -> Pairs:
    pairs = Pairs()
    with ExitStack() as stack:
        sides = []
        for layout in (large, small):
            url = server.database()
            with phase(f"a graph of {layout.assets} assets"):
                graph.store(url, layout)
            store = stack.enter_context(opened(url, silent=True))
            sides.append((Player(store, graph.PROJECT, graph.CODE), places(layout)))
        for number in range(WARM + events):
            (big, many), (little, few) = sides
            pair = event(big, many, number), event(little, few, number)
            if number >= WARM:
                pairs.add(*pair)
    return pairs


def places(layout: graph.Layout) -> Sequence[str]:
    """Where events happen: at sources, or where there are layers at what is made in the middle one."""
    return [slug for slug in layout.consumes if slug.startswith(MIDDLE)] or layout.sources


def event(player: Player, where: Sequence[str], number: int) -> float:
    """A change of one asset until it is decided; afterwards, untimed, what it queued is done without any change."""
    asset, version = where[number * 7 % len(where)], f"e{number}"
    if asset.startswith(MIDDLE):
        player.store.request_run(asset)
        run = player.claim()
        assert run is not None
        began = time.perf_counter()
        player.finish(run, version)
    else:
        began = time.perf_counter()
        player.store.report(asset, version=version)
    player.decide()
    ended = time.perf_counter()
    player.drain("v1")
    player.settle()
    return ended - began
