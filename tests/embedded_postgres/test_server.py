"""The embedded server, shared by real processes that come, go and are killed."""

from __future__ import annotations

import fcntl
import os
import pwd
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from freshline.embedded_postgres import account, binaries, cluster
from freshline.embedded_postgres import server as embedded
from freshline.embedded_postgres.account import account_of
from freshline.embedded_postgres.cluster import Cluster
from freshline.embedded_postgres.server import EmbeddedServer
from freshline.errors import DatabaseError
from tests.waiting import wait_until

USER_OF_THE_SERVER = """
import signal, sys
from pathlib import Path
from freshline.embedded_postgres.server import EmbeddedServer
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests in the background ignores it
with EmbeddedServer(Path(sys.argv[1]), options={"fsync": "off"}) as url:
    print(url, flush=True)
    sys.stdin.read()
"""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts a server as another user")
Start = Callable[[Path], "subprocess.Popen[str]"]
QUICK = {"fsync": "off"}


@pytest.fixture
def home() -> Iterator[Path]:
    """Yield a project's private directory with a short path; stop its server afterwards."""
    with tempfile.TemporaryDirectory(prefix="freshline-") as directory:
        Path(directory).chmod(0o711)
        path = Path(directory) / ".freshline"
        yield path
        embedded.stop(path)


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a process, which uses the server until its standard input ends."""
    processes: list[subprocess.Popen[str]] = []

    def start_one(home: Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", USER_OF_THE_SERVER, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        processes.append(process)
        return process

    yield start_one
    for process in processes:
        process.kill()
        process.communicate()


def _url(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _finish(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=60)
    assert process.returncode == 0


def _kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def _answer(url: str) -> object:
    with psycopg.connect(url) as conn:
        row = conn.execute("SELECT current_database()").fetchone()
    return row and row[0]


def _kill_postmaster(home: Path) -> int:
    pid = embedded.status(home).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


def test_two_processes_share_one_server_and_the_last_one_stops_it(home: Path, start: Start) -> None:
    """The server runs while any process uses it, and stops with the last one."""
    first, second = start(home), start(home)
    url = _url(first)
    assert _url(second) == url
    pid = embedded.status(home).pid
    _finish(first)
    assert embedded.status(home).pid == pid
    assert _answer(url) == "freshline"
    _finish(second)
    assert embedded.status(home) == embedded.ServerStatus(
        running=False, pid=None, url=None, log=home.resolve() / "postgres.log"
    )


def test_ten_processes_that_start_at_once_get_one_server(home: Path, start: Start) -> None:
    """Whoever comes first makes and starts the server; the others use it, and it ends with the last."""
    processes = [start(home) for _ in range(10)]
    assert len({_url(process) for process in processes}) == 1
    for process in processes:
        _finish(process)
    assert not embedded.status(home).running


def test_killing_the_starter_leaves_the_server_usable(home: Path, start: Start) -> None:
    """After kill -9 of the process that started it, the server serves the others and the next one."""
    starter = start(home)
    url = _url(starter)
    pid = embedded.status(home).pid
    _kill(starter)
    assert starter.communicate(timeout=30) == ("", ""), "the server does not keep its starter's output open"
    assert _answer(url) == "freshline"
    with EmbeddedServer(home) as again:
        assert again == url
        assert embedded.status(home).pid == pid
    assert not embedded.status(home).running


def test_ctrl_c_in_the_starters_terminal_does_not_reach_the_server(home: Path, start: Start) -> None:
    """An interrupt of the whole process group ends the starter in order and leaves the server to the others."""
    starter = start(home)
    url = _url(starter)
    pid = embedded.status(home).pid
    with EmbeddedServer(home):
        os.killpg(starter.pid, signal.SIGINT)
        _, trace = starter.communicate(timeout=30)
        assert "KeyboardInterrupt" in trace
        assert _answer(url) == "freshline"
        assert embedded.status(home).pid == pid


def test_a_killed_user_does_not_keep_the_server_alive(home: Path, start: Start) -> None:
    """The last process that leaves in order stops the server, also when others were killed before."""
    victim, survivor = start(home), start(home)
    _url(victim)
    _url(survivor)
    _kill(victim)
    _finish(survivor)
    assert not embedded.status(home).running


def test_a_killed_server_is_started_again(home: Path) -> None:
    """After kill -9 of the server, a current user or the next process gets the data back."""
    server = EmbeddedServer(home, options=QUICK)
    with server as url:
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("CREATE TABLE kept AS SELECT 42 AS n")
        killed = _kill_postmaster(home)
        with psycopg.connect(server.ensure_running()) as conn:
            assert conn.execute("SELECT n FROM kept").fetchone() == (42,)
        assert embedded.status(home).pid != killed
        _kill_postmaster(home)
    with EmbeddedServer(home, options=QUICK) as url, psycopg.connect(url) as conn:
        assert conn.execute("SELECT n FROM kept").fetchone() == (42,)


def test_a_stale_pid_file_with_a_living_number_does_not_matter(home: Path) -> None:
    """Lock files of a dead server whose number now belongs to another process of its user do not stop the start."""
    with EmbeddedServer(home, options=QUICK):
        _kill_postmaster(home)
        wait_until(lambda: not Cluster(home.resolve()).alive(), what="the end of the killed server")
    user = account_of(home / "postgres")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, user=user.uid if user else None) as stranger:
        for stale in (home / "postgres" / "postmaster.pid", home / "postgres" / f"{cluster.SOCKET}.lock"):
            lines = stale.read_text().splitlines()
            stale.write_text("\n".join([str(stranger.pid), *lines[1:]]) + "\n")
        with EmbeddedServer(home, options=QUICK) as url:
            assert _answer(url) == "freshline"
        assert stranger.poll() is None


def test_an_interrupted_initialisation_is_made_anew(home: Path) -> None:
    """A data directory that was left half made is never used, and is cleaned up."""
    (home / "postgres.new-killed").mkdir(parents=True)
    (home / "postgres.new-killed" / "PG_VERSION").write_text("18\n")
    with EmbeddedServer(home, options=QUICK) as url:
        assert _answer(url) == "freshline"
    assert not list(home.glob("postgres.new-*"))


def test_coming_and_going_never_meets_a_stopping_server(home: Path) -> None:
    """Threads that acquire and release all the time always get a server that answers."""

    def come_and_go(_: int) -> None:
        server = EmbeddedServer(home, options=QUICK)
        for _ in range(5):
            assert _answer(server.acquire()) == "freshline"
            server.release()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(come_and_go, range(4)))
    assert not embedded.status(home).running


def test_acquire_and_release_may_be_repeated(home: Path) -> None:
    """Both change nothing the second time, and a released server can be acquired again."""
    server = EmbeddedServer(home, options=QUICK)
    assert server.acquire() == server.acquire()
    server.release()
    server.release()
    assert not embedded.status(home).running
    assert _answer(server.acquire()) == "freshline"
    server.release()


def test_a_forked_child_does_not_give_up_its_parents_share(home: Path) -> None:
    """A forked child does not release the parent's lock."""
    with EmbeddedServer(home, options=QUICK) as url:
        server = EmbeddedServer(home)
        server.acquire()
        server._owner -= 1  # as a forked child sees it
        server.release()
        assert _answer(url) == "freshline"


