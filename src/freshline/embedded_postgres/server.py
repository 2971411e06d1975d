"""The embedded PostgreSQL of a project: the first process starts it, the last one stops it.

Two files beside the data directory are locked, and never removed:

- `postgres.start`, exclusively, by a process while it starts or stops the server;
- `postgres.users`, shared, by each process while it uses the server.

The kernel releases the locks of a process that dies. A list of processes, which could be wrong, is not needed. A server
whose last user was killed keeps running and is used by the next one. A server that was killed is started again. It does
not promise to keep two starters apart on a file system without `flock`, as some network file systems are.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

import psycopg

from freshline.embedded_postgres.cluster import POLL_S, Cluster
from freshline.errors import DatabaseError

DATABASE = "freshline"
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The state of a project's embedded server."""

    running: bool
    pid: int | None
    url: str | None
    log: Path


class EmbeddedServer:
    """This process's use of the server of `home` (a project's `.freshline`). Thread-safe.

    `options` are PostgreSQL settings. They take effect if this process starts the server.
    """

    def __init__(self, home: Path, *, options: Mapping[str, str] | None = None) -> None:
        self.home = home.absolute()
        self._options = dict(options or {})
        self._mutex = threading.RLock()
        self._users: IO[bytes] | None = None
        self._owner = os.getpid()

    def acquire(self) -> str:
        """Start the server if needed and return the URL of the database `freshline`. May be called again."""
        with self._mutex, _starting(self.home) as home:
            self._forget_parent()
            if self._users is not None:
                return self._ensure(home)
            self._enter(home)
            try:
                return self._ensure(home)
            except BaseException:
                self._leave()
                raise

    def ensure_running(self) -> str:
        """Start the server again if it died, and return the URL. For a process whose connections fail."""
        return self.acquire()

    def release(self) -> None:
        """Stop using the server; the last user stops it. May be called again."""
        with self._mutex:
            self._forget_parent()
            if self._users is None:
                return
            with _starting(self.home) as home:
                self._leave()
                if _unused(home):
                    Cluster(home).stop()

    def __enter__(self) -> str:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _ensure(self, home: Path) -> str:
        cluster = Cluster(home, self._options)
        try:
            cluster.ensure_accepting(TIMEOUT_S)
            return cluster.ensure_database(DATABASE)
        except (OSError, psycopg.Error) as error:
            raise DatabaseError(f"the embedded PostgreSQL in {cluster.data} cannot be used: {error}") from error

    def _enter(self, home: Path) -> None:
        self._users = _users_file(home)
        # This never waits: an exclusive lock needs the start lock, which this process holds.
        fcntl.flock(self._users, fcntl.LOCK_SH)
        atexit.register(self.release)

    def _leave(self) -> None:
        if self._users is not None:
            atexit.unregister(self.release)
            self._users.close()
            self._users = None

    def _forget_parent(self) -> None:
        """Drop the lock of the parent after a fork; closing this copy of the file does not release it."""
        if self._owner != os.getpid():
            self._leave()
            self._owner = os.getpid()


def stop(home: Path) -> bool:
    """Stop the server of `home` even if it is in use. Return False if none was running."""
    if not home.exists():
        return False
    with _starting(home.absolute()) as resolved:
        return Cluster(resolved).stop()


def status(home: Path) -> ServerStatus:
    """Return the state of the server of `home`, without changing it."""
    cluster = Cluster(home.resolve())
    pid = cluster.pid
    return ServerStatus(pid is not None, pid, cluster.url(DATABASE) if pid else None, cluster.log)


@contextmanager
def _starting(home: Path) -> Iterator[Path]:
    """Hold the start lock of `home`, and yield its real path, so that two names of one project agree."""
    deadline = time.monotonic() + 2 * TIMEOUT_S
    try:
        home.mkdir(parents=True, exist_ok=True)
        home = home.resolve()
        lock = (home / "postgres.start").open("ab")
    except OSError as error:
        raise DatabaseError(
            f"the embedded PostgreSQL needs to write to {home}: {error}; "
            "run as the directory's owner, or set FRESHLINE_DATABASE_URL"
        ) from error
    with lock:
        while not _locked(lock):
            if time.monotonic() > deadline:
                raise DatabaseError(
                    f"another process has been starting or stopping the embedded PostgreSQL in {home} "
                    f"for {2 * TIMEOUT_S:g} s; end it and try again"
                )
            time.sleep(POLL_S)
        yield home


def _locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unused(home: Path) -> bool:
    with _users_file(home) as file:
        return _locked(file)


def _users_file(home: Path) -> IO[bytes]:
    return (home / "postgres.users").open("ab")
