"""Run many random histories (`make sim`) in ranges; a second call resumes, and all results are summed up.

Usage: python -m tests.random_histories [--seeds N] [--first SEED] [--processes P] [--directory DIRECTORY].
Exit code 0: all histories were safe and converged. A changed program or harness begins anew.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from freshline.embedded_postgres.server import EmbeddedServer
from tests.random_histories.ranges import Ledger, Result, begin, simulate_range, split

QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum_naptime": "10s"}
SHOWN = 20


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.random_histories", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--directory", type=Path, default=Path(".sim"))
    options = parser.parse_args()
    ledger, wanted = Ledger(options.directory), split(options.first, options.seeds)
    left = ledger.left(wanted)
    print(f"{options.seeds} histories from seed {options.first}: {len(left)} of {len(wanted)} ranges left", flush=True)
    if left:
        _run(left, ledger, min(options.processes, len(left)))
    return _sum_up(ledger, {(one.start, len(one)) for one in wanted})


def _run(left: list[range], ledger: Ledger, processes: int) -> None:
    """Run ranges in several processes, each with a database of its own on one server."""
    with (
        tempfile.TemporaryDirectory(prefix="freshline-") as home,
        EmbeddedServer(Path(home), options=QUICK) as server,
        ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), begin, (server,)) as pool,
    ):
        for number, done in enumerate(as_completed([pool.submit(simulate_range, one) for one in left]), start=1):
            result = done.result()
            ledger.keep(result)
            pace = result.seconds / result.histories
            failed = f", FAILED: {len(result.failures)}" if result.failures else ""
            print(f"{number:5}/{len(left)}  from {result.first}: {pace:.2f} s each{failed}", flush=True)


def _sum_up(ledger: Ledger, wanted: set[tuple[int, int]]) -> int:
    total = Result(0)
    for one in ledger.results():
        if (one.first, one.histories) in wanted:
            total.add(one)
    for name, count in sorted(total.counts.items()):
        print(f"{count:10}  {name}")
    for failure in total.failures[:SHOWN]:
        print(f"BROKEN: {failure}")
    verdict = "all safe and settled" if not total.failures else f"{len(total.failures)} FAILED"
    print(f"{total.histories} histories in {total.seconds / 60:.0f} minutes of work: {verdict}")
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
