"""One private PostgreSQL data directory: made, started, asked and stopped. `embedded` says who may do that when.

The server listens on a Unix socket in a directory that only its user can enter, and on no network address.

The server's processes hold an exclusive lock on `postgres.alive`, inherited when they start, as long as one of them
lives. So whether a server is alive is a fact of the kernel, and a stale `postmaster.pid`, whose number may belong to
any other process by now, does not matter.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from freshline.embedded_postgres import binaries
from freshline.errors import DatabaseError

ROLE = "freshline"
PORT = 5432  # only a part of the socket's name
SOCKET = f".s.PGSQL.{PORT}"
SOCKET_LIMIT = 100  # bytes; macOS allows 103, Linux 107
LOG_LIMIT = 10_000_000  # bytes; a longer log is set aside when the server starts
POLL_S = 0.02
OPTIONS = {
    "listen_addresses": "",
    "port": str(PORT),
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "jit": "off",  # our statements are short; compiling them costs more than it saves
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
}


class Cluster:
    """The data directory `home/postgres`. Who changes something holds the start lock of `embedded`."""

    def __init__(self, home: Path, options: Mapping[str, str] | None = None) -> None:
        self.home = home
        self.data = home / "postgres"
        self.log = home / "postgres.log"
        self._alive = home / "postgres.alive"
        self._options = {**OPTIONS, **(options or {})}

    def url(self, database: str) -> str | None:
        """The address of `database` on the server that wrote postmaster.pid; None: no server did."""
        directory = self._postmaster()[1]
        if directory is None:
            return None
        return f"postgresql://{ROLE}@/{database}?host={quote(directory, safe='')}&port={PORT}"

    @property
    def pid(self) -> int | None:
        """The postmaster's process id while a server is alive."""
        return self._postmaster()[0] if self.alive() else None

    def alive(self) -> bool:
        """Whether any process of the server lives: it holds the lock that it inherited."""
        if not self._alive.exists():
            return False
        with self._alive.open("rb") as file:
            try:
                # Shared, so that two who ask at the same time do not take each other for the server.
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def refusal(self) -> str | None:
        """Why the server takes no connections; None: it does."""
        url = self.url("postgres")
        if url is None:
            return "it has not started yet"
        try:
            psycopg.connect(url, connect_timeout=5).close()
        except psycopg.OperationalError as error:
            return str(error).strip()
        return None

    def ensure_accepting(self, timeout_s: float) -> None:
        """Return once the server takes connections, however the last one ended."""
        self._ensure_data()
        deadline = time.monotonic() + timeout_s
        started = False
        while (refusal := self.refusal()) is not None:
            if not self.alive():
                if started:
                    raise self._failed("ended as soon as it was started")
                self._start()
                started = True
            elif time.monotonic() > deadline:
                raise self._failed(f"did not take connections within {timeout_s:g} s ({refusal})")
            time.sleep(POLL_S)

    def ensure_database(self, name: str) -> str:
        """The address of the database, made if absent."""
        url = self.url("postgres")
        if url is None:
            raise self._failed("ended")
        with psycopg.connect(url, autocommit=True) as conn:
            if conn.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone() is None:
                conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return url.replace("@/postgres?", f"@/{name}?", 1)

    def stop(self) -> bool:
        """End the server, its connections too. False: there was none."""
        if not self.alive() and self.refusal() is not None:
            return False
        socket = self._postmaster()[1]
        for ending, patience_s in ((signal.SIGINT, 30), (signal.SIGQUIT, 10)):
            if self._ends_by(ending, patience_s):
                if socket and Path(socket) != self.data:
                    shutil.rmtree(socket, ignore_errors=True)
                return True
        raise self._failed("does not stop; its processes may be stuck in the file system")

    def _ends_by(self, ending: signal.Signals, patience_s: float) -> bool:
        pid = self._postmaster()[0]
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, ending)
        deadline = time.monotonic() + patience_s
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def _postmaster(self) -> tuple[int | None, str | None]:
        """Process id and socket directory, as the server wrote them down."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            return int(lines[0]), lines[4] or None
        except (OSError, ValueError, IndexError):
            return None, None

    def _ensure_data(self) -> None:
        mark = self.data / "PG_VERSION"
        if not mark.exists():
            self._initialise()
        elif (version := mark.read_text().strip()) != str(binaries.MAJOR):
            raise DatabaseError(
                f"{self.data} was made by PostgreSQL {version}, and this Freshline brings {binaries.MAJOR}; "
                "export it with the older Freshline, or remove the directory to start anew"
            )

    def _initialise(self) -> None:
        """Make the data directory beside its place and rename it: a crash on the way leaves nothing half done."""
        for leftover in self.home.glob("postgres.new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        new = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self.home))
        user = binaries.server_user(new)
        if user:
            os.chown(new, user.pw_uid, user.pw_gid)
            binaries.open_programs(user)
            binaries.open_parents(new, user)
        # The builtin locale sorts the same on every system, by code point, as Python does.
        locale = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
        sync = ("--no-sync",) if self._options.get("fsync") == "off" else ()
        access = ("--auth-local=trust", "--auth-host=reject", f"--username={ROLE}")
        binaries.run("initdb", *access, *locale, *sync, "-D", str(new), user=user)
        new.rename(self.data)

    def _start(self) -> None:
        user = binaries.server_user(self.data)
        socket = self._socket_directory()
        # Nobody lives who could own them; their number may be another process's by now, and PostgreSQL would give up.
        for stale in (self.data / "postmaster.pid", socket / f"{SOCKET}.lock", socket / SOCKET):
            stale.unlink(missing_ok=True)
        if user:
            binaries.open_parents(self.data, user)
            binaries.open_parents(socket, user)
        self._prepare_log()
        options = {**self._options, "unix_socket_directories": str(socket)}
        arguments = " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in options.items())
        with self._alive.open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            call = ("start", "-W", "-D", str(self.data), "-l", str(self.log), "-o", arguments)
            binaries.run("pg_ctl", *call, user=user, keep_open=[file.fileno()])

    def _prepare_log(self) -> None:
        if self.log.exists() and self.log.stat().st_size > LOG_LIMIT:
            self.log.replace(self.log.with_suffix(".log.old"))
        self.log.touch(mode=0o600)
        self._own(self.log)

    def _socket_directory(self) -> Path:
        """The data directory if its path fits into a socket's name, otherwise a private one in the temporary place."""
        digest = hashlib.sha256(f"{self.data}:{self.data.stat().st_ino}".encode()).hexdigest()[:12]
        name = f"freshline-{digest}"
        for directory in (self.data, Path(tempfile.gettempdir()).resolve() / name, Path("/tmp") / name):  # noqa: S108
            path = os.fsencode(directory / SOCKET)
            # libpq and PostgreSQL read commas and quotes in a socket's directory as syntax.
            if len(path) < SOCKET_LIMIT and not set(path) & set(b",\"'"):
                return directory if directory == self.data else self._private(directory)
        raise DatabaseError(f"no place for a socket: {self.data} and {tempfile.gettempdir()} are too long; set TMPDIR")

    def _private(self, directory: Path) -> Path:
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
            self._own(directory)
        facts = directory.lstat()
        owner = self.data.stat().st_uid
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != owner or facts.st_mode & 0o077:
            raise DatabaseError(f"{directory} is not a private directory of user {owner}; remove it")
        return directory

    def _own(self, path: Path) -> None:
        facts = self.data.stat()
        if facts.st_uid != path.stat().st_uid:
            os.chown(path, facts.st_uid, facts.st_gid)

    def _failed(self, what: str) -> DatabaseError:
        try:
            lines = self.log.read_text(errors="replace").splitlines()[-10:]
        except OSError:
            lines = []
        tail = "".join(f"\n  {line}" for line in lines)
        return DatabaseError(f"the embedded PostgreSQL in {self.data} {what}; its log {self.log} ends with:{tail}")
