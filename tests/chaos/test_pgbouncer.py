"""Freshline behind pgbouncer in transaction mode, without any setting: no guarantee depends on a session."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from freshline.embedded_postgres.account import account_of
from freshline.store.db import migrate
from freshline.store.db.database import SESSION
from tests.acceptance.deployment import Deployment
from tests.store_harness import Lab, laboratory, workflow
from tests.waiting import wait_until

pytestmark = pytest.mark.chaos
PORT = 6432
SESSIONS = 3  # fewer than the threads that need one
Bouncer = Callable[..., str]


@contextmanager
def bouncer(url: str, **settings: str) -> Iterator[str]:
    """Start a pgbouncer in transaction mode in front of the database, and yield its address."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/sbin")
    assert program, "pgbouncer is not installed: `apt-get install pgbouncer`, or put it on the PATH"
    parts = conninfo_to_dict(url)
    socket = Path(str(parts["host"]))
    user = account_of(socket)
    with tempfile.TemporaryDirectory(prefix="bouncer-") as home:
        lines = {
            "listen_addr": "",
            "listen_port": str(PORT),
            "unix_socket_dir": home,
            "auth_type": "any",
            "pool_mode": "transaction",
            "default_pool_size": str(SESSIONS),
            **settings,
        }
        where = f"* = host={socket} port={parts.get('port', 5432)} user={parts['user']}"
        config = Path(home, "pgbouncer.ini")
        text = "\n".join(f"{key} = {value}" for key, value in lines.items())
        config.write_text(f"[databases]\n{where}\n[pgbouncer]\n{text}\n")
        if user:
            os.chown(home, user.uid, user.gid)
            config.chmod(0o644)
        with Path(home, "log").open("wb") as log:
            command = [program, str(config)]  # as the user that may enter the directory of the server's socket
            uid = user.uid if user else None
            process = subprocess.Popen(command, stdout=log, stderr=log, user=uid, group=uid)
        address = make_conninfo(url, host=home, port=PORT)
        try:
            wait_until(lambda: _answers(address) or process.poll() is not None, what="pgbouncer's answer")
            assert process.poll() is None, Path(home, "log").read_text()
            yield address
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)


def _answers(address: str) -> bool:
    try:
        psycopg.connect(address).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture(params=["refuses", "ignores"])
def pooled(request: pytest.FixtureRequest, database_url: str) -> Iterator[str]:
    """Yield a pgbouncer that rejects session settings, which is its default, or one configured to ignore them."""
    settings = {"ignore_startup_parameters": "options"} if request.param == "ignores" else {}
    with bouncer(database_url, **settings) as address:
        yield address


@pytest.fixture
def lab(pooled: str) -> Iterator[Lab]:
    """Yield a lab that connects through pgbouncer."""
    with laboratory(pooled) as lab:
        yield lab


def test_a_wave_passes_through_a_pooler(lab: Lab) -> None:
    """Apply, reports, decisions, runs, timers and all services do the same as without it."""
    assert not lab.database.keeps_sessions
    lab.apply(workflow("b", "a", freshness={"ttlMs": 3_600_000}), workflow("c", "b"))
    for version in range(8):  # often enough that the driver would prepare the statements
        lab.report("a", f"{version}")
        assert lab.work() == ["b", "c"]
        lab.store.events.stamp_positions(100)
    lab.advance(hours=2)
    assert lab.work() == ["b"]
    lab.store.retention.prune(30, 100)
    assert lab.forgotten() == 0


def test_every_transaction_has_its_limits_and_leaves_none_behind(lab: Lab, pooled: str) -> None:
    """A stopped process cannot hold locks here either, and who uses the session next is not limited by us.

    See docs/semantics.md#R11.3.
    """
    names = [name for name in SESSION if name != "timezone"]
    ask = "SELECT " + ", ".join(f"current_setting('{name}') AS {name}" for name in names)
    limits = {"statement_timeout": "1min", "lock_timeout": "2s", "idle_in_transaction_session_timeout": "5s"}
    hot = limits | {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}
    whole = hot | {"enable_seqscan": "on"}  # reads whole tables (ADR 0011)
    for block, wanted in (
        (lab.database.transaction("absorb"), hot),
        (lab.database.transaction("sweep", whole=True), whole),
        (lab.database.reading(), whole),
        (lab.database.connection(), hot),
    ):
        with block as connection:
            assert connection.execute(ask).fetchone() == wanted
    with psycopg.connect(pooled, autocommit=True) as other:
        left = dict(zip(names, other.execute(ask).fetchone() or (), strict=True))
    assert {left[name] for name in limits} == {"0"}
    assert (left["plan_cache_mode"], left["enable_seqscan"]) == ("auto", "on")


def test_many_threads_share_few_sessions(lab: Lab) -> None:
    """More threads than sessions: every report counts once, and nothing is prepared in a session of somebody else."""
    lab.apply(workflow("b", "a"))
    failures: list[Exception] = []

    def report(number: int) -> None:
        try:
            for round_ in range(10):
                lab.report("a", f"{number}.{round_}")
                lab.store.evaluation.consume_inbox(10)
        except Exception as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=report, args=(number,)) for number in range(2 * SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert lab.head("a")["sequence"] == 20 * SESSIONS
    assert lab.work() == ["b"]


def test_twenty_migrators_through_a_pooler(empty_database_url: str) -> None:
    """Migrations are whole transactions too."""
    with bouncer(empty_database_url) as address:
        threads = [threading.Thread(target=migrate.upgrade, args=(address,)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert migrate.status(address).pending == ()


def test_real_processes_poll_behind_a_pooler_and_say_so(database_url: str, tmp_path: Path) -> None:
    """The doorbell cannot listen: each process says it once, and everything arrives by polling."""
    with bouncer(database_url) as address:
        deployment = Deployment(tmp_path, address)
        try:
            deployment.workflow("b", "a")
            deployment.workflow("c", "b")
            deployment.apply()
            materializer, worker = deployment.start_all()
            deployment.cli("report", "a", "--version", "1")
            deployment.wait_fresh("b", "c")
            assert deployment.versions()["c"] == "c(b=b(a=1))"
            for process in (materializer, worker):
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0
            assert deployment.logs().count("doorbell_deaf") == 2
            assert "Traceback" not in deployment.logs()
        finally:
            deployment.stop_all()
