"""The supervisor's handle on one runner: a child process that executes one step after another.

The runner is the leader of its own session and process group; Spark's JVM and processes that user code forks are
members. Every way in which a runner can end becomes one exception of `run_step`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from freshline.credentials import own_credentials
from freshline.errors import FreshlineError, NotFoundError
from freshline.masking import Secrets
from freshline.settings import Settings
from freshline.watching.python import Returned
from freshline.worker.code_copies import CodeCopy, CopyInUse, import_from
from freshline.worker.listener import Exited, Line, Listener, Received
from freshline.worker.log_capture import TAIL, StepLog
from freshline.worker.protocol import (
    Answer,
    CancelStep,
    Channel,
    DeliveriesAnswer,
    DeliveriesQuery,
    Exit,
    Hello,
    LogLine,
    LookRequest,
    Message,
    Progress,
    ProgressValues,
    Query,
    RunLook,
    RunStep,
    SnapshotAnswer,
    SnapshotQuery,
    StepEnded,
    StepRequest,
    StepResult,
    StoreQueries,
    ToRunner,
)
from freshline.worker.runner_environment import JobEnvironment, declared_secrets, make_scratch
from freshline.worker.step_errors import ErrorRecord, RunnerDied, StepStopped, StepTimeout, hide_in

POLL_S = 0.2  # between two calls of `stop`
SEND_TIMEOUT_S = 10.0
GRACE_S = {"lease-lost": 0.0}  # another worker may own the run by now
DEFAULT_GRACE_S = 5.0  # for Spark to free its cores; after that a new JVM is faster
TIMEOUT = "timeout"

# The kernel's parent-death signal follows the thread that forked, so one permanent thread forks all runners.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="freshline-spawner")


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What the supervisor does for a running step."""

    log: StepLog
    on_progress: Callable[[ProgressValues], None]
    queries: StoreQueries
    stop: Callable[[], str | None]


