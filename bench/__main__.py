"""Command line of the benchmarks: `python -m bench NAME --json`. Without a name it lists them.

With `--json` the last line is one JSON object. `python -m bench all` runs every benchmark and updates
docs/performance.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import signal
import sys
import time
from pathlib import Path

import structlog

from bench.measure import Options, echo, show

NAMES = {
    "latency": "bench.latency",
    "throughput": "bench.throughput",
    "catalogue": "bench.catalogue",
    "fanout": "bench.fanout",
    "workers": "bench.workers",
    "job": "bench.job",
    "spark-small": "bench.spark_small",
    "spark-large": "bench.spark_large",
    "memory": "bench.memory",
    "wave": "bench.wave",
    "startup": "bench.startup",
    "watching": "bench.watching",
    "page-graph": "bench.page_graph",
}
EXTRA = {  # not in `all`: they take too long
    "endurance": "bench.endurance",
    "deliveries": "bench.deliveries",
    "partitions": "bench.partitions",
    "backfill": "bench.backfill",
    "columns": "bench.columns",
}
PEERS = "peers"  # not in `all`: it downloads the other systems


def main(arguments: list[str]) -> int:
    """Run one benchmark, all of them, or list them."""
    options = _parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends started processes, as Ctrl-C does
    if options.name is None:
        for name, module in (NAMES | EXTRA).items():
            echo(f"{name:12} {(importlib.import_module(module).__doc__ or '').splitlines()[0]}")
        echo(f"{PEERS:12} {(importlib.import_module('bench.peers.comparison').__doc__ or '').splitlines()[0]}")
        return 0
    # Baselines run in this process: debug logs of transactions must not be measured.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    if options.name == PEERS:
        return _compare(options)
    if options.name == "all":
        from bench.suite import ROOT, run_all  # noqa: PLC0415 - it starts the others

        return run_all(list(NAMES), quick=options.quick, root=None if options.quick else ROOT)
    _measure(options)
    return 0


def _measure(options: argparse.Namespace) -> None:
    module = importlib.import_module((NAMES | EXTRA)[options.name])
    echo(f"{options.name}: {(module.__doc__ or '').splitlines()[0]}")
    chosen = Options(quick=options.quick, pairs=options.pairs, rows=options.rows, events=options.events)
    began = time.perf_counter()
    result = module.run(chosen).as_json(chosen, time.perf_counter() - began)
    for line in show(result):
        echo(line)
    if options.json:
        echo(json.dumps(result))


def _compare(options: argparse.Namespace) -> int:
    from bench.peers import comparison, table  # noqa: PLC0415 - needed for this alone

    echo(f"{PEERS}: {(comparison.__doc__ or '').splitlines()[0]}")
    found = comparison.compare(Options(quick=options.quick), options.cache or comparison.CACHE, options.only)
    for line in (*table.show(found), *comparison.write(found)):
        echo(line)
    if options.json:
        echo(json.dumps(found))
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").splitlines()[0])
    names = [*NAMES, *EXTRA, "all", PEERS]
    parser.add_argument("name", nargs="?", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--json", action="store_true", help="end with one JSON line")
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, to see that it works; the figures mean nothing"
    )
    parser.add_argument("--pairs", type=_positive, help="how many pairs are measured (default: at least 5)")
    parser.add_argument("--rows", type=_positive, help="rows of spark-large (default 20,000,000)")
    parser.add_argument("--events", type=_positive, help="history of endurance (default 1,000,000)")
    parser.add_argument("--cache", type=Path, help="peers: where their environments are kept (.freshline/peers)")
    parser.add_argument("--only", action="append", default=[], choices=["dagster", "airflow"], help="peers: this one")
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not allowed; give a whole number from 1")
    return number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
