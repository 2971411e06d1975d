"""The supervisor's handle on one runner: a child process that executes one step after another.

The runner is the leader of its own session and process group; Spark's JVM and what user code forks are members.
Whatever happens to it, the supervisor goes on: every end of the runner becomes one exception of `run_step`.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from freshline.errors import FreshlineError, NotFoundError
from freshline.model.run import PinnedInput
from freshline.settings import Settings
from freshline.worker.listener import Ended, Line, Listener, Said
from freshline.worker.log_capture import TAIL, Log, Secrets
from freshline.worker.protocol import (
    Channel,
    JobFailedError,
    RunnerDied,
    StepRequest,
    StepResult,
    StepStopped,
    StepTimeout,
    error_from,
    error_message,
    hide_in,
)
from freshline.worker.scratch import make_scratch

POLL = 0.2  # seconds between two looks at `stop`
SEND_TIMEOUT = 10.0
GRACE = {"lease-lost": 0.0}  # the run belongs to somebody else: no time to be polite
DEFAULT_GRACE = 5.0  # for Spark to give its cores back; after that a new JVM is quicker
TIMEOUT = "timeout"

# Credentials of Freshline itself. What a job needs of them it has to name in `secrets`.
HIDDEN = frozenset({"PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE", "SPARK_REMOTE", "SPARK_CONNECT_AUTHENTICATE_TOKEN"})
STORE_SECRET = re.compile(r"(?:AWS|AZURE|GOOGLE)_\w*(?:KEY|SECRET|TOKEN|PASSWORD|CONNECTION_STRING)")
KEPT = frozenset({"FRESHLINE_PROJECT", "FRESHLINE_WAREHOUSE", "FRESHLINE_LOG_LEVEL", "FRESHLINE_LOG_FORMAT"})

# The kernel's parent-death signal follows the thread that forked, so all runners are forked by one that stays.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="freshline-spawner")


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What a step needs of the supervisor while it runs."""

    log: Log
    on_progress: Callable[[dict[str, Any]], None]
    on_ask: Callable[[str, int], PinnedInput]
    stop: Callable[[], str | None]


