"""The supervisor's handle on one runner: a child process that executes one step after another.

The runner is the leader of its own session and process group; Spark's JVM and what user code forks are members.
Whatever happens to it, the supervisor goes on: every end of the runner becomes one exception of `run_step`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from freshline.errors import EngineError, FreshlineError
from freshline.runs.lines import Log, Splitter
from freshline.runs.protocol import (
    Channel,
    JobFailedError,
    RunnerDied,
    StepRequest,
    StepResult,
    StepStopped,
    StepTimeout,
    error_from,
)
from freshline.runs.scratch import make_scratch
from freshline.settings import Settings

POLL = 0.2  # seconds between two looks at `stop`
SEND_TIMEOUT = 10.0
GRACE = {"lease-lost": 0.0}  # the run belongs to somebody else: no time to be polite
DEFAULT_GRACE = 5.0  # for Spark to give its cores back; after that a new JVM is quicker
TIMEOUT = "timeout"
AT_ONCE = 64  # reads of one stream before the others get their turn

# Credentials of Freshline itself. What a job needs of them it has to name in `secrets`.
HIDDEN = frozenset({"PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE"})
KEPT = frozenset({"FRESHLINE_PROJECT", "FRESHLINE_WAREHOUSE", "FRESHLINE_LOG_LEVEL", "FRESHLINE_LOG_FORMAT"})

# The kernel's parent-death signal follows the thread that forked, so all runners are forked by one that stays.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="freshline-spawner")


@dataclass(frozen=True, slots=True)
class _Line:
    stream: str
    text: str


@dataclass(frozen=True, slots=True)
class _Said:
    message: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Ended:
    status: int


class RunnerProcess:
    """One runner. `start` returns at once; `close` and `kill` may be called twice and by any thread."""

    def __init__(self, project: Path | None, *, spark: bool, settings: Settings, code_hash: str | None) -> None:
        self._project = project or settings.project
        self._spark = spark
        self._settings = settings
        self._code_hash = code_hash
        self._inbox: queue.SimpleQueue[_Line | _Said | _Ended] = queue.SimpleQueue()
        self._ready = threading.Event()
        self._ended = threading.Event()
        self._killing = threading.Lock()
        self._failure: FreshlineError | None = None
        self._popen: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._steps = 0

    def start(self) -> None:
        """Start the child; a Spark runner warms its session up in the background."""
        if self._popen is not None:
            raise RuntimeError("a runner is started once")
        ours, theirs = socket.socketpair()
        ours.settimeout(SEND_TIMEOUT)
        scratch = make_scratch()
        try:
            self._popen = _SPAWNER.submit(self._spawn, theirs).result()
        except BaseException:
            ours.close()
            scratch.remove()
            raise
        finally:
            theirs.close()
        self._channel = Channel(ours)
        threading.Thread(target=self._read, args=(scratch.remove,), name="freshline-runner", daemon=True).start()
        with contextlib.suppress(OSError):  # a child that is dead already is noticed by the reader
            self._channel.send(self._hello(scratch.path))

    def _spawn(self, control: socket.socket) -> subprocess.Popen[bytes]:
        # -P: a file of the project named like a module of the standard library must not break the runner itself.
        command = [sys.executable, "-P", "-m", "freshline.runs.runner", str(control.fileno())]
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
            "parent": os.getpid(),
            "project": str(self._project),
            "spark": self._spark,
            "master": self._settings.spark_master,
            "remote": self._settings.spark_remote,
            "scratch": str(scratch),
        }

    @property
    def ready(self) -> bool:
        """It can execute a step without waiting for Spark."""
        return self._ready.is_set() and self.alive

    @property
    def alive(self) -> bool:
        """The child was started and has not ended."""
        return self._popen is not None and not self._ended.is_set()

    @property
    def failure(self) -> FreshlineError | None:
        """Why it could not get ready (Java absent, Spark not reachable), if so."""
        return self._failure

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
        stop: Callable[[], str | None],
    ) -> StepResult:
        """Execute one step and wait for it; callbacks are called by this thread.

        Raises JobFailedError, CheckError, EngineError, WarehouseError, StepTimeout, StepStopped or RunnerDied.
        """
        secrets = _secrets(request.secrets, os.environ)
        log = Log(on_log, secrets.values())
        self._wait_ready(log, stop)
        self._steps += 1
        try:
            self._send({"type": "step", "id": self._steps, "request": request.as_json(), "secrets": secrets})
            return self._follow(request, log, on_progress, stop)
        except FreshlineError as error:
            error.message = log.hide(error.message)
            error.args = (error.message,)
            raise

    def _wait_ready(self, log: Log, stop: Callable[[], str | None]) -> None:
        while not self._ready.is_set():
            if self._failure is not None:
                raise self._failure
            if not self.alive:
                raise RunnerDied(self._popen.returncode if self._popen else None, log.tail)
            if reason := stop():
                raise StepStopped(reason)
            self._ready.wait(POLL)
        with contextlib.suppress(queue.Empty):  # what was printed before belongs to no step
            while not isinstance(self._inbox.get_nowait(), _Ended):
                pass

    def _send(self, message: Mapping[str, Any]) -> None:
        if self._channel is None:
            raise RunnerDied(None)
        try:
            self._channel.send(message)
        except OSError:
            self.kill()
            raise RunnerDied(self._popen.returncode if self._popen else None) from None

    def _follow(
        self,
        request: StepRequest,
        log: Log,
        on_progress: Callable[[dict[str, Any]], None],
        stop: Callable[[], str | None],
    ) -> StepResult:
        deadline = None if request.timeout_ms is None else time.monotonic() + request.timeout_ms / 1000
        while True:
            event = self._next(POLL)
            if isinstance(event, _Ended):
                raise RunnerDied(event.status, log.tail)
            if isinstance(event, _Line):
                log.write(event.stream, event.text)
            if isinstance(event, _Said) and (result := self._answer(event.message, log, on_progress)):
                return result
            if reason := stop():
                self._interrupt(reason, log)
                raise StepStopped(reason)
            if deadline is not None and time.monotonic() > deadline:
                self._interrupt(TIMEOUT, log)
                raise StepTimeout(f"the step took longer than its timeoutMs of {request.timeout_ms} and was stopped")

    def _next(self, timeout: float) -> _Line | _Said | _Ended | None:
        try:
            return self._inbox.get(timeout=timeout)
        except queue.Empty:
            if self._ended.is_set() and self._inbox.empty() and self._popen:
                return _Ended(self._popen.returncode)
            return None

    def _answer(
        self, message: Mapping[str, Any], log: Log, on_progress: Callable[[dict[str, Any]], None]
    ) -> StepResult | None:
        match message["type"]:
            case "log":
                log.write("log", message["text"])
            case "progress":
                on_progress(message["progress"])
            case "done" if message["id"] == self._steps:
                return StepResult.from_json(message)
            case "error" if message["id"] == self._steps:
                raise error_from(message)
            case "stopped" if message["id"] == self._steps:
                raise JobFailedError("the job was interrupted by a signal that nobody of Freshline sent")
        return None

    def _interrupt(self, reason: str, log: Log) -> None:
        """Ask the step to end, and kill the group if it does not within its grace."""
        deadline = time.monotonic() + GRACE.get(reason, DEFAULT_GRACE)
        with contextlib.suppress(RunnerDied):
            self._send({"type": "cancel", "id": self._steps})
        while (left := deadline - time.monotonic()) > 0:
            event = self._next(min(left, POLL))
            if isinstance(event, _Ended):
                return
            if isinstance(event, _Line):
                log.write(event.stream, event.text)
            if isinstance(event, _Said) and event.message.get("id") == self._steps:
                return
        self.kill()

    def close(self, grace: float) -> None:
        """Let it finish by itself for `grace` seconds, then kill it."""
        if self._popen is None:
            return
        with contextlib.suppress(OSError):
            if self._channel and grace > 0 and self.alive:
                self._channel.send({"type": "exit"})
                self._ended.wait(grace)
        self.kill()

    def kill(self) -> None:
        """Kill the child's process group at once and wait until it is gone."""
        if self._popen is None:
            return
        self._kill_group()
        self._ended.wait(SEND_TIMEOUT)

    def _kill_group(self) -> None:
        with self._killing:  # after its end was noted the number may belong to somebody else
            if self._popen and not self._ended.is_set():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._popen.pid, signal.SIGKILL)

    def _read(self, cleanup: Callable[[], None]) -> None:
        """The reader's life: pass on what the child says and prints, then bury it."""
        popen, channel = self._popen, self._channel
        if popen is None or channel is None or popen.stdout is None or popen.stderr is None:
            raise AssertionError("the reader runs after the start")
        streams = {"stdout": _Stream(popen.stdout), "stderr": _Stream(popen.stderr)}
        with selectors.DefaultSelector() as selector:
            for name, stream in streams.items():
                selector.register(stream.file, selectors.EVENT_READ, partial(self._pass_lines, name, stream))
            selector.register(channel, selectors.EVENT_READ, partial(self._pass_messages, channel, streams))
            while popen.poll() is None and self._once(selector):
                pass
        self._kill_group()
        status = popen.wait()
        for name, stream in streams.items():
            self._pass_lines(name, stream)
            self._pass(name, stream.splitter.flush())
            stream.file.close()
        channel.close()
        cleanup()
        with self._killing:
            self._ended.set()
        self._inbox.put(_Ended(status))

    def _once(self, selector: selectors.BaseSelector) -> bool:
        for key, _ in selector.select(POLL):
            if not key.data():
                selector.unregister(key.fileobj)
                if isinstance(key.fileobj, Channel):
                    return False
        return True

    def _pass_lines(self, name: str, stream: _Stream) -> bool:
        data = stream.read()
        self._pass(name, stream.splitter.feed(data or b""))
        return data != b""

    def _pass(self, name: str, lines: Any) -> None:
        for line in lines:
            self._inbox.put(_Line(name, line))

    def _pass_messages(self, channel: Channel, streams: Mapping[str, _Stream]) -> bool:
        messages = channel.feed()
        for message in messages or ():
            if message["type"] in {"done", "error", "stopped"}:  # what was printed before comes before
                for name, stream in streams.items():
                    self._pass_lines(name, stream)
                    self._pass(name, stream.splitter.flush())
            self._take(message)
        return messages is not None

    def _take(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "ready":
            self._ready.set()
        elif message["type"] == "unable":
            error = error_from(message)
            self._failure = error if isinstance(error, EngineError) else EngineError(str(error))
        else:
            self._inbox.put(_Said(message))


class _Stream:
    """The read end of stdout or stderr, never blocking."""

    def __init__(self, file: IO[bytes]) -> None:
        os.set_blocking(file.fileno(), False)
        self.file = file
        self.splitter = Splitter()

    def read(self) -> bytes | None:
        """What is there; None if nothing is, b"" at the end."""
        parts = []
        try:
            while part := os.read(self.file.fileno(), 65_536):
                parts.append(part)
                if len(parts) >= AT_ONCE:  # an endless printer must not keep the reader from the control socket
                    break
        except BlockingIOError:
            return b"".join(parts) or None
        return b"".join(parts)


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The supervisor's environment without Freshline's own settings and credentials."""
    return {
        name: value
        for name, value in environ.items()
        if name in KEPT or not (name.startswith("FRESHLINE_") or name in HIDDEN)
    }


def _secrets(names: Any, environ: Mapping[str, str]) -> dict[str, str]:
    """The values of the declared secrets, taken from the worker's environment."""
    for name in names:
        if name.startswith("FRESHLINE_"):
            raise JobFailedError(f"secret {name!r} is Freshline's own; jobs may name any other variable of the worker")
        if name not in environ:
            raise JobFailedError(
                f"secret {name!r} is not set in the environment of the worker; set it and start the worker again"
            )
    return {name: environ[name] for name in names}