class RunnerProcess:
    """One runner. `start` returns at once; `close` and `kill` may be called twice and by any thread."""

    def __init__(
        self,
        project: Path | None,
        *,
        spark: bool,
        settings: Settings,
        code: CodeCopy,
        own_conf: Mapping[str, str] | None = None,
        environment: JobEnvironment | None = None,
    ) -> None:
        """Describe a runner. `code`: what it imports. `own_conf`: settings of the one run that its Spark is for."""
        self._project = project or settings.project
        self._own_conf = None if own_conf is None else dict(own_conf)
        self._spark = spark
        self._settings = settings
        self._code = code
        self._environment = (environment or JobEnvironment()).of(os.environ)
        self._given: set[str] = set()  # names of the secrets that its steps have had
        self._popen: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._listener: Listener | None = None
        self._steps = 0

    def start(self) -> None:
        """Start the child; a Spark runner warms its session up in the background."""
        if self._popen is not None:
            raise RuntimeError("a runner is started once")
        kept = contextlib.ExitStack()  # what it uses until it has exited
        copy = self._code.use()
        kept.callback(copy.release)
        scratch = make_scratch()
        kept.callback(scratch.remove)
        ours, theirs = socket.socketpair()
        ours.settimeout(SEND_TIMEOUT_S)
        try:
            self._popen = _SPAWNER.submit(self._spawn, theirs, copy).result()
        except BaseException:
            ours.close()
            kept.close()
            raise
        finally:
            theirs.close()
        self._channel = Channel(ours)
        self._listener = Listener(self._popen, self._channel, kept.close)
        with contextlib.suppress(OSError):  # the listener notices a child that has already exited
            self._channel.send(self._hello(scratch.path, copy))

    def _spawn(self, control: socket.socket, copy: CopyInUse) -> subprocess.Popen[bytes]:
        # -P: a file of the project named like a module of the standard library must not break the runner itself.
        command = [sys.executable, "-P", "-m", "freshline.worker.runner", str(control.fileno())]
        return subprocess.Popen(
            command,
            cwd=self._project,
            env=import_from(copy.path, self._project, self._environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[control.fileno()],
            start_new_session=True,
        )

    def _hello(self, scratch: Path, copy: CopyInUse) -> Hello:
        settings = self._settings
        return Hello(
            project=str(self._project),
            code=str(copy.path),
            code_hash=copy.hash,
            scratch=str(scratch),
            spark=self._spark,
            master=settings.spark_master,
            remote=settings.spark_remote if self._spark else None,  # it may contain a token
            token=settings.spark_token if self._spark and settings.spark_remote else None,
            own_conf=self._own_conf,
        )

    @property
    def ready(self) -> bool:
        """Whether it can execute a step without waiting for Spark."""
        return self._listener is not None and self._listener.ready.is_set() and self.alive

    @property
    def alive(self) -> bool:
        """Whether it was started and can execute another step: it has not exited and is not about to."""
        return self._listener is not None and not self._listener.leaving.is_set()

    @property
    def failure(self) -> FreshlineError | None:
        """Why it could not become ready (Java absent, Spark not reachable), if so."""
        return self._listener.failure if self._listener else None

    @property
    def lacks_archive(self) -> bool:
        """Whether its JVM started without the class archive (`freshline.spark.jvm_cds`)."""
        return self._listener is not None and self._listener.lacks_archive

    @property
    def code_hash(self) -> str:
        """The hash of the project's code that it imports (docs/semantics.md#R10.3)."""
        return self._code.hash

    def fits(self, environment: JobEnvironment, secrets: Iterable[str] | None) -> bool:
        """Return whether a step that declares `secrets` may use it: it has no variable that the step must not see.

        What an earlier step was given may still be in its memory. None: no step is about to run.
        """
        mine = set() if secrets is None else self._given.difference(secrets)
        return not mine and environment.secrets.isdisjoint(self._environment)

    @property
    def pid(self) -> int | None:
        """The process id of the child, which is also that of its group."""
        return self._popen.pid if self._popen else None

    def run_step(
        self,
        request: StepRequest,
        *,
        on_log: Callable[[str, str], None],
        on_progress: Callable[[ProgressValues], None],
        queries: StoreQueries,
        stop: Callable[[], str | None],
    ) -> StepResult:
        """Execute one step and wait for it; callbacks are called by this thread.

        Raise JobFailedError, CheckError, EngineError, WarehouseError, StepTimeout, StepStopped or RunnerDied.
        """
        ended = self._perform(request, on_log, partial(Callbacks, on_progress=on_progress, queries=queries, stop=stop))
        assert ended.result is not None  # noqa: S101 - of a step
        return ended.result

    def run_look(
        self, request: LookRequest, *, on_log: Callable[[str, str], None], stop: Callable[[], str | None]
    ) -> Returned:
        """Call a function that looks at a source. Raise as `run_step` does."""
        callbacks = partial(Callbacks, on_progress=_ignore, queries=NO_QUERIES, stop=stop)
        ended = self._perform(request, on_log, callbacks)
        assert ended.returned is not None  # noqa: S101 - of a look
        return ended.returned

    def _perform(
        self,
        request: StepRequest | LookRequest,
        on_log: Callable[[str, str], None],
        calling: Callable[[StepLog], Callbacks],
    ) -> StepEnded:
        secrets = declared_secrets(request.secrets, os.environ)
        log = StepLog(on_log, Secrets([*secrets.values(), *own_credentials(os.environ, self._settings)]))
        callbacks = calling(log)
        try:
            listener = self._wait_ready(callbacks.stop)
            listener.secrets = log.secrets
            self._steps += 1
            self._given.update(secrets)
            if isinstance(request, LookRequest):
                self._send(RunLook(self._steps, request, secrets))
            else:
                self._send(RunStep(self._steps, request, secrets))
            return self._follow(listener, request.timeout_ms, callbacks)
        except FreshlineError as error:
            hide_in(error, log.secrets.hide_cut)
            raise

    def _wait_ready(self, stop: Callable[[], str | None]) -> Listener:
        listener = self._listener
        if listener is None:
            raise RunnerDied(None)
        while not (listener.ready.is_set() and self.alive):
            exited = not self.alive  # read first: a failure is reported before the exit
            if listener.failure is not None:
                raise listener.failure
            if exited:
                raise RunnerDied(listener.status, "\n".join(listener.drain()[-TAIL:]), listener.fault)
            if reason := stop():
                raise StepStopped(reason)
            listener.ready.wait(POLL_S)
        listener.drain()  # earlier output belongs to no step
        return listener

    def _send(self, message: ToRunner) -> None:
        try:
            if self._channel:
                self._channel.send(message)
        except OSError:
            self.kill()  # whoever waits for an answer learns of the exit

    def _follow(self, listener: Listener, timeout_ms: int | None, callbacks: Callbacks) -> StepEnded:
        log = callbacks.log
        deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        while True:
            match listener.next(POLL_S):
                case Exited(status, fault):
                    raise RunnerDied(status, log.tail, fault)
                case Line(stream, text):
                    log.write(stream, text)
                case Received(message):
                    if ended := self._handle(message, callbacks):
                        return ended
            if reason := callbacks.stop():
                self._interrupt(listener, reason, log)
                raise StepStopped(reason)
            if deadline is not None and time.monotonic() > deadline:
                self._interrupt(listener, TIMEOUT, log)
                raise StepTimeout(f"the step took longer than its timeoutMs of {timeout_ms} and was stopped")

    def _handle(self, message: Message, callbacks: Callbacks) -> StepEnded | None:
        """Handle one message; return it if it ends the step with a result, or raise its error."""
        match message:
            case LogLine(text):
                callbacks.log.write("log", text)
            case Progress(values):
                callbacks.on_progress(values)
            case SnapshotQuery(id=self._steps) | DeliveriesQuery(id=self._steps):
                self._send(_answer(message, callbacks.queries))
            case StepEnded(id=self._steps, error=ErrorRecord() as record):
                raise record.to_error()
            case StepEnded(id=self._steps) if message.result is not None or message.returned is not None:
                return message
        return None

    def _interrupt(self, listener: Listener, reason: str, log: StepLog) -> None:
        """Ask the step to stop, and kill the group if it does not within its grace."""
        deadline = time.monotonic() + GRACE_S.get(reason, DEFAULT_GRACE_S)
        self._send(CancelStep(self._steps))
        while (left := deadline - time.monotonic()) > 0:
            match listener.next(min(left, POLL_S)):
                case Line(stream, text):
                    log.write(stream, text)
                case Received((SnapshotQuery(id=self._steps) | DeliveriesQuery(id=self._steps)) as query):
                    # Spark steps are not interrupted by a signal: without an answer the step would wait for ever.
                    self._send(_refusal(query, StepStopped(reason)))
                case Received(StepEnded(id=self._steps)):
                    return
                case Exited():
                    return
        self.kill()

    def close(self, grace: float) -> None:
        """Let it exit by itself for `grace` seconds, then kill it."""
        if self._listener and grace > 0 and not self._listener.ended.is_set():
            self._send(Exit())
            self._listener.ended.wait(grace)
        self.kill()

    def kill(self) -> None:
        """Kill the child's process group at once and wait until it is gone."""
        if self._listener:
            self._listener.kill()
            self._listener.ended.wait(SEND_TIMEOUT_S)


def _ignore(_: ProgressValues) -> None:
    """Drop the progress of a look, which takes seconds."""


def _not_there(asset_id: str, *_: object) -> NoReturn:
    raise NotFoundError(f"a look cannot read asset {asset_id!r}")


NO_QUERIES = StoreQueries(_not_there, _not_there)


def _answer(query: Query, queries: StoreQueries) -> Answer:
    try:
        if isinstance(query, SnapshotQuery):
            return SnapshotAnswer(query.number, pinned=queries.version(query.asset, query.partition_key, query.version))
        found = queries.deliveries(query.asset, query.first, query.last)
        return DeliveriesAnswer(query.number, deliveries=list(found))
    except NotFoundError as error:
        return _refusal(query, error)


def _refusal(query: Query, error: FreshlineError) -> Answer:
    kind = SnapshotAnswer if isinstance(query, SnapshotQuery) else DeliveriesAnswer
    return kind(query.number, error=ErrorRecord.of(error))
