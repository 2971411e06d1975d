"""Creates, starts, queries and stops one private PostgreSQL cluster. `server` decides who may do that and when.

The server listens on a Unix socket in a directory that only its user can enter, and on no network address.

The server's processes inherit an exclusive lock on `postgres.alive` and hold it as long as one of them lives. So the
kernel knows whether a server is alive. A stale `postmaster.pid`, whose number may belong to another process by now,
does not matter.
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
from freshline.embedded_postgres.account import Account, account_of, barrier, give, initialiser, state_directory
from freshline.errors import DatabaseError

ROLE = "freshline"
PORT = 5432  # only part of the socket's name
SOCKET = f".s.PGSQL.{PORT}"
SOCKET_LIMIT = 100  # bytes; macOS allows 103, Linux 107
LOG_LIMIT = 10_000_000  # bytes; a longer log is rotated when the server starts
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
    """The cluster in `home/postgres`. Callers of methods that change it hold the start lock of `server`.

    If its user cannot enter `home`, that is a link to a directory elsewhere (`account`), which has log and lock too.
    """

    def __init__(self, home: Path, options: Mapping[str, str] | None = None) -> None:
        self.home = home
        self._options = {**OPTIONS, **(options or {})}

    @property
    def data(self) -> Path:
        """The data directory."""
        link = self.home / "postgres"
        return link.readlink() if link.is_symlink() else link

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.data.parent / "postgres.log"

    @property
    def _alive(self) -> Path:
        return self.data.parent / "postgres.alive"

    def url(self, database: str) -> str | None:
        """Return the URL of `database` on the server that wrote postmaster.pid; None if there is none."""
        directory = self._postmaster()[1]
        if directory is None:
            return None
        return f"postgresql://{ROLE}@/{database}?host={quote(directory, safe='')}&port={PORT}"

    @property
    def pid(self) -> int | None:
        """The postmaster's process id; None if no server is alive."""
        return self._postmaster()[0] if self.alive() else None

    def alive(self) -> bool:
        """Return whether any process of the server lives and so holds the inherited lock."""
        if not self._alive.exists():
            return False
        with self._alive.open("rb") as file:
            try:
                # Shared, so that two callers at the same time do not take each other for the server.
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def refusal(self) -> str | None:
        """Return why the server accepts no connections; None if it does."""
        url = self.url("postgres")
        if url is None:
            return "it has not started yet"
        try:
            psycopg.connect(url, connect_timeout=5).close()
        except psycopg.OperationalError as error:
            return str(error).strip()
        return None

    def ensure_accepting(self, timeout_s: float) -> None:
        """Start the server if needed, and return when it accepts connections."""
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
        """Return the URL of a database; create it if it is missing."""
        url = self.url("postgres")
        if url is None:
            raise self._failed("ended")
        with psycopg.connect(url, autocommit=True) as conn:
            if conn.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone() is None:
                conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return url.replace("@/postgres?", f"@/{name}?", 1)

    def stop(self) -> bool:
        """Stop the server and its connections. Return False if there was none."""
        if not self.alive() and self.refusal() is not None:
            return False
        socket = self._postmaster()[1]
        for ending, timeout_s in ((signal.SIGINT, 30), (signal.SIGQUIT, 10)):
            if self._ends_by(ending, timeout_s):
                if socket and Path(socket) != self.data:
                    shutil.rmtree(socket, ignore_errors=True)
                return True
        raise self._failed("does not stop; its processes may be stuck in the file system")

    def _ends_by(self, ending: signal.Signals, timeout_s: float) -> bool:
        pid = self._postmaster()[0]
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, ending)
        deadline = time.monotonic() + timeout_s
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def _postmaster(self) -> tuple[int | None, str | None]:
        """Return the process id and the socket directory from postmaster.pid."""
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
                "export it with the older Freshline, or remove the directory to start with an empty database"
            )

    def _initialise(self) -> None:
        """Create the data directory under a temporary name and rename it, so that a crash leaves nothing half done."""
        account = self._account()
        place = self._place(account)
        for leftover in place.glob("postgres.new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        new = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=place))
        user = account and initialiser()
        if user:
            os.chown(new, user.uid, user.gid)
        # The builtin locale sorts by code point on every system, as Python does.
        locale = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
        sync = ("--no-sync",) if self._options.get("fsync") == "off" else ()
        access = ("--auth-local=trust", "--auth-host=reject", f"--username={ROLE}")
        binaries.run("initdb", *access, *locale, *sync, "-D", str(new), user=user)
        if account:
            give(new, account)
        new.rename(place / "postgres")
        if place != self.home:
            (self.home / "postgres").symlink_to(place / "postgres")

    def _account(self) -> Account | None:
        return account_of(self.data)

    def _place(self, account: Account | None) -> Path:
        """Return the directory for new data: `home`, or another one if the server's user cannot enter that."""
        if account is None:
            return self.home
        if self.home.stat().st_uid == 0:
            self.home.chmod(self.home.stat().st_mode | stat.S_IXOTH)  # the project's own private directory
        return self.home if barrier(self.home, account) is None else state_directory(self.home)

    def _adopt(self, account: Account) -> None:
        """Make the server's user the owner of the data of 0.1, and check that it can enter the directory."""
        if self.data.stat().st_uid != account.uid:
            give(self.data, account)
        if (closed := barrier(self.data, account)) is not None:
            raise DatabaseError(
                f"the user {account.uid} of the embedded PostgreSQL cannot enter {closed}, which is above its data "
                f"{self.data}; allow it (`chmod o+x {closed}`), move the project, or run as another user than root"
            )

    def _start(self) -> None:
        user = self._account()
        if user:
            self._adopt(user)
        socket = self._socket_directory()
        # No server is alive that could own them. Their process id may be reused by now, and PostgreSQL would refuse.
        for stale in (self.data / "postmaster.pid", socket / f"{SOCKET}.lock", socket / SOCKET):
            stale.unlink(missing_ok=True)
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
        """Return the data directory if its path fits into a socket's name, otherwise a private temporary directory."""
        digest = hashlib.sha256(f"{self.data}:{self.data.stat().st_ino}".encode()).hexdigest()[:12]
        name = f"freshline-{digest}"
        for directory in (self.data, Path(tempfile.gettempdir()).resolve() / name, Path("/tmp") / name):  # noqa: S108
            path = os.fsencode(directory / SOCKET)
            # libpq and PostgreSQL parse commas and quotes in a socket's directory as syntax.
            if len(path) < SOCKET_LIMIT and not set(path) & set(b",\"'") and self._enters(directory.parent):
                return directory if directory == self.data else self._private(directory)
        raise DatabaseError(f"no place for a socket: {self.data} and {tempfile.gettempdir()} are too long; set TMPDIR")

    def _enters(self, directory: Path) -> bool:
        account = self._account()
        return account is None or barrier(directory, account) is None

    def _private(self, directory: Path) -> Path:
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
            self._own(directory)
        status = directory.lstat()
        owner = self.data.stat().st_uid
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != owner or status.st_mode & 0o077:
            raise DatabaseError(f"{directory} is not a private directory of user {owner}; remove it")
        return directory

    def _own(self, path: Path) -> None:
        status = self.data.stat()
        if status.st_uid != path.stat().st_uid:
            os.chown(path, status.st_uid, status.st_gid)

    def _failed(self, what: str) -> DatabaseError:
        try:
            lines = self.log.read_text(errors="replace").splitlines()[-10:]
        except OSError:
            lines = []
        tail = "".join(f"\n  {line}" for line in lines)
        return DatabaseError(f"the embedded PostgreSQL in {self.data} {what}; its log {self.log} ends with:{tail}")
