"""The runner: the child process of a worker in which user code and Spark run. It has no access to the database.

Started by `worker.runner_process` as `python -m freshline.worker.runner FD`. It ends with its supervisor: by the
kernel's parent-death signal where there is one, and because the end of the control socket kills the whole group.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, cast

from freshline.definitions.code import Code, read_code
from freshline.definitions.loading.code_import import CodeHook
from freshline.definitions.schema.workflow import Step
from freshline.errors import EngineError, EngineLostError, FreshlineError
from freshline.masking import Secrets
from freshline.model.deliveries import Delivery
from freshline.model.run import PinnedInput
from freshline.process_environment import close_to_others
from freshline.watching.python import Returned
from freshline.worker.failures import user_error
from freshline.worker.look_executor import execute_look
from freshline.worker.progress_reporter import ProgressReporter
from freshline.worker.protocol import (
    Answer,
    CancelStep,
    Channel,
    DeliveriesAnswer,
    DeliveriesQuery,
    Hello,
    LookRequest,
    ProtocolError,
    Query,
    Ready,
    RunLook,
    RunStep,
    SnapshotAnswer,
    SnapshotQuery,
    StepEnded,
    StepRequest,
    StepResult,
    StoreQueries,
    ToRunner,
    Unable,
)
from freshline.worker.step_errors import OUT_OF_MEMORY, ErrorRecord, hide_in
from freshline.worker.step_executor import StepTask, execute

if TYPE_CHECKING:
    from freshline.spark.engine import Engine

PR_SET_PDEATHSIG = 1
SPARK_IS_GONE = 70  # exit code
CANCEL_S = 0.2  # between two attempts to cancel the Spark jobs of a step


class Interrupted(BaseException):
    """The supervisor has canceled the step."""


class Runner:
    """The main thread executes steps; a watcher thread reads the messages of the supervisor."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._inbox: queue.SimpleQueue[ToRunner] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._asking = threading.Lock()
        self._queries = 0
        self._engine: Engine | None = None
        self._copy = ("", "")
        self._step: int | None = None
        self._canceled: int | None = None
        self._interruptible = False
        self._usable = True
        self._over = threading.Event()
        self._canceler: threading.Thread | None = None

    def run(self) -> None:
        """Execute steps until the supervisor sends `Exit`, or until Spark can no longer be used."""
        signal.signal(signal.SIGUSR1, self._on_signal)
        threading.Thread(target=self._watch, name="watcher", daemon=True).start()
        hello = self._inbox.get()
        if not isinstance(hello, Hello):
            raise TypeError(f"the first message is {hello}; it must be Hello")
        try:
            code = self._enter(hello)
            if hello.spark:
                self._open_spark(hello, code)
        except FreshlineError as unable:
            self._channel.send(Unable(ErrorRecord.of(unable)))
            return
        spark = self._engine.application if self._engine else None
        if spark is not None and spark.jvm is not None:
            threading.Thread(target=self._guard, args=(spark.jvm,), name="guard", daemon=True).start()
        self._channel.send(Ready(class_archive=not (spark and spark.lacks_archive())))
        while self._usable and isinstance(message := self._inbox.get(), RunStep | RunLook):
            result, error = self._run_step(message)
            done, returned = (None, result) if isinstance(result, Returned) else (result, None)
            last = not self._usable
            self._channel.send(StepEnded(message.id, last=last, result=done, error=error, returned=returned))
        if spark is not None:
            spark.close()

    def _enter(self, hello: Hello) -> Code:
        """Import from the copy of the project's code, and from nothing else of the project."""
        project, copy = Path(hello.project), Path(hello.code)
        self._copy = (f"{copy}{os.sep}", f"{project}{os.sep}")
        os.chdir(project)
        code = read_code(copy)
        if code.hash != hello.code_hash:
            raise EngineError(f"the copy of the project's code in {copy} is damaged; a new one is written")
        use_copy(CodeHook(code, project, copy), str(copy))
        return code

    def _open_spark(self, hello: Hello, code: Code) -> None:
        # Imported here: a runner for `python` steps starts without PySpark.
        from freshline.spark.connect import Remote  # noqa: PLC0415
        from freshline.spark.engine import Engine  # noqa: PLC0415

        self._engine = Engine.open(
            master=hello.master,
            remote=Remote.of(hello.remote, hello.token) if hello.remote else None,
            scratch=Path(hello.scratch),
            own_conf=hello.own_conf,
            code=code,
        )

    def _run_step(self, message: RunStep | RunLook) -> tuple[StepResult | Returned | None, ErrorRecord | None]:
        """Execute one step or look; return its result or its error, or neither if it was canceled."""
        self._over.clear()
        self._step = message.id
        secrets = Secrets(message.secrets.values())
        try:
            if self._canceled == self._step:  # before it was started
                return None, None
            with _environment(message.secrets):
                return self._execute(message.request), None
        except Interrupted:
            return None, None
        except FreshlineError as error:
            return None, self._failed(error, secrets)
        except Exception as error:  # noqa: BLE001 - a defect of Freshline is reported like one of the job
            return None, self._failed(user_error(error), secrets)
        finally:
            self._settle()
            sys.stdout.flush()
            sys.stderr.flush()

    def _execute(self, request: StepRequest | LookRequest) -> StepResult | Returned:
        reporter = ProgressReporter(self._channel.send)
        try:
            if isinstance(request, LookRequest):
                return execute_look(request, reporter, self._interruption)
            step = Step.model_validate(request.step)
            queries = StoreQueries(self._find_version, self._find_deliveries)
            return execute(StepTask(request, step, self._engine, reporter, queries, self._interruption))
        finally:
            reporter.close()

    def _find_version(self, asset_id: str, partition_key: str, version: int) -> PinnedInput:
        answer = self._ask(lambda number: SnapshotQuery(self._step or 0, number, asset_id, version, partition_key))
        if isinstance(answer, SnapshotAnswer) and answer.pinned is not None:
            return answer.pinned
        raise _refused(answer, asset_id)

    def _find_deliveries(self, asset_id: str, first: int, last: int) -> list[Delivery]:
        answer = self._ask(lambda number: DeliveriesQuery(self._step or 0, number, asset_id, first, last))
        if isinstance(answer, DeliveriesAnswer) and answer.deliveries is not None:
            return answer.deliveries
        raise _refused(answer, asset_id)

    def _ask(self, query: Callable[[int], Query]) -> Answer:
        """Ask the supervisor, which has the database. `query` gets the number of the question."""
        with self._asking:
            self._queries += 1
            self._channel.send(query(self._queries))
            while (answer := self._answers.get()).number != self._queries:
                pass  # the answer to a query that was interrupted
        return answer

    def _failed(self, error: FreshlineError, secrets: Secrets) -> ErrorRecord | None:
        """Return the error to report; None if the step was canceled. Exit if Spark has ended."""
        hide_in(error, secrets.hide_cut)  # first: cutting a long text could leave half a secret
        hide_in(error, lambda text: text.replace(*self._copy))  # Spark's Python processes import from the copy
        if self._canceled == self._step:
            return None
        if isinstance(error, EngineError):  # the engine has examined the cause itself
            return ErrorRecord.of(error)
        spark = self._engine.application if self._engine else None
        match spark and spark.health():
            case "lost":
                return ErrorRecord.of(EngineLostError(f"Spark got lost in the middle of the step: {error}"))
            case "gone":
                sys.stderr.write(f"Spark ended in the middle of the step: {error}\n")
                sys.stderr.flush()
                os._exit(OUT_OF_MEMORY if spark and spark.out_of_memory() else SPARK_IS_GONE)
            case "stopped":
                error.hint = "the job has stopped the Spark session, which is not its own; do not call spark.stop()"
        return ErrorRecord.of(error)

    def _settle(self) -> None:
        """Wait until the cores of a canceled step are free, and check whether Spark can execute another step."""
        self._over.set()
        if self._canceler is not None:
            self._canceler.join()  # it would also cancel the probe
            self._canceler = None
        if self._canceled == self._step and self._engine is not None:
            self._engine.application.settle()
        self._step = None
        # User code may have stopped Spark; the supervisor then starts another runner.
        self._usable = self._engine is None or self._engine.application.health() == "good"

    def _watch(self) -> None:
        """Read until the supervisor is gone, or sends something that is not a message; then end the whole group."""
        try:
            self._read()
        except ProtocolError as error:
            sys.stderr.write(f"the supervisor's control socket cannot be read: {error}\n")
            sys.stderr.flush()
        finally:
            _die()

    def _read(self) -> None:
        while (messages := self._channel.feed()) is not None:
            for message in messages:
                match message:
                    case CancelStep(step):
                        self._cancel(step)
                    case SnapshotAnswer() | DeliveriesAnswer():
                        self._answers.put(message)
                    case _:
                        self._inbox.put(cast("ToRunner", message))

    def _guard(self, jvm: subprocess.Popen[bytes]) -> None:
        """Exit when the JVM dies between two steps, so that the next step gets a new runner."""
        jvm.wait()
        if self._step is None:
            _die()

    def _cancel(self, step: int) -> None:
        self._canceled = step
        if self._engine is not None:
            # A signal would interrupt a call to the JVM in the main thread; canceled Spark jobs return by themselves.
            self._canceler = threading.Thread(target=self._keep_canceling, args=(step,), daemon=True)
            self._canceler.start()
        else:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def _keep_canceling(self, step: int) -> None:
        """Cancel again and again: user code may start another Spark job."""
        while self._engine is not None and self._step == step and not self._over.is_set():
            with contextlib.suppress(Exception):  # a Spark that does not answer is replaced together with this process
                self._engine.cancel()
            self._over.wait(CANCEL_S)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._interruptible and self._canceled == self._step:
            self._interruptible = False
            raise Interrupted

    @contextlib.contextmanager
    def _interruption(self) -> Iterator[None]:
        """Allow the signal to raise `Interrupted` in the body, which is user code."""
        self._interruptible = self._engine is None
        try:
            if self._canceled == self._step:
                raise Interrupted
            yield
        finally:
            self._interruptible = False


