"""Life and death of a runner: with its supervisor, from any thread, without traces."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from freshline.errors import EngineError
from freshline.settings import Settings
from freshline.worker import runner_environment
from freshline.worker.runner_process import RunnerProcess
from freshline.worker.step_errors import RunnerDied, StepStopped
from tests.waiting import wait_until
from tests.worker.steps import Bench, copy_of, python, spark_python

SUPERVISOR = """
import pathlib, sys, time
from freshline.worker.runner_process import RunnerProcess
from freshline.settings import Settings
from tests.worker.steps import copy_of
project = pathlib.Path(sys.argv[1])
runner = RunnerProcess(project, spark=False, settings=Settings(project=project), code=copy_of(project))
runner.start()
while not runner.ready:
    time.sleep(0.02)
print(runner.pid, flush=True)
from tests.worker.steps import Bench, python
Bench(project, runner).run(python("hold_the_lock"))
"""

JOBS = """
import ctypes, time
def nothing(ctx): pass
def sleeps(ctx): time.sleep(600)
def hold_the_lock(ctx):
    open("holding", "w").close()
    ctypes.PyDLL(None).sleep(600)  # in C, without giving up Python's lock: no other thread of the runner can act
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a project with a few jobs."""
    (tmp_path / "jobs.py").write_text(JOBS)
    return tmp_path


def make(project: Path, *, spark: bool = False) -> RunnerProcess:
    """Return a runner that is not started yet."""
    return RunnerProcess(project, spark=spark, settings=Settings(project=project), code=copy_of(project))


def test_a_runner_dies_with_its_supervisor_even_when_it_cannot_act(project: Path) -> None:
    """SIGKILL of the supervisor ends the runner although C code in it holds Python's lock (docs/semantics.md#R12.1)."""
    parent = subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(project)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    wait_until((project / "holding").exists, what="a runner that holds the lock")
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not exists(pid), what="the end of the orphaned runner")


def test_a_runner_outlives_the_thread_that_started_it(project: Path) -> None:
    """The kernel's parent-death signal follows threads: a runner started by a thread that ended must live on."""
    runner = make(project)

    def start() -> None:
        runner.start()
        wait_until(lambda: runner.ready, what="a ready runner")

    starter = threading.Thread(target=start)
    starter.start()
    starter.join()
    assert Bench(project, runner).run(python("nothing")).outputs
    runner.close(1)


def test_start_close_and_kill_may_be_called_in_any_order_by_many_threads(project: Path) -> None:
    """Whoever closes first, nothing hangs, nothing is left, and calling it again does no harm."""
    for waits in (False, True, False):
        runner = make(project)
        runner.close(1)
        runner.start()
        pid = runner.pid
        if waits:
            wait_until(lambda r=runner: r.ready, what="a ready runner")  # type: ignore[misc]
        closers = [threading.Thread(target=stop) for stop in (lambda r=runner: r.close(1), runner.kill) * 3]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join(20)
        assert not runner.alive
        assert pid is not None
        assert not exists(pid)
        runner.kill()


def test_killing_a_runner_releases_the_thread_that_waits_for_its_step(project: Path) -> None:
    """The heartbeat's thread may kill at the lease's deadline; `run_step` then raises at once."""
    bench = Bench(project, make(project))
    bench.runner.start()
    wait_until(lambda: bench.runner.ready, what="a ready runner")
    killer = threading.Timer(0.3, bench.runner.kill)
    killer.start()
    with pytest.raises(RunnerDied):
        bench.run(python("sleeps"))
    killer.join()


@pytest.mark.parametrize("data", [b"garbage\n", b'{"type": "Ready"', b'{"type": "Hello", "project": 1}\n'])
def test_a_runner_ends_when_its_supervisor_cannot_be_understood(data: bytes) -> None:
    """Whatever is not a message ends the process; it would not hear the end of the socket otherwise."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-P", "-m", "freshline.worker.runner", str(theirs.fileno())]
    with ours, theirs:
        child = subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True, stderr=subprocess.PIPE)
        ours.sendall(data)
        ours.shutdown(socket.SHUT_WR)
        _, error = child.communicate(timeout=20)
    assert child.returncode == -signal.SIGKILL
    assert b"the supervisor's control socket cannot be read" in error


def test_a_runner_that_was_never_started_says_so(project: Path) -> None:
    """Using it is an error, not a hang."""
    runner = make(project)
    assert not runner.alive
    assert not runner.ready
    assert runner.pid is None
    with pytest.raises(RunnerDied, match="is not running"):
        Bench(project, runner).run(python("nothing"))


def test_without_java_a_spark_runner_says_what_to_install(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java is an engine error with the packages' names: never the workflow's failure (docs/semantics.md#R7.1)."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(project))
    runner = make(project, spark=True)
    runner.start()
    with pytest.raises(EngineError, match=r"no `java` on the PATH.*openjdk-17-jre-headless.*dnf.*brew"):
        Bench(project, runner).run(spark_python("nothing"))
    assert isinstance(runner.failure, EngineError)
    wait_until(lambda: not runner.alive, what="the end of a runner without Java")


def test_a_stop_while_the_runner_gets_ready_leaves_it_alone(project: Path) -> None:
    """A step that was not begun needs no interruption: the runner stays for the next one."""
    bench = Bench(project, make(project))
    bench.runner.start()
    with pytest.raises(StepStopped):
        bench.run(python("nothing"), stop=lambda: "canceled")
    assert bench.run(python("nothing")).outputs
    bench.runner.kill()


def test_scratch_directories_go_away_with_their_runner(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after SIGKILL of the runner; those of supervisors that were killed go with the next start."""
    base = project / "tmp"
    base.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(base))
    monkeypatch.setattr(runner_environment, "SCRATCH_MIN_AGE_S", -1)
    abandoned = base / f"{runner_environment.SCRATCH_PREFIX}abandoned"
    abandoned.mkdir()
    runner, other = make(project), make(project)
    runner.start()
    other.start()
    assert not abandoned.exists()
    assert len(list(base.iterdir())) == 2
    assert runner.pid is not None
    os.kill(runner.pid, signal.SIGKILL)
    other.close(1)
    wait_until(lambda: not list(base.iterdir()), what="an empty temporary directory")


def exists(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