class RunnerProcess:
    """One runner. `start` returns at once; `close` and `kill` may be called twice and by any thread."""

    def __init__(
        self,
        project: Path | None,
        *,
        spark: bool,
        settings: Settings,
        code_hash: str | None,
        own: Mapping[str, str] | None = None,
    ) -> None:
        """`own`: settings of the one run that this runner's Spark is for."""
        self._project = project or settings.project
        self._own = None if own is None else dict(own)
        self._spark = spark
        self._settings = settings
        self._code_hash = code_hash
        self._popen: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._listener: Listener | None = None
        self._steps = 0

    def start(self) -> None:
        """Start the child; a Spark runner warms its session up in the background."""
        if self._popen is not None:
            raise RuntimeError("a runner is started once")
        scratch = make_scratch()
        ours, theirs = socket.socketpair()
        ours.settimeout(SEND_TIMEOUT)
        try:
            self._popen = _SPAWNER.submit(self._spawn, theirs).result()
        except BaseException:
            ours.close()
            scratch.remove()
            raise
        finally:
            theirs.close()
        self._channel = Channel(ours)
        self._listener = Listener(self._popen, self._channel, scratch.remove)
        with contextlib.suppress(OSError):  # the listener notices a child that is dead already
            self._channel.send(self._hello(scratch.path))

    def _spawn(self, control: socket.socket) -> subprocess.Popen[bytes]:
        # -P: a file of the project named like a module of the standard library must not break the runner itself.
        command = [sys.executable, "-P", "-m", "freshline.worker.runner", str(control.fileno())]
        return subprocess.Popen(
            command,
            cwd=self._project,
            env=child_environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[control.fileno()],
            start_new_session=True,
        )

    def _hello(self, scratch: Path) -> dict[str, Any]:
        return {
            "type": "hello",
            "project": str(self._project),
            "spark": self._spark,
            "master": self._settings.spark_master,
            "remote": self._settings.spark_remote,
            "token": self._settings.spark_token,
            "own": self._own,
            "scratch": str(scratch),
        }

    @property
    def ready(self) -> bool:
        """It can execute a step without waiting for Spark."""
        return self._listener is not None and self._listener.ready.is_set() and self.alive

    @property
    def alive(self) -> bool:
        """The child was started and can take another step: it has not ended and is not about to."""
        return self._listener is not None and not self._listener.leaving.is_set()

    @property
    def failure(self) -> FreshlineError | None:
        """Why it could not get ready (Java absent, Spark not reachable), if so."""
        return self._listener.failure if self._listener else None

    @property
    def lacks_archive(self) -> bool:
        """Its Spark has started slower than it could (`freshline.spark.jvm_cds`)."""
        return self._listener is not None and self._listener.lacks_archive

    @property
    def code_hash(self) -> str | None:
        """The hash of the project's code that it has imported (R10.3)."""
        return self._code_hash

    @property
    def pid(self) -> int | None:
        """The child's process id, also that of its group."""
        return self._popen.pid if self._popen else None

    def run_step(
        self,
        request: StepRequest,
        *,
        on_log: Callable[[str, str], None],
        on_progress: Callable[[dict[str, Any]], None],
        on_ask: Callable[[str, int], PinnedInput],
        stop: Callable[[], str | None],
    ) -> StepResult:
        """Execute one step and wait for it; callbacks are called by this thread.

        Raises JobFailedError, CheckError, EngineError, WarehouseError, StepTimeout, StepStopped or RunnerDied.
        """
        secrets = _secrets(request.secrets, os.environ)
        log = Log(on_log, Secrets([*secrets.values(), *_tokens(self._settings, os.environ)]))
        try:
            listener = self._wait_ready(stop)
            listener.secrets = log.secrets
            self._steps += 1
            self._send({"type": "step", "id": self._steps, "request": request.as_json(), "secrets": secrets})
            return self._follow(listener, request, Callbacks(log, on_progress, on_ask, stop))
        except FreshlineError as error:
            hide_in(error, log.secrets.hide_cut)
            raise

    def _wait_ready(self, stop: Callable[[], str | None]) -> Listener:
        listener = self._listener
        if listener is None:
            raise RunnerDied(None)
        while not (listener.ready.is_set() and self.alive):
            ended = not self.alive  # asked first: a failure is told before the end
            if listener.failure is not None:
                raise listener.failure
            if ended:
                raise RunnerDied(listener.status, "\n".join(listener.drain()[-TAIL:]))
            if reason := stop():
                raise StepStopped(reason)
            listener.ready.wait(POLL)
        listener.drain()  # what was printed before belongs to no step
        return listener

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            if self._channel:
                self._channel.send(message)
        except OSError:
            self.kill()  # whoever waits for an answer learns of the end

    def _follow(
        self,
        listener: Listener,
        request: StepRequest,
        callbacks: Callbacks,
    ) -> StepResult:
        log = callbacks.log
        deadline = None if request.timeout_ms is None else time.monotonic() + request.timeout_ms / 1000
        while True:
            match listener.next(POLL):
                case Ended(status):
                    raise RunnerDied(status, log.tail)
                case Line(stream, text):
                    log.write(stream, text)
                case Said(message):
                    if result := self._hear(message, callbacks):
                        return result
            if reason := callbacks.stop():
                self._interrupt(listener, reason, log)
                raise StepStopped(reason)
            if deadline is not None and time.monotonic() > deadline:
                self._interrupt(listener, TIMEOUT, log)
                raise StepTimeout(f"the step took longer than its timeoutMs of {request.timeout_ms} and was stopped")

    def _hear(self, message: Mapping[str, Any], callbacks: Callbacks) -> StepResult | None:
        match message["type"]:
            case "log":
                callbacks.log.write("log", message["text"])
            case "progress":
                callbacks.on_progress(message["progress"])
            case "ask" if message["id"] == self._steps:
                self._send({"type": "answer", **_answer(message, callbacks.on_ask)})
            case "done" if message["id"] == self._steps:
                return StepResult.from_json(message)
            case "error" if message["id"] == self._steps:
                raise error_from(message)
        return None

    def _interrupt(self, listener: Listener, reason: str, log: Log) -> None:
        """Ask the step to end, and kill the group if it does not within its grace."""
        deadline = time.monotonic() + GRACE.get(reason, DEFAULT_GRACE)
        self._send({"type": "cancel", "id": self._steps})
        while (left := deadline - time.monotonic()) > 0:
            match listener.next(min(left, POLL)):
                case Line(stream, text):
                    log.write(stream, text)
                case Said(message) if message.get("id") == self._steps:
                    return
                case Ended():
                    return
        self.kill()

    def close(self, grace: float) -> None:
        """Let it finish by itself for `grace` seconds, then kill it."""
        if self._listener and grace > 0 and not self._listener.ended.is_set():
            self._send({"type": "exit"})
            self._listener.ended.wait(grace)
        self.kill()

    def kill(self) -> None:
        """Kill the child's process group at once and wait until it is gone."""
        if self._listener:
            self._listener.kill()
            self._listener.ended.wait(SEND_TIMEOUT)


def _answer(message: Mapping[str, Any], on_ask: Callable[[str, int], PinnedInput]) -> dict[str, Any]:
    try:
        return {"pinned": asdict(on_ask(message["asset"], message["version"]))}
    except NotFoundError as error:
        return {"error": error_message(error)}


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The supervisor's environment without Freshline's own settings and credentials."""
    return {
        name: value
        for name, value in environ.items()
        if name in KEPT or not (name.startswith("FRESHLINE_") or name in HIDDEN)
    }


def _tokens(settings: Settings, environ: Mapping[str, str]) -> Iterable[str]:
    """Credentials that a runner knows and no log may show: of a Spark Connect server and of an object store."""
    inside = re.search(r";token=([^;]+)", settings.spark_remote or "")
    stores = (value for name, value in environ.items() if STORE_SECRET.fullmatch(name))
    known = (settings.spark_token, inside[1] if inside else None, *stores)
    return {form for token in known if token for form in (token, unquote(token), quote(token, safe=""))}


def _secrets(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The values of the declared secrets, taken from the worker's environment."""
    for name in names:
        if name.startswith("FRESHLINE_"):
            raise JobFailedError(f"secret {name!r} is Freshline's own; jobs may name any other variable of the worker")
        if name not in environ:
            raise JobFailedError(
                f"secret {name!r} is not set in the environment of the worker; set it and start the worker again"
            )
    return {name: environ[name] for name in names}
