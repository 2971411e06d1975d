"""Cost of one event with 100,000 assets, against 1,000: it depends on the consumers, not on the size."""

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
SIZES = ((1_000, 200), (10_000, 600), (100_000, 2_000))  # normal, and quick
SHAPES: dict[str, Callable[[int], graph.Layout]] = {"components": graph.components, "layers": graph.layers}
MIDDLE = f"l{graph.LAYERS // 2:02}-"


def run(options: Options) -> Result:
    """Measure events in turns in a small, a medium and a large catalogue, for two shapes of graph."""
    sizes = [options.size(*pair) for pair in SIZES]
    found: dict[str, list[list[float]]] = {}
    with started() as server:
        for shape, layout in SHAPES.items():
            found[shape] = _compare(server, [layout(size) for size in sizes], options.size(200, 10))
        figures: dict[str, Any] = {
            f"{shape}_ms": [1000 * percentile(times, 0.5) for times in sides] for shape, sides in found.items()
        }
        figures |= {"assets": sizes, "server": server.settings}
    pairs = {shape: Pairs(large, small) for shape, (small, *_, large) in found.items()}
    claims = [Claim(shape, one.ratio, GOAL) for shape, one in pairs.items()]
    claims.sort(key=lambda claim: -claim.value)  # the worse claim is the ratio
    worst = pairs[claims[0].what]
    return Result("catalogue", claims, worst.measured, worst.baseline, "s", figures)


def _compare(server: Server, layouts: Sequence[graph.Layout], events: int) -> list[list[float]]:
    """Return the times for each size."""
    times: list[list[float]] = [[] for _ in layouts]
    with ExitStack() as stack:
        sides = []
        for layout in layouts:
            url = server.database()
            with phase(f"a graph of {layout.assets} assets"):
                graph.store(url, layout)
            store = stack.enter_context(opened(url, silent=True))
            sides.append((Player(store, graph.PROJECT, graph.CODE), places(layout)))
        for number in range(WARM + events):
            taken = [event(player, where, number) for player, where in sides]
            if number >= WARM:
                for side, one in zip(times, taken, strict=True):
                    side.append(one)
    return times


def places(layout: graph.Layout) -> Sequence[str]:
    """Return the assets to change: sources, or in a layered graph the assets of the middle layer."""
    return [slug for slug in layout.consumes if slug.startswith(MIDDLE)] or layout.sources


def event(player: Player, where: Sequence[str], number: int) -> float:
    """Time the change of one asset until it is decided. The queued runs are then executed untimed, without a change."""
    asset, version = where[number * 7 % len(where)], f"e{number}"
    if asset.startswith(MIDDLE):
        player.store.operations.request_run(asset)
        run = player.claim()
        assert run is not None
        began = time.perf_counter()
        player.finish(run, version)
    else:
        began = time.perf_counter()
        player.store.operations.report(asset, version=version)
    player.decide()
    ended = time.perf_counter()
    player.drain("v1")
    player.settle()
    return ended - began
