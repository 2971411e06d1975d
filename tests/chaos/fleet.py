"""The processes and servers that the chaos test kills, stops and restarts, and the faults, chosen by a seed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from freshline.embedded_postgres.cluster import Cluster
from freshline.errors import DatabaseError
from tests.chaos.chaos_workload import BASE_MS, LEASE_MS, MAX_MS
from tests.chaos.disk import Disks
from tests.chaos.members import Member, directory, free_port
from tests.processes import children
from tests.redis_bus.server import Server
from tests.waiting import wait_until

MATERIALIZERS = WORKERS = 3
APIS = 2
PAUSE_S = LEASE_MS / 1000 * 1.5
# A process crash loses nothing that was written to the kernel, so fsync is not needed here; synchronous_commit is.
POSTGRES = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "150",
    "max_wal_size": "64MB",
    "min_wal_size": "32MB",
}
SUPERVISE_S = 0.5
FULL_S = (2.0, 7.0)
AFTERMATH_S = 15.0  # a process may end because of a full disk until then
NO_DATABASE = "[database]"  # the code of the error with which a process ends that cannot reach it at its start
LOUD = 2_000_000  # bytes that a process may log while a disk is full


@dataclass
class Fleet:
    """Three materializers, three workers, two API processes, a PostgreSQL and a Redis server."""

    root: Path
    rng: random.Random
    report: Callable[[str], None] = print
    done: Counter[str] = field(default_factory=Counter)
    kills: int = 0  # of our processes, by kill -9
    members: list[Member] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    keep: bool = False
    _down: bool = False  # all processes stay dead until the end of a restore
    _full_until: float = 0.0
    _timers: list[threading.Timer] = field(default_factory=list)
    _reviving: threading.Lock = field(default_factory=threading.Lock)
    _starting: threading.RLock = field(default_factory=threading.RLock)  # of PostgreSQL

    def __post_init__(self) -> None:
        disk = directory(self.root / "disk")
        self.disks = Disks.mounted(directory(self.root / "postgres-home"), disk)
        self.project = directory(disk / "project")
        self.scratch = directory(disk / "tmp")
        self.cluster = Cluster(self.root / "postgres-home", POSTGRES)
        self.redis = Server(directory(self.root / "redis"))
        self._closing = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, name="supervisor", daemon=True)
        self.logs = directory(self.root / "logs")
        self.ports = [free_port() for _ in range(APIS)]

    # --- beginning and end ------------------------------------------------------------------------------------------

    def start_servers(self) -> str:
        """Start PostgreSQL and Redis, and return the database's URL."""
        self.cluster.ensure_accepting(30)
        self.redis.start()
        url = self.cluster.ensure_database("freshline")
        self.environ = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("FRESHLINE_", "ASSET_"))},
            "TMPDIR": str(self.scratch),
            "FRESHLINE_PROJECT": str(self.project),
            "FRESHLINE_DATABASE_URL": url,
            "FRESHLINE_EVENT_BUS": self.redis.url,
            "FRESHLINE_POLL_MS": "200",
            "FRESHLINE_LEASE_MS": str(LEASE_MS),
            "FRESHLINE_MAX_WORKER_LOSSES": "50",
            "FRESHLINE_LOG_FORMAT": "json",
            "ASSET_MATERIALIZER_BASE_BACKOFF_MS": str(BASE_MS),
            "ASSET_MATERIALIZER_MAX_BACKOFF_MS": str(MAX_MS),
            "ASSET_MATERIALIZER_REFRESH_INTERVAL_MS": "0",  # nothing may depend on the sweep
        }
        return url

    def start(self) -> None:
        """Start the processes, and start those again that end by themselves."""
        for kind, count in (("materializer", MATERIALIZERS), ("worker", WORKERS), ("api", APIS)):
            self.members += [Member(kind, number, self._spawn(kind, number)) for number in range(count)]
        self._supervisor.start()

    def _supervise(self) -> None:
        """Start what ended by itself, as a service manager would."""
        while not self._closing.wait(SUPERVISE_S):
            if not self.cluster.alive():
                self._start_postgres(10)
            for member in self.members:
                if member.process.poll() is not None and not member.awaited:
                    self._revive(member)

    def relieve(self) -> None:
        """Make room on all disks, and wait for PostgreSQL."""
        self.disks.release()
        wait_until(lambda: self._start_postgres(30), 90, every=0.2, what="PostgreSQL after a full disk")

    def heal(self) -> None:
        """Stop the faults and restart everything that is down."""
        for timer in self._timers:
            timer.join()
        self.relieve()
        self.revive_all()

    def kill_all(self) -> None:
        """Kill all processes; they stay dead until `revive_all`."""
        self._down = True
        for member in self.members:
            if member.process.poll() is None:
                self.kills += 1
            self._kill(member)

    def revive_all(self) -> None:
        self._down = False
        for member in self.members:
            self._revive(member)

    def close(self) -> None:
        """Stop everything, and unmount the disks."""
        self._closing.set()
        if self._supervisor.is_alive():
            self._supervisor.join()
        for timer in self._timers:
            timer.cancel()
            timer.join()
        for member in self.members:
            with suppress(ProcessLookupError):
                os.kill(member.process.pid, signal.SIGCONT)
            member.process.terminate()
        for member in self.members:
            try:
                member.process.wait(20)
            except subprocess.TimeoutExpired:
                self._kill(member)
        self.redis.close()
        with suppress(DatabaseError):
            self.cluster.stop()
        self.disks.close(keep=self.keep)

    def exits(self) -> list[str]:
        """Return members that ended unexpectedly, with the end of their output."""
        gone = [one for one in self.members if one.process.poll()]
        return [f"{one.kind} {one.number}: exit {one.process.returncode}: {self._last_words(one)}" for one in gone]

    # --- faults -----------------------------------------------------------------------------------------------------

    def fault(self) -> str:
        """Inject a random fault and return its name."""
        names, weights = zip(*((name, weight) for name, (weight, _) in self._faults().items()), strict=True)
        name = self.rng.choices(names, weights)[0]
        self._faults()[name][1]()
        self.done[name] += 1
        return str(name)

    def _faults(self) -> dict[str, tuple[int, Callable[[], None]]]:
        return {
            "kill a materializer": (30, lambda: self._restart("materializer")),
            "kill a worker": (30, lambda: self._restart("worker")),
            "kill a runner": (25, self._kill_runner),
            "kill a process of the API": (12, lambda: self._restart("api")),
            "stop a process past its lease": (12, self._pause),
            "end database connections": (15, self._end_backends),
            "restart PostgreSQL at once": (4, self._restart_postgres),
            "kill Redis": (5, self._restart_redis),
            "flush Redis": (3, self._flush_redis),
        }

    def _restart(self, kind: str) -> None:
        alive = [one for one in self.members if one.kind == kind and one.process.poll() is None]
        if not alive:
            return
        member = self.rng.choice(alive)
        member.awaited = True
        self._kill(member)
        self.kills += 1
        # Sometimes at once, sometimes only after longer than a lease.
        self._later(self.rng.choice([0, 0, 0.5, PAUSE_S]), lambda: self._revive(member))

    def _kill_runner(self) -> None:
        runners = [pid for one in self.members if one.kind == "worker" for pid in children(one.process.pid)]
        if runners:
            with suppress(ProcessLookupError):
                os.kill(self.rng.choice(runners), signal.SIGKILL)
                self.kills += 1

    def _pause(self) -> None:
        running = [one for one in self.members if not one.stopped and one.process.poll() is None]
        if not running:
            return
        member = self.rng.choice(running)
        member.stopped = True
        pid = member.process.pid
        os.kill(pid, signal.SIGSTOP)

        def go_on() -> None:
            member.stopped = False
            if member.process.pid == pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

        self._later(PAUSE_S, go_on)

    def _end_backends(self) -> None:
        url = self.cluster.url("postgres")
        with suppress(psycopg.Error), psycopg.connect(url or "", connect_timeout=2, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE datname = 'freshline'"
                " ORDER BY random() LIMIT %s) x",
                [self.rng.randint(1, 4)],
            )

    def _restart_postgres(self) -> None:
        with self._starting:
            if (pid := self.cluster.pid) is not None:
                os.kill(pid, signal.SIGQUIT)
            wait_until(lambda: not self.cluster.alive(), 20, what="the end of PostgreSQL")
            self._start_postgres(60)

    def _start_postgres(self, timeout_s: float) -> bool:
        """Return False if it does not start, for example because its disk is full."""
        try:
            with self._starting:
                self.cluster.ensure_accepting(timeout_s)
        except (DatabaseError, OSError) as error:
            self.report(f"PostgreSQL does not start: {str(error).splitlines()[-1]}")
            return False
        return True

    def fill_disk(self) -> str:
        """Fill a disk for some seconds, and return the name of the fault."""
        disk = self.rng.choice(self.disks.disks)
        before = self._logged()
        full_s = self.rng.uniform(*FULL_S)
        self._full_until = time.monotonic() + full_s
        disk.fill()

        def release() -> None:
            disk.release()
            for log, size in self._logged().items():
                if size - before.get(log, 0) > LOUD:
                    grown = f"{size - before.get(log, 0)} bytes in {full_s:.0f} s"
                    self.violations.append(f"{log} grew by {grown} while the disk of the {disk.name} was full")

        self._later(full_s, release)
        name = f"fill the disk of the {disk.name}"
        self.done[name] += 1
        return name

    def _logged(self) -> dict[str, int]:
        return {path.name: path.stat().st_size for path in self.logs.iterdir()}

    def _restart_redis(self) -> None:
        self.redis.kill()
        self.redis.start()

    def _flush_redis(self) -> None:
        self.redis.client.flushall()

    # --- processes --------------------------------------------------------------------------------------------------

    def _spawn(self, kind: str, number: int) -> subprocess.Popen[bytes]:
        port = ["--port", str(self.ports[number])] if kind == "api" else []
        with self._log(kind, number).open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "freshline.cli.main", kind, *port],
                env=self.environ,
                cwd=self.project,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _log(self, kind: str, number: int) -> Path:
        return self.logs / f"{kind}-{number}.log"

    def _last_words(self, member: Member) -> str:
        return self._log(member.kind, member.number).read_text(errors="replace")[-500:]

    def _kill(self, member: Member) -> None:
        member.process.kill()
        member.process.wait()

    def _revive(self, member: Member) -> None:
        with self._reviving:  # two timers may find it gone at the same time and must not start two
            member.awaited = False
            if self._down or member.process.poll() is None:
                return
            if member.process.returncode != -signal.SIGKILL:
                self._ended(member)
            member.process = self._spawn(member.kind, member.number)

    def _ended(self, member: Member) -> None:
        """Note that a process ended by itself. Excuses are a full disk, and a database that was away at the start."""
        words = self._last_words(member)
        said = f"{member.kind} {member.number} ended by itself with {member.process.returncode}"
        self.report(f"{said}: {words}")
        self.done["ended by itself"] += 1
        if time.monotonic() > self._full_until + AFTERMATH_S and NO_DATABASE not in words:
            self.violations.append(f"{said}: {words}")

    def _later(self, delay_s: float, action: Callable[[], None]) -> None:
        if not delay_s:
            action()
            return
        self._timers = [timer for timer in self._timers if timer.is_alive()]
        self._timers.append(timer := threading.Timer(delay_s, action))
        timer.start()
