"""Functions that look at sources, in a real runner process: what they get, return and raise."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from freshline.errors import FreshlineError
from freshline.settings import Settings
from freshline.watching.look import Mode
from freshline.watching.python import Delivery, Returned
from freshline.worker.protocol import LookRequest
from freshline.worker.runner_process import RunnerProcess
from freshline.worker.step_errors import JobFailedError, RunnerDied, StepStopped, StepTimeout
from tests.worker.steps import copy_of

JOBS = """
import os, time

def files(ctx):
    ctx.log.info("after %s", ctx.position)
    print("printed")
    return [{"key": ctx.asset_id, "payload": {"path": "a.csv"}}], {"page": (ctx.position or {"page": 0})["page"] + 1}

def version(ctx): return f"{ctx.mode} {os.environ.get('API_KEY')}"
def nothing(ctx): return None
def number(ctx): return 42
def broken(ctx): return 1 / 0
def leak(ctx): raise ValueError("key " + os.environ["API_KEY"])
def leave(ctx): raise SystemExit(3)
def die(ctx): os._exit(9)
def hang(ctx):
    while True:
        time.sleep(0.01)
"""


class Calls:
    """A project with a runner that calls its functions."""

    def __init__(self, project: Path) -> None:
        (project / "jobs.py").write_text(JOBS)
        self.log: list[str] = []
        settings = Settings(project=project)
        self.runner = RunnerProcess(project, spark=False, settings=settings, code=copy_of(project))
        self.runner.start()

    def call(self, function: str, mode: Mode = "append", stop: str | None = None, **more: Any) -> Returned:
        """Call one function."""
        request = LookRequest("landing.orders", mode, f"jobs:{function}", **more)
        return self.runner.run_look(request, on_log=lambda _, text: self.log.append(text), stop=lambda: stop)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Calls]:
    """Yield a runner that all tests share: no look may spoil it for the next one."""
    calls = Calls(tmp_path_factory.mktemp("project"))
    yield calls
    calls.runner.kill()


def test_deliveries_and_a_position_come_back(calls: Calls) -> None:
    """The function gets its last position; what it logs and prints reaches the supervisor, in two streams."""
    first = calls.call("files")
    assert first == Returned(None, [Delivery("landing.orders", {"path": "a.csv"})], moved=True, position={"page": 1})
    assert calls.call("files", position=first.position).position == {"page": 2}
    assert {line.removeprefix("INFO ") for line in calls.log[-2:]} == {"after {'page': 1}", "printed"}


def test_a_version_comes_back_and_secrets_are_given(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those that the watch names."""
    monkeypatch.setenv("API_KEY", "hidden-word")
    assert calls.call("version", "snapshot").version == "snapshot None"
    assert calls.call("version", "snapshot", secrets=["API_KEY"]).version == "snapshot hidden-word"
    with pytest.raises(JobFailedError, match=r"key \*\*\*"):
        calls.call("leak", secrets=["API_KEY"])


def test_nothing_is_new(calls: Calls) -> None:
    """None is a result, not a look without an end."""
    assert calls.call("nothing") == Returned(None, [])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("number", "jobs:number returned a value of the type int; allowed for a source with mode append"),
        ("broken", "jobs.py:12: ZeroDivisionError: division by zero"),
        ("leave", "the job called sys.exit(3); return from the function"),
        ("absent", "entry point 'jobs:absent': module jobs has no function 'absent'"),
    ],
)
def test_mistakes_are_sentences(calls: Calls, function: str, message: str) -> None:
    """With the place in the user's file; the runner goes on."""
    with pytest.raises(FreshlineError) as raised:
        calls.call(function)
    assert message in str(raised.value)
    assert calls.call("nothing") == Returned(None, [])


def test_a_look_that_hangs_is_stopped(calls: Calls) -> None:
    """By its timeout, and by the end of the worker; the runner goes on."""
    began = time.monotonic()
    with pytest.raises(StepTimeout):
        calls.call("hang", timeout_ms=200)
    with pytest.raises(StepStopped, match="shutdown"):
        calls.call("hang", stop="shutdown")
    assert time.monotonic() - began < 10
    assert calls.call("nothing") == Returned(None, [])


def test_a_look_that_ends_its_process_is_an_error(tmp_path: Path) -> None:
    """The supervisor goes on."""
    calls = Calls(tmp_path)
    with pytest.raises(RunnerDied, match="ended itself with exit code 9"):
        calls.call("die")
    calls.runner.kill()
