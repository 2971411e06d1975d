"""Backups of the database, and restores of an older one by the documented steps."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from freshline.embedded_postgres import binaries
from freshline.errors import DatabaseError
from tests.chaos.clients import Clients, Mark
from tests.chaos.days import Days
from tests.chaos.fleet import Fleet
from tests.chaos.redefinitions import Redefinitions
from tests.chaos.tables import Tables

# docs/deployment.md, "Backup and restore". The doctor may find something: that is what it is for.
STEPS: tuple[tuple[tuple[str, ...], Iterable[int]], ...] = (
    (("doctor",), (0, 1)),
    (("table", "repair", "--all"), (0,)),
    (("db", "restored"), (0,)),
)


@dataclass
class Restores:
    """Takes one backup at a time, and restores it later."""

    fleet: Fleet
    clients: Clients
    redefinitions: Redefinitions
    tables: Tables
    days: Days
    url: str
    done: int = 0
    lost_runs: int = 0
    violations: list[str] = field(default_factory=list)
    _mark: Mark | None = None
    _days: int = 0

    @property
    def _file(self) -> Path:
        return self.fleet.root / "backup.dump"

    @property
    def pending(self) -> bool:
        """Whether there is a backup."""
        return self._mark is not None

    def back_up(self) -> bool:
        """Dump the database while everything runs. Return False if the database did not answer."""
        mark, days = self.clients.mark(), self.days.mark()
        try:
            binaries.run("pg_dump", "--format=custom", "--compress=0", f"--file={self._file}", self.url)
        except DatabaseError as error:
            self.fleet.report(f"no backup: {error}")
            return False
        self._mark, self._days = mark, days
        return True

    def restore(self) -> None:
        """Kill everything, restore the backup, do the documented steps, and start everything again."""
        assert self._mark
        self.fleet.relieve()
        acting, working = self.days.gates
        with self.clients.gate, self.redefinitions.gate, self.tables.gate, acting, working:
            self.fleet.relieve()
            self.redefinitions.interrupt(self.redefinitions.now())
            self.fleet.kill_all()
            known = self._runs()
            self._load()
            self.lost_runs += known - self._runs()
            self._check_reports(self._mark)
            for step, allowed in STEPS:
                self._step(step, allowed)
            self.violations += (f"after a restore: {one}" for one in self.tables.unreadable())
            self.redefinitions.apply(self.redefinitions.state, rebuilt=True)
            self.fleet.revive_all()
            self.clients.after_restore(self._mark)
            self.days.after_restore(self._days)
        self._mark = None
        self.done += 1

    def _runs(self) -> int:
        with psycopg.connect(self.url) as connection:
            row = connection.execute("SELECT count(*) FROM runs").fetchone()
        return row[0] if row else 0

    def _load(self) -> None:
        with psycopg.connect(self.fleet.cluster.url("postgres") or "", autocommit=True) as connection:
            connection.execute("DROP DATABASE freshline WITH (FORCE)")
            connection.execute("CREATE DATABASE freshline")
        binaries.run("pg_restore", "--exit-on-error", "--dbname", self.url, str(self._file))

    def _check_reports(self, mark: Mark) -> None:
        """Check that a backup has every report that was answered before it began."""
        with psycopg.connect(self.url) as connection:
            found = {key for (key,) in connection.execute("SELECT report_key FROM snapshots").fetchall()}
        lost = [key for _, key, _ in self.clients.reported[: mark.reports] if key not in found]
        if lost:
            self.violations.append(f"the backup lacks reports that were answered before it: {lost[:5]}")

    def _step(self, step: tuple[str, ...], allowed: Iterable[int]) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "freshline.cli.main", *step],
            env=self.fleet.environ,
            cwd=self.fleet.project,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in allowed:
            said = f"{done.stdout}{done.stderr}"[-500:]
            self.violations.append(f"restore: `freshline {' '.join(step)}` ended with {done.returncode}: {said}")
