"""Run real processes under load and faults (`make chaos`), then check that nothing was lost or doubled.

Usage: python -m tests.chaos [--minutes M] [--seed N] [--keep DIRECTORY]. Exit code 0: the verdict is clean.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import structlog

from freshline.store.db import migrate
from tests.chaos.callers import Callers
from tests.chaos.chaos_workload import CALM, first_state, write_project
from tests.chaos.clients import Clients
from tests.chaos.days import Days
from tests.chaos.fleet import Fleet
from tests.chaos.history import Heads, History
from tests.chaos.landing import TABLE, Landing
from tests.chaos.members import seconds_since
from tests.chaos.redefinitions import Redefinitions
from tests.chaos.restores import Restores
from tests.chaos.tables import Tables
from tests.waiting import wait_until

SETTLE_S = 60
DOCTOR_S = 30
BETWEEN_S = (0.05, 1.25)
FIRST_S, BACKUP_S, RESTORE_S, FULL_S = (5.0, 10.0), (120.0, 260.0), (4.0, 20.0), (30.0, 80.0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a chaos run."""

    violations: list[str]
    settled_s: float
    faults: Counter[str]
    redefinitions: Counter[str]
    partitions: Counter[str]
    kills: int
    restores: int
    runs: Counter[str]
    lost_runs: int
    mixed: int
    reports: int
    repeated: int
    answers: Counter[str]
    files: int
    left_out: str | None

    @property
    def clean(self) -> bool:
        return not self.violations


class Chaos:
    """The processes, their clients and all faults."""

    def __init__(self, fleet: Fleet) -> None:
        self.rng = fleet.rng
        self.fleet = fleet
        state = first_state()
        write_project(self.fleet.project, state)
        self.url = self.fleet.start_servers()
        migrate.upgrade(self.url)
        seeds = [self.rng.randint(0, 2**32) for _ in range(4)]
        ledgers = self.fleet.project.with_name("ledgers")
        self.callers = Callers(self.fleet.ports, seeds[0])
        self.redefinitions = Redefinitions(self.url, self.fleet.project, state, seeds[1], lambda: self.fleet.environ)
        self.clients = Clients(self.url, self.fleet.project, self.callers, seeds[2], self.redefinitions.slugs)
        warehouse = fleet.project / ".freshline" / "warehouse"
        self.tables = Tables(self.url, ledgers, warehouse, seeds[3])
        self.landing = Landing(self.url, ledgers, seeds[3] + 1)
        self.days = Days(self.url, fleet.project.with_name("calendar"), seeds[3] + 2)
        self.restores = Restores(fleet, self.clients, self.redefinitions, self.tables, self.days, self.url)

    def start(self) -> None:
        self.redefinitions.start()
        self.tables.start()
        self.landing.start()
        self.fleet.start()
        self.days.start()
        self.clients.start()
        self.callers.start()
        self.redefinitions.begin()

    def rage(self, seconds: float) -> None:
        """Inject faults for a time."""
        started = time.monotonic()
        backup = self.rng.uniform(*FIRST_S)
        full = backup + self.rng.uniform(*FIRST_S)
        while (passed := seconds_since(started)) < seconds:
            if passed > backup:
                name, wait = self._turn_back()
                backup = seconds_since(started) + self.rng.uniform(*wait)
            elif passed > full and self.fleet.disks.disks:
                name, full = self.fleet.fill_disk(), passed + self.rng.uniform(*FULL_S)
            else:
                name = self.fleet.fault()
            self.fleet.report(f"{passed:6.1f} s  {name}")
            time.sleep(min(self.rng.uniform(*BETWEEN_S), max(0.0, seconds - passed)))

    def _turn_back(self) -> tuple[str, tuple[float, float]]:
        """Take a backup, or restore it; return what was done, and how long to wait before the next time."""
        if not self.restores.pending:
            done = self.restores.back_up()
            return "back up the database", RESTORE_S if done else FIRST_S
        began = time.monotonic()
        self.restores.restore()
        return f"restore the database, in {seconds_since(began):.1f} s", BACKUP_S

    def calm(self) -> tuple[float, History]:
        """Stop faults and changes; everything must settle without help and in time."""
        (self.fleet.project / CALM).touch()
        self.fleet.heal()
        started = time.monotonic()
        self.fleet.report("no more faults")
        self.redefinitions.stop()
        self.clients.stop()
        self.days.stop()
        self.landing.stop()
        left: list[str] = []

        def settled() -> bool:
            work = Heads(self.url).unsettled(self.clients, self.redefinitions)
            left[:] = [work] if work else [*self._misloaded(), *self.days.unsettled()]
            return not left

        try:
            wait_until(settled, SETTLE_S, every=0.3)
        except AssertionError:
            self.fleet.report(f"not settled within {SETTLE_S} s: {left[:5]}")
        return seconds_since(started), self._settled_history()

    def _misloaded(self) -> list[str]:
        return self.landing.wrong(self.tables.rows(TABLE))

    def _settled_history(self) -> History:
        """Read the history at a moment without work: an asset that expires every 3 s makes work again and again."""
        history = History(self.url)
        for _ in range(20):
            if history.unsettled(self.clients, self.redefinitions) is None:
                break
            history = History(self.url)
        return history

    def doctor(self) -> list[str]:
        """Return what the doctor finds at the end, again and again for a while."""
        found: list[str] = []

        def healthy() -> bool:
            command = [sys.executable, "-m", "freshline.cli.main", "doctor", "--json"]
            done = subprocess.run(
                command, env=self.fleet.environ, cwd=self.fleet.project, capture_output=True, text=True, check=False
            )
            checks = json.loads(done.stdout or "{}").get("checks", [])
            bad = (one for one in checks if one["count"] and one["severity"] != "note")
            found[:] = [f"doctor: {one['id']}: {one['found'][:3]}" for one in bad]
            if done.returncode and not found:
                found.append(f"doctor ended with {done.returncode}: {done.stderr[-300:]}")
            return not found

        try:
            wait_until(healthy, DOCTOR_S, every=0.5)
        except AssertionError:
            return found
        return []

    def verdict(self, settled_s: float, history: History) -> Verdict:
        """Return the result of the run, which has settled."""
        found = [
            *history.violations(self.clients, self.redefinitions, self.fleet.project),
            *self.tables.wrong(self.clients.sources()),
            *self._misloaded(),
            *self.days.wrong(),
            *self.doctor(),
            *self.fleet.exits(),
            *self.fleet.violations,
            *self.restores.violations,
            *self.callers.wrong,
        ]
        return Verdict(
            violations=found,
            settled_s=settled_s,
            faults=self.fleet.done,
            redefinitions=self.redefinitions.done,
            partitions=self.days.done,
            kills=self.fleet.kills + self.redefinitions.kills,
            restores=self.restores.done,
            runs=Counter(run["status"] for run in history.runs),
            lost_runs=self.restores.lost_runs,
            mixed=sum(run["mixed"] for run in history.runs),
            reports=len(self.clients.reported),
            repeated=self.clients.repeated,
            answers=self.callers.answers,
            files=len(self.landing.dropped),
            left_out=self.fleet.disks.missing,
        )

    def close(self) -> None:
        """Stop the clients."""
        self.landing.stop()
        self.days.close()
        self.tables.close()
        self.clients.close()
        self.redefinitions.close()