def test_long_and_odd_paths(home: Path) -> None:
    """Paths that do not fit into a socket's name, or have characters that are syntax there, work."""
    for name in ("l" * 120, "with space, comma and 'quotes'"):
        path = home / name
        with EmbeddedServer(path, options=QUICK) as url:
            assert _answer(url) == "freshline"
            socket = Path(str(psycopg.conninfo.conninfo_to_dict(url)["host"]))
            assert socket.parent == Path(tempfile.gettempdir()).resolve()
            assert socket.stat().st_mode & 0o777 == 0o700
        assert not socket.exists()


def test_a_project_in_a_private_directory(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home whose parents only we may enter works, and no directory of ours is opened for that."""
    monkeypatch.setattr(account, "STATE", tmp_path / "state")
    home.parent.chmod(0o700)
    for _ in range(2):
        with EmbeddedServer(home, options=QUICK) as url:
            assert _answer(url) == "freshline"
            data = (home / "postgres").resolve()
            assert data.stat().st_mode & 0o777 == 0o700
            assert embedded.status(home).running
        assert not embedded.status(home).running
    assert home.parent.stat().st_mode & 0o777 == 0o700
    if os.geteuid() == 0:
        assert data.is_relative_to(tmp_path / "state")
        assert [one.stat().st_mode & 0o777 for one in (data.parent, data.parent.parent)] == [0o711, 0o711]


@as_root
def test_the_server_of_root_has_a_user_of_its_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no account, so it is neither `nobody` nor somebody else; and its environment has no credential."""
    monkeypatch.setenv("SOME_SECRET", "sesame")
    with EmbeddedServer(home, options=QUICK):
        pid = embedded.status(home).pid
        owner = Path(f"/proc/{pid}").stat().st_uid
        assert b"sesame" not in Path(f"/proc/{pid}/environ").read_bytes()
    assert owner == (home / "postgres").stat().st_uid
    assert owner in range(account.FIRST, account.FIRST + account.COUNT)
    with pytest.raises(KeyError):
        pwd.getpwuid(owner)


@as_root
@pytest.mark.parametrize("name", ["nobody", "daemon"])
def test_data_of_an_earlier_version_keeps_working(home: Path, name: str) -> None:
    """Data of `nobody`, who ran the server of 0.1, gets another owner; data of an ordinary user keeps its own."""
    with EmbeddedServer(home, options=QUICK) as url, psycopg.connect(url, autocommit=True) as conn:
        conn.execute("CREATE TABLE kept AS SELECT 42 AS n")
    before = pwd.getpwnam(name)
    account.give(home / "postgres", account.Account(before.pw_uid, before.pw_gid))
    os.chown(home / "postgres.log", before.pw_uid, before.pw_gid)
    with EmbeddedServer(home, options=QUICK) as url, psycopg.connect(url) as conn:
        assert conn.execute("SELECT n FROM kept").fetchone() == (42,)
    owners = {path.lstat().st_uid for path in (home / "postgres", *(home / "postgres").rglob("*"))}
    assert len(owners) == 1
    assert (owners == {before.pw_uid}) == (name == "daemon")


@as_root
@pytest.mark.full  # it copies all of PostgreSQL
def test_programs_that_the_user_cannot_reach_are_copied(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an environment below /root: nothing is opened there, and the copy is made once."""
    monkeypatch.setattr(account, "STATE", tmp_path / "state")
    package = binaries.folder().parents[1]
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.exists():
            (closed / part.name).symlink_to(part)
    monkeypatch.setattr(binaries, "folder", lambda: closed / package.name / "pginstall18" / "bin")
    with EmbeddedServer(home, options=QUICK) as url:
        assert _answer(url) == "freshline"
        program = Path(f"/proc/{embedded.status(home).pid}/exe").resolve()
    assert program.is_relative_to(tmp_path / "state")
    assert closed.stat().st_mode & 0o777 == 0o700


def test_a_file_with_another_name_is_not_given_away(tmp_path: Path) -> None:
    """A link from the data to a file of somebody else must not change its owner."""
    (tmp_path / "data").mkdir()
    (tmp_path / "precious").write_text("")
    (tmp_path / "data" / "link").hardlink_to(tmp_path / "precious")
    with pytest.raises(DatabaseError, match="link has another name elsewhere"):
        account.give(tmp_path / "data", account.Account(os.getuid(), os.getgid()))


def test_stop_ends_the_server_under_its_users(home: Path, start: Start) -> None:
    """`stop` stops a server in use, returns whether there was one, and the next process starts it again."""
    assert not embedded.stop(home)
    user = start(home)
    _url(user)
    assert embedded.stop(home)
    assert not embedded.stop(home)
    assert not embedded.status(home).running
    with EmbeddedServer(home, options=QUICK) as url:
        assert _answer(url) == "freshline"
    assert embedded.status(home).running, "the other process still holds its share"
    _finish(user)
    assert not embedded.status(home).running


def test_nothing_listens_on_the_network(home: Path) -> None:
    """The server has no network address, and syncs to disk by default."""
    with EmbeddedServer(home) as url, psycopg.connect(url) as conn:
        shown = {
            name: conn.execute("SELECT current_setting(%s)", [name]).fetchone()
            for name in ("listen_addresses", "fsync", "synchronous_commit", "max_connections")
        }
    assert shown == {
        "listen_addresses": ("",),
        "fsync": ("on",),
        "synchronous_commit": ("on",),
        "max_connections": ("200",),
    }


def test_a_server_that_does_not_start_shows_its_log(home: Path) -> None:
    """The error carries the end of the server's log, where the reason is, and holds no share afterwards."""
    server = EmbeddedServer(home, options={"max_connections": "many"})
    with pytest.raises(DatabaseError, match=r'ended as soon as it was started; .*\n.*"max_connections": "many"'):
        server.acquire()
    assert server._users is None


def test_a_stuck_starter_is_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits too long for another one's start says so instead of waiting for ever."""
    monkeypatch.setattr(embedded, "TIMEOUT_S", 0.05)
    home.mkdir()
    with (home / "postgres.start").open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(DatabaseError, match="another process has been starting or stopping"):
            EmbeddedServer(home).acquire()


def test_data_of_another_major_version_is_refused(home: Path) -> None:
    """A data directory of another PostgreSQL is not touched, and the error says what to do."""
    (home / "postgres").mkdir(parents=True)
    (home / "postgres" / "PG_VERSION").write_text("12\n")
    with pytest.raises(DatabaseError, match="was made by PostgreSQL 12, and this Freshline brings 18; export it"):
        EmbeddedServer(home).acquire()


def test_a_home_that_is_no_directory_is_one_sentence(home: Path) -> None:
    """The error for a file in the way has its path and says what to do."""
    home.write_text("")
    with pytest.raises(DatabaseError, match=r"needs to write to .*\.freshline: .* set FRESHLINE_DATABASE_URL"):
        EmbeddedServer(home).acquire()
    home.unlink()


def test_somebody_elses_socket_directory_is_refused(home: Path) -> None:
    """A directory that others can enter is never used for the socket."""
    (home / "postgres").mkdir(parents=True)
    open_to_all = home / "freshline-socket"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(DatabaseError, match="is not a private directory of user"):
        Cluster(home)._private(open_to_all)


def test_a_long_log_is_set_aside(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log does not grow for ever: a long one is replaced when the server starts."""
    monkeypatch.setattr(cluster, "LOG_LIMIT", 10)
    home.mkdir()
    (home / "postgres.log").write_text("old " * 10)
    with EmbeddedServer(home, options=QUICK):
        assert "old" not in (home / "postgres.log").read_text()
    assert (home / "postgres.log.old").exists()


def test_the_users_environment_does_not_reach_the_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PGPORT and PGDATA of the user's shell change neither the server nor the address."""
    monkeypatch.setenv("PGPORT", "6543")
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("PGDATABASE", "other")
    with EmbeddedServer(home, options=QUICK) as url:
        assert _answer(url) == "freshline"


def test_a_missing_program_is_one_sentence() -> None:
    """A program that cannot be run is named."""
    with pytest.raises(DatabaseError, match="the PostgreSQL program pg_absent could not be run"):
        binaries.run("pg_absent")
