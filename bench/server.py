"""Servers and processes of benchmarks: a durable PostgreSQL, copies of databases, `freshline` processes."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from freshline.embedded_postgres.server import EmbeddedServer
from freshline.settings import Settings
from freshline.store.db import migrate
from freshline.store.db.database import CHANNEL, Database
from freshline.store.store import Store

PROGRAM = str(Path(sys.executable).with_name("freshline"))  # the installed program
T = TypeVar("T")
POLL_S = 0.005
LISTEN_S = 0.25
TIMEOUT_S = 300.0
# Not `now()`: it is the start of the transaction, so rows that became due since then would be missed.
IDLE = """
SELECT NOT EXISTS (SELECT FROM inbox)
   AND NOT EXISTS (SELECT FROM considerations WHERE not_before <= freshline_now())
"""


class Server:
    """A PostgreSQL server of one benchmark. A filled database is copied for every round, so that all start equal."""

    def __init__(self, url: str, home: Path) -> None:
        self.url = url
        self.home = home
        self._numbers = itertools.count(1)

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings that make writes durable: benchmarks run with the server's defaults."""
        names = ("fsync", "synchronous_commit", "full_page_writes", "server_version")
        with psycopg.connect(self.url) as connection:
            return {name: str(connection.execute(f"SHOW {name}").fetchone()[0]) for name in names}  # type: ignore[index]

    def database(self, template: str | None = None) -> str:
        """Return the URL of a new database: migrated, or a copy of `template`."""
        name = f"bench_{next(self._numbers)}"
        if template is None:
            self._administer("CREATE DATABASE {}", name)
            migrate.upgrade(make_conninfo(self.url, dbname=name))
        else:
            source = str(psycopg.conninfo.conninfo_to_dict(template)["dbname"])
            self._administer("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", name, source)
        return make_conninfo(self.url, dbname=name)

    def empty(self) -> str:
        """Return the URL of a new empty database, for the tables of another system."""
        name = f"bench_{next(self._numbers)}"
        self._administer("CREATE DATABASE {}", name)
        return urlsplit(self.url)._replace(path=f"/{name}").geturl()

    def drop(self, url: str) -> None:
        """Remove a database, closing its connections."""
        self._administer("DROP DATABASE {} WITH (FORCE)", str(psycopg.conninfo.conninfo_to_dict(url)["dbname"]))

    @contextmanager
    def copy(self, template: str) -> Iterator[str]:
        """Yield a copy for one round."""
        url = self.database(template)
        try:
            yield url
        finally:
            self.drop(url)

    def _administer(self, statement: str, *names: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


@contextmanager
def started() -> Iterator[Server]:
    """Yield a server in a temporary directory, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="freshline-bench-") as home:
        Path(home).chmod(0o711)  # the user of the server enters it, if root runs this
        with EmbeddedServer(Path(home, "server")) as url:
            server = Server(url, Path(home))
            assert server.settings["fsync"] == "on"
            yield server


class Silent(Database):
    """A database whose transactions send no notification: for baselines, which have no listener."""

    def notify(self, *bells: str) -> None:
        """Do nothing."""


@contextmanager
def opened(url: str, *, silent: bool = False) -> Iterator[Store]:
    """Yield the store of a database. `silent`: on one connection, without notifications."""
    database = Silent(url, size=1) if silent else Database(url)
    database.open()
    try:
        yield Store(database, Settings(project=Path("/nowhere")))
    finally:
        database.close()


class Listener:
    """Waits for a condition without constant polling: it reads again on each notification."""

    def __init__(self, url: str) -> None:
        self._notifications = psycopg.connect(url, autocommit=True)
        self._notifications.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
        self._connection = psycopg.connect(url, autocommit=True)

    def close(self) -> None:
        """Stop listening."""
        self._notifications.close()
        self._connection.close()

    def value(self, query: str, *parameters: Any) -> Any:
        """Return the first value of a query's first row, or None."""
        row = self._connection.execute(query.encode(), parameters).fetchone()
        return row[0] if row else None

    def row(self, query: str, *parameters: Any) -> tuple[Any, ...]:
        """Return the only row of a query."""
        (row,) = self._connection.execute(query.encode(), parameters).fetchall()
        return tuple(row)

    def notify(self, topic: str) -> None:
        """Notify the processes that wait for this topic."""
        self._connection.execute("SELECT pg_notify(%s, %s)", [CHANNEL, topic])

    def until(self, topic: str, query: str, *parameters: Any, timeout_s: float = TIMEOUT_S) -> float:
        """Return the time at which the query's first value is true; read it on each notification, or after a while."""
        deadline = time.perf_counter() + timeout_s
        while not self.value(query, *parameters):
            if time.perf_counter() > deadline:
                raise AssertionError(f"the condition did not become true within {timeout_s:g} s: {query} {parameters}")
            self._wait_for(topic)
        return time.perf_counter()

    def idle(self) -> None:
        """Return once the inbox is empty and nothing is due."""
        deadline = time.perf_counter() + TIMEOUT_S
        while not self.value(IDLE):
            assert time.perf_counter() < deadline, "the system does not become idle"
            time.sleep(POLL_S)

    def _wait_for(self, topic: str) -> None:
        """Return at the next notification of this topic, or after a while."""
        until = time.perf_counter() + LISTEN_S
        while (left := until - time.perf_counter()) > 0:
            heard = [one.payload for one in self._notifications.notifies(timeout=left, stop_after=1)]
            if topic in heard:
                return


@contextmanager
def listening(url: str) -> Iterator[Listener]:
    """Yield a listener, and close it."""
    listener = Listener(url)
    try:
        yield listener
    finally:
        listener.close()


class Project:
    """A project directory, and real `freshline` processes on it."""

    def __init__(self, root: Path, url: str) -> None:
        self.root = root
        (root / "workflows").mkdir(parents=True, exist_ok=True)
        (root / "freshline.toml").write_text('name = "bench"\n')
        # As in an installation: bytecode is kept, and no setting is made.
        foreign = ("FRESHLINE_", "ASSET_", "PYTHONDONTWRITEBYTECODE")
        ours = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        self.environ = {**ours, "FRESHLINE_PROJECT": str(root), "FRESHLINE_DATABASE_URL": url}

    def call(self, *command: str) -> str:
        """Run a command to its end, and return its output."""
        words = [PROGRAM, *command]
        done = subprocess.run(words, env=self.environ, cwd=self.root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stdout

    @contextmanager
    def running(self, *command: str) -> Iterator[subprocess.Popen[bytes]]:
        """Yield a process, and end it with SIGTERM; its log stays in the project."""
        words = [PROGRAM, *command]
        with (self.root / f"{command[0]}.log").open("ab") as log:
            process = subprocess.Popen(words, env=self.environ, cwd=self.root, stdout=log, stderr=log)
        try:
            yield process
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def materializers(server: Server, url: str, count: int = 1) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Yield processes that have registered, which they do with the graph loaded."""
    with ExitStack() as stack:
        project = Project(Path(tempfile.mkdtemp(dir=server.home)), url)
        processes = [stack.enter_context(project.running("materializer")) for _ in range(count)]
        listener = stack.enter_context(listening(url))
        there = "SELECT count(*) = %s FROM workers WHERE kind = 'materializer' AND stopped_at IS NULL"
        _wait(lambda: listener.value(there, count), "the materializers")
        listener.idle()
        yield processes


@contextmanager
def worker(project: Project, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a `freshline worker`. Callers warm it with a few runs before they measure."""
    with project.running("worker", *arguments) as process:
        yield process


def _wait(condition: Callable[[], T], what: str) -> T:
    deadline = time.perf_counter() + TIMEOUT_S
    while not (value := condition()):
        assert time.perf_counter() < deadline, f"waited {TIMEOUT_S:g} s for {what}"
        time.sleep(POLL_S)
    return value