def _refused(answer: Answer, asset_id: str) -> FreshlineError:
    return answer.error.to_error() if answer.error else EngineError(f"no answer about asset {asset_id!r}")


def use_copy(hook: CodeHook, copy: str) -> None:
    """Put the copy in place of the project on the import path, also for the Python processes that jobs and Spark start.

    Only this process imports from memory. The others import from the copy, without bytecode in it.
    """
    sys.path[:] = [copy, *(hook.copy_of(entry) for entry in sys.path)]
    hook.install()
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([copy, *([inherited] if inherited else [])])


@contextlib.contextmanager
def _environment(secrets: Mapping[str, str]) -> Iterator[None]:
    """Set the step's secrets in the environment while it runs."""
    if secrets:
        close_to_others()  # another runner of this user must not read them in this memory
    before = {name: os.environ.get(name) for name in secrets}
    os.environ.update(secrets)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _die() -> NoReturn:
    """Kill the whole process group: user code, the processes it forked, and Spark's JVM."""
    os.killpg(0, signal.SIGKILL)
    os._exit(1)


def main() -> None:
    """Run the child process."""
    _die_with_parent()
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # they are real files here
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    Runner(Channel(control)).run()
    sys.stdout.flush()
    sys.stderr.flush()
    _die()


if __name__ == "__main__":
    main()
