"""Run real processes under load and faults (`make chaos`), then check that nothing was lost or doubled.

Usage: python -m tests.chaos [--minutes M] [--seed N] [--keep DIRECTORY]. Exit code 0: the verdict is clean.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import structlog

from freshline.definitions.loading.project import load_project
from freshline.settings import Settings
from freshline.store.db import migrate
from freshline.store.db.database import Database
from freshline.store.store import Store
from tests.chaos.callers import Callers
from tests.chaos.chaos_workload import CALM, Clients, write_project
from tests.chaos.fleet import Fleet, seconds_since
from tests.chaos.history import History
from tests.waiting import wait_until

SETTLE_S = 60
BETWEEN_S = (0.2, 2.2)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a chaos run."""

    violations: list[str]
    settled_s: float
    faults: Counter[str]
    kills: int
    runs: Counter[str]
    reports: int
    answers: Counter[str]

    @property
    def clean(self) -> bool:
        return not self.violations


def chaos(root: Path, *, minutes: float, seed: int, verbose: bool = True) -> Verdict:
    """Inject faults for a time, then let the system settle; return the verdict."""
    report = print if verbose else (lambda _: None)
    rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
    write_project(root / "project")
    fleet = Fleet(root, rng, report)
    url = fleet.start_servers()
    callers = Callers(fleet.ports, rng.randint(0, 2**32))
    clients = Clients(url, root / "project", callers, rng.randint(0, 2**32))
    try:
        _apply(url, root / "project")
        fleet.start(url)
        clients.start()
        callers.start()
        _rage(fleet, rng, minutes * 60)
        settled_s, history = _calm(fleet, clients, root, url)
        callers.stop()
        runs = Counter(run["status"] for run in history.runs)
        found = [*history.violations(clients), *fleet.exits(), *callers.wrong]
        reports = sum(map(len, clients.reported.values()))
        return Verdict(found, settled_s, fleet.done, fleet.kills, runs, reports, callers.answers)
    finally:
        clients.close()
        fleet.close()


def _apply(url: str, project: Path) -> None:
    migrate.upgrade(url)
    database = Database(url)
    database.open()
    Store(database, Settings(project=project)).apply.commit(load_project(project))
    database.close()


def _rage(fleet: Fleet, rng: random.Random, seconds: float) -> None:
    started = time.monotonic()
    while (passed := seconds_since(started)) < seconds:
        name = fleet.fault()
        fleet.report(f"{passed:6.1f} s  {name}")
        time.sleep(min(rng.uniform(*BETWEEN_S), max(0.0, seconds - passed)))


def _calm(fleet: Fleet, clients: Clients, root: Path, url: str) -> tuple[float, History]:
    """Stop faults and changes; everything must settle without help and in time."""
    (root / "project" / CALM).touch()
    clients.stop()
    fleet.heal()
    started = time.monotonic()
    fleet.report("no more faults")
    history = History(url)

    def settled() -> bool:
        nonlocal history
        history = History(url)
        return history.unsettled(clients) is None

    try:
        wait_until(settled, SETTLE_S, every=0.3)
    except AssertionError:
        fleet.report(f"not settled within {SETTLE_S} s: {history.unsettled(clients)}")
    return seconds_since(started), history


def show(verdict: Verdict, seed: int) -> None:
    """Print the faults, the results and the verdict."""
    for name, count in sorted(verdict.faults.items()):
        print(f"{count:6}  {name}")
    print(f"{verdict.kills:6}  processes killed")
    print(f"{verdict.reports:6}  changes reported")
    for status, count in sorted(verdict.runs.items()):
        print(f"{count:6}  runs {status}")
    for status, count in sorted(verdict.answers.items()):
        print(f"{count:6}  answers of the API: {status}")
    print(f"settled {verdict.settled_s:.1f} s after the last fault")
    for violation in verdict.violations[:50]:
        print(f"BROKEN: {violation}")
    print(f"verdict: {'clean' if verdict.clean else f'{len(verdict.violations)} violations'} (seed {seed})")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 10**6)
    parser.add_argument("--keep", type=Path, help="a new directory for logs and data, kept afterwards")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    print(f"chaos for {options.minutes:g} minutes with seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="freshline-chaos-") as temporary:
        Path(temporary).chmod(0o711)  # the user of the server enters it, if root runs this
        verdict = chaos(options.keep or Path(temporary), minutes=options.minutes, seed=options.seed)
    show(verdict, options.seed)
    return 0 if verdict.clean else 1


if __name__ == "__main__":
    sys.exit(main())