def chaos(root: Path, *, minutes: float, seed: int, verbose: bool = True, keep: bool = False) -> Verdict:
    """Inject faults for a time, then let the system settle; return the verdict."""
    rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
    fleet = Fleet(root, rng, print if verbose else (lambda _: None), keep=keep)
    with closing(fleet), closing(Chaos(fleet)) as one:
        one.start()
        one.rage(minutes * 60)
        settled_s, history = one.calm()
        one.callers.stop()
        return one.verdict(settled_s, history)


def show(verdict: Verdict, seed: int) -> None:
    """Print the faults, the results and the verdict."""
    for name, count in sorted((verdict.faults + verdict.redefinitions + verdict.partitions).items()):
        print(f"{count:6}  {name}")
    if verdict.left_out:
        print(f"        the disks were not filled: {verdict.left_out}")
    print(f"{verdict.restores:6}  restores of an older database")
    print(f"{sum(verdict.redefinitions.values()):6}  redefinitions")
    print(f"{verdict.kills:6}  processes killed")
    print(f"{verdict.reports:6}  changes reported, and {verdict.repeated} of them again after a restore")
    print(f"{verdict.files:6}  files dropped into a watched directory")
    for status, count in sorted(verdict.runs.items()):
        print(f"{count:6}  runs {status}")
    print(f"{verdict.lost_runs:6}  runs lost by the restores")
    print(f"{verdict.mixed:6}  runs that said `mixed`")
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
    for ending in (signal.SIGINT, signal.SIGTERM):  # also where the shell ignores Ctrl-C; the disks must be unmounted
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    print(f"chaos for {options.minutes:g} minutes with seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="freshline-chaos-") as temporary:
        Path(temporary).chmod(0o711)  # the user of the server enters it, if root runs this
        root, keep = options.keep or Path(temporary), options.keep is not None
        verdict = chaos(root, minutes=options.minutes, seed=options.seed, keep=keep)
    show(verdict, options.seed)
    return 0 if verdict.clean else 1


if __name__ == "__main__":
    sys.exit(main())
