"""PostgreSQL goes away and comes back: no process crashes or spins, one line reports it, work continues."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from structlog.testing import capture_logs

from freshline.embedded_postgres.cluster import Cluster
from freshline.errors import DatabaseError
from freshline.model.run import StagedOutput
from freshline.services.materializer import Materializer
from freshline.store.db import migrate
from freshline.store.db.database import Database, LostConnectionError, UnreachableError
from freshline.store.evaluation import load_state
from tests.store_harness import Lab, laboratory, workflow
from tests.waiting import wait_until

POLL_MS = 100
TERMINATE = "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE datname = %s"


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a lab where b reads a and c reads b."""
    with laboratory(database_url, poll_ms=POLL_MS) as lab:
        lab.apply(workflow("b", "a"), workflow("c", "b"))
        yield lab


def terminate(url: str) -> None:
    """End every session of the database, and wait until they have ended."""
    with psycopg.connect(make_conninfo(url, dbname="postgres"), autocommit=True) as connection:
        connection.execute(TERMINATE, [conninfo_to_dict(url)["dbname"]])


class Wire:
    """A proxy between us and the server, which can be cut in the middle of an answer."""

    def __init__(self, url: str, home: Path) -> None:
        parts = conninfo_to_dict(url)
        self._server = f"{parts['host']}/.s.PGSQL.{parts.get('port', 5432)}"
        self._ear = socket.socket(socket.AF_UNIX)
        self._ear.bind(str(home / ".s.PGSQL.5432"))
        self._ear.listen()
        self.url = make_conninfo(url, host=str(home), port=5432)
        self.lost = 0
        self._to_lose = b""
        self._lines: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_answer_to(self, statement: bytes) -> None:
        """Forward the next message with this text, and drop its answer."""
        self._to_lose = statement

    def close(self) -> None:
        """Cut all connections."""
        for line in (self._ear, *self._lines):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            line.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._ear.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                self._lines += [client, server]
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
                threading.Thread(target=self._back, args=(server, client), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if self._to_lose and self._to_lose in data:
                    self._to_lose = b""
                    self.lost += 1
                    client.shutdown(socket.SHUT_RDWR)
                server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _back(server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def wired(database_url: str, tmp_path: Path) -> Iterator[tuple[Lab, Wire]]:
    """Yield a lab whose connections go through a proxy that can be cut."""
    wire = Wire(database_url, tmp_path)
    with laboratory(wire.url) as lab:
        lab.apply(workflow("b", "a"), workflow("c", "b"))
        yield lab, wire
    wire.close()


def test_an_answer_that_is_lost_on_the_wire_is_looked_up(wired: tuple[Lab, Wire]) -> None:
    """A report, a requested run and the ends of runs happen once, and their callers learn that they did."""
    lab, wire = wired
    wire.lose_answer_to(b"COMMIT")
    result = lab.report("a", "1")
    assert (wire.lost, result["version"], result["duplicate"], result["movedHead"]) == (1, 1, False, True)
    assert lab.one("SELECT count(*) FROM snapshots") == 1
    wire.lose_answer_to(b"COMMIT")
    run_id = lab.store.operations.request_run("b")
    assert (wire.lost, [str(run["id"]) for run in lab.runs("b")]) == (2, [run_id])
    run = lab.start()
    wire.lose_answer_to(b"COMMIT")
    assert lab.store.runs.publish(run, [StagedOutput("b", "work", "v1")]) == ["b"]
    assert (wire.lost, lab.head("b")["sequence"]) == (3, 1)
    lab.store.operations.request_run("b")
    run = lab.start()
    wire.lose_answer_to(b"COMMIT")
    lab.store.runs.hand_back(run.id, run.attempt)
    run = lab.start()
    wire.lose_answer_to(b"COMMIT")
    lab.store.runs.fail(run.id, run.attempt, {"code": "job", "message": "boom"})
    assert (wire.lost, len(lab.events("workflow.run.failed"))) == (5, 1)


def test_a_report_with_a_key_that_lost_its_answer_is_no_duplicate(wired: tuple[Lab, Wire]) -> None:
    """Only what came before is a duplicate; a repetition by somebody else is one (docs/semantics.md#R3.3)."""
    lab, wire = wired
    wire.lose_answer_to(b"COMMIT")
    assert lab.report("a", "1", key="k")["duplicate"] is False
    assert wire.lost == 1
    assert lab.report("a", "1", key="k")["duplicate"] is True


def test_the_ambiguity_is_told_when_nobody_can_resolve_it(wired: tuple[Lab, Wire]) -> None:
    """An apply whose answer got lost says that it may have happened; a repetition finds nothing to do."""
    lab, wire = wired
    changed = workflow("b", "a", auto={"onUpstreamUpdate": True, "priority": 3})
    wire.lose_answer_to(b"COMMIT")
    with pytest.raises(LostConnectionError, match=r"commit of 'apply'.*may have happened"):
        lab.apply(changed, workflow("c", "b"))
    assert lab.apply(changed, workflow("c", "b")).changed == []


def test_lines_of_a_log_are_not_doubled(wired: tuple[Lab, Wire]) -> None:
    """What was written and not answered is left out when it is written again."""
    lab, wire = wired
    lab.report("a", "1")
    lab.settle()
    run = lab.start()
    lines = [{"step_id": "work", "stream": "log", "text": str(number)} for number in range(5)]
    lab.store.runs.append_logs(run.id, run.attempt, lines[:2], after=0)
    wire.lose_answer_to(b"COMMIT")
    with pytest.raises(LostConnectionError):
        lab.store.runs.append_logs(run.id, run.attempt, lines[2:4], after=2)
    lab.store.runs.append_logs(run.id, run.attempt, lines[2:], after=2)
    assert [row["text"] for row in lab.rows("SELECT text FROM run_logs ORDER BY line")] == list("01234")
    assert [row["line"] for row in lab.rows("SELECT line FROM run_logs ORDER BY line")] == [1, 2, 3, 4, 5]


def test_idle_sessions_that_were_ended_trouble_nobody(lab: Lab, database_url: str) -> None:
    """All idle connections die: the next transaction of every thread works, without an error or a pause."""
    begin = threading.Barrier(6)

    def use() -> None:
        with lab.database.transaction("sweep") as connection:
            begin.wait(10)
            connection.execute("SELECT 1")

    threads = [threading.Thread(target=use) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    terminate(database_url)
    with capture_logs() as logs:
        started = time.monotonic()
        for _ in range(6):
            lab.store.evaluation.consume_inbox(10)
    assert time.monotonic() - started < 5
    assert [entry for entry in logs if entry["log_level"] != "debug"] == []


def test_a_session_that_is_ended_for_idleness_is_a_lost_connection(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A materializer that slept in a decision tries again; the workflow is not blamed (docs/semantics.md#R11.3)."""
    lab.report("a", "1")
    lab.store.evaluation.consume_inbox(10)
    read = load_state.read

    def slow(connection: Any, *more: Any) -> Any:
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 1")
        mine = connection.info.backend_pid
        wait_until(lambda: lab.one("SELECT count(*) FROM pg_stat_activity WHERE pid = %s", mine) == 0)
        return read(connection, *more)

    monkeypatch.setattr(load_state, "read", slow)
    with pytest.raises(LostConnectionError):
        lab.reconciler.run_once()
    monkeypatch.undo()
    lab.settle()
    assert lab.one("SELECT count(*) FROM decisions WHERE outcome = 'error'") == 0
    assert lab.active() == ["b"]


def test_connections_are_limited_and_who_waits_too_long_hears_why(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool has a size; the message says that all are taken."""
    monkeypatch.setattr("freshline.store.db.database.POOL_TIMEOUT_S", 0.1)
    database = Database(database_url, size=2)
    database.open()
    with database.connection(), database.connection(), pytest.raises(DatabaseError, match="all 2 connections"):
        database.connection().__enter__()
    with database.connection() as connection:
        assert connection.execute("SELECT 1 AS one").fetchone() == {"one": 1}
    database.close()
    with pytest.raises(DatabaseError, match="closed"):
        database.connection().__enter__()


class Server:
    """A separate PostgreSQL server that may be killed."""

    def __init__(self, home: Path) -> None:
        self._cluster = Cluster(home, {"fsync": "off"})
        self.start()
        self.url = self._cluster.ensure_database("freshline")
        migrate.upgrade(self.url)

    def start(self) -> None:
        self._cluster.ensure_accepting(60)

    def kill(self) -> None:
        """Kill all its processes at once, as a power failure does."""
        pid = self._cluster.pid
        assert pid is not None
        os.kill(pid, signal.SIGQUIT)
        wait_until(lambda: not self._cluster.alive(), what="the server's end")

    def stop(self) -> None:
        self._cluster.stop()


@contextmanager
def materializing(lab: Lab) -> Iterator[Materializer]:
    """Run all services while the block lasts."""
    materializer = Materializer(lab.store, lab.settings)
    materializer.start()
    try:
        yield materializer
    finally:
        materializer.stop()


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server for one test."""
    server = Server(tmp_path_factory.mktemp("pg"))
    yield server
    server.stop()


def served(lab: Lab, act: Callable[[], object]) -> None:
    """Check that everything still works: a report becomes runs without help."""
    act()
    for slug in "bc":
        run = wait_until(lab.claim, what=f"the run of {slug}")
        assert run is not None
        lab.finish(run)


def test_services_outlive_a_server_that_dies(server: Server) -> None:
    """One line when it goes and one when it is back, no traceback, few tries; work goes on within 2 polls and a bit."""
    with laboratory(server.url, poll_ms=POLL_MS) as lab:
        lab.database.clock = None
        lab.apply(workflow("b", "a"), workflow("c", "b"))
        with capture_logs() as logs, materializing(lab) as materializer:
            served(lab, lambda: lab.report("a", "1"))
            server.kill()
            with pytest.raises((UnreachableError, LostConnectionError)):
                lab.report("a", "2")
            wait_until(lambda: len([e for e in logs if e["event"] == "doorbell_deaf"]) == 1)
            tries = lab.database.outage.tries
            threading.Event().wait(3)
            most = (
                2 * len(materializer.services) * 3 * 1000 / POLL_MS
            )  # a service asks for the next time, and for its work
            assert lab.database.outage.tries - tries < most, "somebody turns in circles"
            server.start()
            served(lab, lambda: lab.report("a", "2"))
    loud = [entry["event"] for entry in logs if entry["log_level"] not in {"debug", "info"}]
    assert sorted(loud) == ["database_away", "database_back", "doorbell_deaf"]


def test_services_outlive_the_end_of_their_sessions(lab: Lab, database_url: str) -> None:
    """Sessions are ended again and again under work: every report arrives, and nothing but the outages is told."""
    lab.database.clock = None
    with capture_logs() as logs, materializing(lab):
        for version in range(5):
            lab.report("a", f"{version}")
            terminate(database_url)
        wait_until(lambda: _tolerant(lambda: lab.active("b")) == ["b"], what="the run of b")
        wait_until(lambda: _tolerant(lambda: lab.reads("b")[-1]) == {"a": "4"}, what="the last version")
    loud = {entry["event"] for entry in logs if entry["log_level"] not in {"debug", "info"}}
    assert loud <= {"database_away", "database_back", "doorbell_deaf"}


def _tolerant(look: Callable[[], Any]) -> Any:
    with suppress(DatabaseError):
        return look()
