"""The runner: the child process of a worker in which user code and Spark live. It knows no database.

Started by `freshline.worker.process` as `python -m freshline.worker.runner FD`. It dies with its supervisor: by the
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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from freshline.definitions.loading.modules import ProjectFinder
from freshline.definitions.schema.workflow import Step
from freshline.errors import EngineError, EngineLostError, FreshlineError
from freshline.model.run import PinnedInput
from freshline.worker.failures import user_error
from freshline.worker.log_capture import Secrets
from freshline.worker.progress_reporter import Voice
from freshline.worker.protocol import OUT_OF_MEMORY, Channel, StepRequest, error_from, error_message, hide_in
from freshline.worker.step_executor import Work, execute

if TYPE_CHECKING:
    from freshline.spark.engine import Engine

PR_SET_PDEATHSIG = 1
SPARK_IS_GONE = 70  # the exit code
CANCEL_S = 0.2  # between two attempts to cancel what a step computes


class Interrupted(BaseException):
    """The supervisor wants the step to end."""


class Runner:
    """The main thread executes steps; a watcher thread listens to the supervisor all the time."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._inbox: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self._engine: Engine | None = None
        self._step: int | None = None
        self._canceled: int | None = None
        self._interruptible = False
        self._usable = True
        self._over = threading.Event()
        self._canceler: threading.Thread | None = None

    def run(self) -> None:
        """Live until the supervisor says `exit`."""
        signal.signal(signal.SIGUSR1, self._on_signal)
        threading.Thread(target=self._watch, name="watcher", daemon=True).start()
        hello = self._inbox.get()
        _enter(Path(hello["project"]))
        if hello["spark"] and not self._warm_up(hello):
            return
        if self._engine is not None and self._engine.jvm is not None:
            threading.Thread(target=self._guard, args=(self._engine.jvm,), name="guard", daemon=True).start()
        self._channel.send({"type": "ready", "archive": not (self._engine and self._engine.lacks_archive())})
        while self._usable and (message := self._inbox.get())["type"] == "step":
            answer = self._answer(message)
            self._channel.send({"id": message["id"], "last": not self._usable, **answer})
        if self._engine is not None:
            self._engine.close()

    def _warm_up(self, hello: Mapping[str, Any]) -> bool:
        # Imported here: a runner without Spark must never load it.
        from freshline.spark.connect import Remote  # noqa: PLC0415
        from freshline.spark.engine import Engine  # noqa: PLC0415

        try:
            self._engine = Engine.open(
                master=hello["master"],
                remote=Remote.of(hello["remote"], hello["token"]) if hello["remote"] else None,
                scratch=Path(hello["scratch"]),
                own=hello["own"],
                project=Path(hello["project"]),
            )
        except FreshlineError as error:
            self._channel.send({**error_message(error), "type": "unable"})
            return False
        return True

    def _answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        self._over.clear()
        self._step = message["id"]
        secrets = Secrets(message["secrets"].values())
        try:
            if self._canceled == self._step:  # while it lay in the inbox
                return {"type": "stopped"}
            with _environment(message["secrets"]):
                return self._execute(StepRequest.from_json(message["request"]))
        except Interrupted:
            return {"type": "stopped"}
        except FreshlineError as error:
            return self._failed(error, secrets)
        except Exception as error:  # noqa: BLE001 - a defect of ours is told like one of the user's
            return self._failed(user_error(error), secrets)
        finally:
            self._settle()
            sys.stdout.flush()
            sys.stderr.flush()

    def _execute(self, request: StepRequest) -> dict[str, Any]:
        step = Step.model_validate(request.step)
        voice = Voice(self._channel.send)
        try:
            result = execute(Work(request, step, self._engine, voice, self._ask, self._interruption))
        finally:
            voice.hush()
        return {"type": "done", **result.as_json()}

    def _ask(self, asset_id: str, version: int) -> PinnedInput:
        """Another version of an input, from the supervisor, who knows the database."""
        self._channel.send({"type": "ask", "id": self._step, "asset": asset_id, "version": version})
        answer = self._answers.get()
        if "error" in answer:
            raise error_from(answer["error"])
        return PinnedInput(**answer["pinned"])

    def _failed(self, error: FreshlineError, secrets: Secrets) -> dict[str, Any]:
        hide_in(error, secrets.hide_cut)  # before more of a long text is cut, perhaps within one
        if self._canceled == self._step:
            return {"type": "stopped"}
        if isinstance(error, EngineError):  # the engine has seen for itself what happened
            return error_message(error)
        match self._engine and self._engine.health():
            case "lost":
                return error_message(EngineLostError(f"Spark got lost in the middle of the step: {error}"))
            case "gone":
                sys.stderr.write(f"Spark ended in the middle of the step: {error}\n")
                sys.stderr.flush()
                os._exit(OUT_OF_MEMORY if self._engine and self._engine.out_of_memory() else SPARK_IS_GONE)
            case "stopped":
                error.hint = "the job has stopped the Spark session, which is not its own; do not call spark.stop()"
        return error_message(error)

    def _settle(self) -> None:
        """After an interruption: the slot is free only when Spark's cores are."""
        self._over.set()
        if self._canceler is not None:
            self._canceler.join()  # it would cancel the probe too
            self._canceler = None
        if self._canceled == self._step and self._engine is not None:
            self._engine.settle()
        self._step = None
        # User code may have stopped Spark; the supervisor then starts another runner.
        self._usable = self._engine is None or self._engine.health() == "good"

    def _watch(self) -> None:
        while (messages := self._channel.feed()) is not None:
            for message in messages:
                if message["type"] == "cancel":
                    self._cancel(message["id"])
                elif message["type"] == "answer":
                    self._answers.put(message)
                else:
                    self._inbox.put(message)
        _die()

    def _guard(self, jvm: subprocess.Popen[bytes]) -> None:
        """A JVM that dies between two steps takes its runner along: the next step would be the one to pay for it."""
        jvm.wait()
        if self._step is None:
            _die()

    def _cancel(self, step: int) -> None:
        self._canceled = step
        if self._engine is not None:
            # A signal would tear the main thread out of a call to the JVM; canceled jobs return by themselves.
            self._canceler = threading.Thread(target=self._keep_canceling, args=(step,), daemon=True)
            self._canceler.start()
        else:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def _keep_canceling(self, step: int) -> None:
        """User code may go on to its next Spark job, which has to end too."""
        while self._engine is not None and self._step == step and not self._over.is_set():
            with contextlib.suppress(Exception):  # a Spark that does not answer is replaced with this process
                self._engine.cancel()
            self._over.wait(CANCEL_S)

    def _on_signal(self, _number: int, _frame: Any) -> None:
        if self._interruptible and self._canceled == self._step:
            self._interruptible = False
            raise Interrupted

    @contextlib.contextmanager
    def _interruption(self) -> Iterator[None]:
        """User code runs inside; only there may a signal raise."""
        self._interruptible = self._engine is None
        try:
            if self._canceled == self._step:
                raise Interrupted
            yield
        finally:
            self._interruptible = False


def _enter(project: Path) -> None:
    """The project's root comes first on the import path, also of the Python processes that Spark starts."""
    os.chdir(project)
    sys.path.insert(0, str(project))
    # Cached bytecode is compared by whole seconds, which an edit can beat: the project is always compiled anew.
    sys.meta_path.insert(0, ProjectFinder(project))
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(project), *([inherited] if inherited else [])])


@contextlib.contextmanager
def _environment(secrets: Mapping[str, str]) -> Iterator[None]:
    """The step's secrets are in the environment while it runs, and gone afterwards."""
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
    """Take the whole process group along: user code, what it forked, and Spark's JVM."""
    os.killpg(0, signal.SIGKILL)
    os._exit(1)


def main() -> None:
    """The child's whole life."""
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
