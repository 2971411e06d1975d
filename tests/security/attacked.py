"""A deployment with credentials that nobody may find, as this user and as another one."""

from __future__ import annotations

import os
import pwd
import secrets
import select
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.acceptance.deployment import Deployment

ATTACK = Path(__file__).with_name("attack.py")
ROOT = Path(__file__).parents[2]
IGNORED = shutil.ignore_patterns("site-packages", "test", "tests", "idlelib", "ensurepip", "*.a")


class Canaries:
    """Credentials of one test. They begin with a marker, and have characters that addresses and JSON escape."""

    def __init__(self) -> None:
        self.marker = f"zq{secrets.token_hex(4)}x"
        names = ("database", "redis", "api", "spark", "pgpassword", "store", "other")
        self.values = {name: f"{self.marker}{secrets.token_hex(8)}" for name in names}

    def environ(self, database: str) -> dict[str, str]:
        """Return the settings that contain them. Redis is out of reach, so that its errors are logged."""
        one = self.values
        return {
            "FRESHLINE_DATABASE_URL": database,
            "FRESHLINE_EVENT_BUS": f"redis://user:{one['redis']}@127.0.0.1:1/0",
            "FRESHLINE_API_TOKEN": one["api"],
            "FRESHLINE_SPARK_TOKEN": one["spark"],
            "PGPASSWORD": one["pgpassword"],
            "OTHER_SECRET": one["other"],
        }

    def within(self, text: str) -> list[str]:
        """Return the names of those that a text contains."""
        return [name for name, value in self.values.items() if value in text]


class Attacked(Deployment):
    """A deployment whose processes another user may run, with a copy of this Python that it can reach."""

    def __init__(self, root: Path, url: str, canaries: Canaries, user: int | None) -> None:
        super().__init__(root, url)
        self.canaries = canaries
        self.user = user
        self.python = sys.executable
        self.api_port = _free_port()

    def spawn(self, *command: str, **environ: str) -> subprocess.Popen[bytes]:
        """Start a process as the other user; its log goes to a file of the project."""
        log = self.root / f"{command[0]}-{len(self.processes)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [self.python, "-m", "freshline", *command],
                env={**self.environ, **environ},
                cwd=self.root,
                stdout=file,
                stderr=file,
                start_new_session=True,
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else (),
            )
        self.processes.append(process)
        return process

    def everything_stored(self) -> Iterator[tuple[str, str]]:
        """Yield every row of every table as text, with the name of the table."""
        with self.database.connection() as connection:
            names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
            for name in [row["tablename"] for row in names]:
                for row in connection.execute(f'SELECT t::text AS row FROM "{name}" t').fetchall():
                    yield name, row["row"]


@contextmanager
def deployment_under_attack(database_url: str, user: int | None) -> Iterator[Attacked]:
    """Yield a deployment whose settings contain credentials; `user` runs its processes, None: the current one."""
    canaries = Canaries()
    with tempfile.TemporaryDirectory(prefix="freshline-attack-") as directory, _forwarded(database_url) as address:
        base = Path(directory)
        base.chmod(0o755)
        deployment = Attacked(base / "project", database_url, canaries, user)
        if user is not None:
            deployment.python = str(_reachable_python(base / "python"))
            shutil.copytree(ROOT / "src", base / "src", copy_function=_link)
            deployment.environ["PYTHONPATH"] = f"{base / 'src'}:{_reachable_packages()}"
            deployment.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            deployment.environ["LD_LIBRARY_PATH"] = str(base / "python" / "lib")
        (deployment.root / "home").mkdir()
        shutil.copy(ATTACK, deployment.root / "attack.py")
        deployment.environ |= {"HOME": str(deployment.root / "home"), "FRESHLINE_API_PORT": str(deployment.api_port)}
        deployment.environ |= canaries.environ(address.replace("PASSWORD", quote(canaries.values["database"], safe="")))
        if user is not None:
            for path in (deployment.root, *deployment.root.rglob("*")):
                os.chown(path, user, user)
        try:
            yield deployment
        except BaseException:
            print(deployment.logs())
            raise
        finally:
            deployment.stop_all()


def _reachable_python(target: Path) -> Path:
    """Return a copy of this interpreter in a directory that others can enter. Links cost nothing."""
    base = Path(sys.base_prefix)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (target / "bin").mkdir(parents=True)
    _link(os.path.realpath(sys.executable), str(target / "bin" / version))
    shutil.copytree(base / "lib" / version, target / "lib" / version, copy_function=_link, ignore=IGNORED)
    for library in base.glob("lib/libpython*.so*"):
        _link(str(library), str(target / "lib" / library.name))
    return target / "bin" / version


def _reachable_packages() -> Path:
    """Return the directory of the installed packages; skip the test if other users cannot enter it."""
    site = next(Path(path).resolve() for path in sys.path if path.endswith("site-packages"))
    for directory in (site, *site.parents):
        if not directory.stat().st_mode & stat.S_IXOTH:
            pytest.skip(f"{directory} cannot be entered by another user, who needs the packages in {site}")
    return site


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
    return target


@contextmanager
def _forwarded(database_url: str) -> Iterator[str]:
    """Yield an address of the database that needs a password and that every user can reach.

    The server of the tests trusts who can enter the directory of its socket, which is its own user, and root.
    """
    known = conninfo_to_dict(database_url)
    server = f"{known['host']}/.s.PGSQL.{known['port']}"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_accept, args=(listening, server), daemon=True).start()
        yield f"postgresql://freshline:PASSWORD@127.0.0.1:{listening.getsockname()[1]}/{known['dbname']}"
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)


def _accept(listening: socket.socket, server: str) -> None:
    with suppress(OSError):
        while True:
            client, _ = listening.accept()
            threading.Thread(target=_serve, args=(client, server), daemon=True).start()


def _serve(client: socket.socket, server: str) -> None:
    """Copy bytes both ways until one end closes."""
    with client, socket.socket(socket.AF_UNIX) as target:
        target.connect(server)
        ends = {client: target, target: client}
        with suppress(OSError):
            while True:
                for end in select.select(list(ends), [], [])[0]:
                    data = end.recv(65_536)
                    if not data:
                        return
                    ends[end].sendall(data)


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        return int(free.getsockname()[1])


def free_user() -> int:
    """Return a user id that no account has."""
    known = {one.pw_uid for one in pwd.getpwall()}
    return next(uid for uid in range(54_321, 60_000) if uid not in known)
