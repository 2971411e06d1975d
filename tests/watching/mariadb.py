"""A real MariaDB server in its own directory, on a private socket."""

from __future__ import annotations

import getpass
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql

from tests.waiting import wait_until

ADVICE = "is not installed: `apt-get install mariadb-server`, or put it on the PATH"


def program(name: str) -> str:
    """Return the path of a program of MariaDB. Debian has the server where only root looks."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/sbin")
    assert found, f"{name} {ADVICE}"
    return found


@contextmanager
def mariadb() -> Iterator[Path]:
    """Yield the socket of a server whose user root has no password and the database `shop`."""
    with tempfile.TemporaryDirectory(prefix="mariadb-") as home:
        data, socket = Path(home, "data"), Path(home, "socket")
        user = f"--user={getpass.getuser()}"
        install = [program("mariadb-install-db"), "--no-defaults", f"--datadir={data}", user, "--skip-test-db"]
        made = subprocess.run(
            [*install, "--auth-root-authentication-method=normal"], capture_output=True, text=True, check=False
        )
        assert made.returncode == 0, made.stdout + made.stderr
        command = [program("mariadbd"), "--no-defaults", f"--datadir={data}", f"--socket={socket}", user]
        command += ["--skip-networking", "--innodb-flush-log-at-trx-commit=0", f"--pid-file={Path(home, 'pid')}"]
        log = Path(home, "log")
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            wait_until(lambda: _ready(log, process), 60, what="a ready mariadbd")
            execute(socket, "CREATE DATABASE shop")
            yield socket
        finally:
            process.kill()
            process.wait()


def execute(socket: Path, *statements: str) -> None:
    """Execute statements as root, each in its own transaction."""
    connection = pymysql.connect(unix_socket=str(socket), user="root", autocommit=True)
    with connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _ready(log: Path, process: subprocess.Popen[bytes]) -> bool:
    """Return whether the server says so: PyMySQL leaves a socket open when it cannot connect."""
    text = log.read_text(encoding="utf-8", errors="replace")
    assert process.poll() is None, text
    return "ready for connections" in text
