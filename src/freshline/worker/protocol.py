"""What a supervisor and its runner say to each other: JSON lines on a socket of their own, plain data only.

To the runner: `hello`, `step`, `cancel`, `answer`, `exit`. From it: `ready`, `log`, `progress`, `ask`, `done`, `error`,
`stopped`.
"""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from freshline.errors import CheckError, EngineError, EngineLostError, FreshlineError, JobError, Place, WarehouseError
from freshline.model.run import PinnedInput, StagedOutput

MAX_MESSAGE = 16 * 1024 * 1024
MAX_TEXT = 16_000  # of a message or a traceback
OUT_OF_MEMORY = 71  # the exit code of a runner whose Spark had not enough
MORE_MEMORY = (
    "give it more with `spark: {size: large, conf: {spark.driver.memory: 8g}}` in the workflow, or let the step hold "
    "less at once"
)


@dataclass(frozen=True, slots=True)
class StepRequest:
    """One try of one step. `inputs`: what it reads; `outputs`: per produced asset {"staging": absolute directory}.

    `conf`: the workflow's settings of Spark; `session`: the id of the step's session on a Connect server; `orphans`:
    such sessions of lost tries.
    """

    run_id: str
    attempt: int
    try_: int
    slug: str
    partition_key: str
    step: Mapping[str, Any]
    parameters: Mapping[str, Any]
    inputs: Mapping[str, PinnedInput]
    outputs: Mapping[str, Mapping[str, Any]]
    warehouse: str
    timeout_ms: int | None = None
    secrets: tuple[str, ...] | list[str] = ()
    full_refresh: bool = True
    conf: Mapping[str, str] = field(default_factory=dict)
    session: str | None = None
    orphans: tuple[str, ...] | list[str] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain data for the socket."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StepRequest:
        """The inverse of `as_json`."""
        inputs = {asset: PinnedInput(**pinned) for asset, pinned in data["inputs"].items()}
        return cls(**{**data, "inputs": inputs})


@dataclass(frozen=True, slots=True)
class StepResult:
    """A finished step: what it staged, and numbers about it."""

    outputs: tuple[StagedOutput, ...]
    metrics: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Plain data for the socket."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StepResult:
        """The inverse of `as_json`."""
        return cls(tuple(StagedOutput(**output) for output in data["outputs"]), data["metrics"])


class JobFailedError(JobError):
    """The user's code failed. `traceback` begins at the user's first line; empty where it would not help."""

    def __init__(
        self, message: str, *, place: Place | None = None, hint: str | None = None, traceback: str = ""
    ) -> None:
        super().__init__(message, place=place, hint=hint)
        self.traceback = traceback


class StepTimeout(JobFailedError):
    """The step took longer than its `timeoutMs`."""

    code = "timeout"


class StepStopped(FreshlineError):
    """The supervisor stopped the step. `reason`: canceled, lease-lost or shutdown."""

    code = "stopped"

    def __init__(self, reason: str) -> None:
        super().__init__(f"the step was stopped: {reason}")
        self.reason = reason


class RunnerDied(FreshlineError):
    """The runner ended in the middle of a step. `status`: its exit code, or minus the signal's number."""

    code = "runner-died"

    def __init__(self, status: int | None, tail: str = "") -> None:
        how = "is not running" if status is None else _ending(status)
        hint = MORE_MEMORY if status == OUT_OF_MEMORY else None
        last = f"; its last words:\n{tail}" if tail and not hint else ""  # of a lost JVM they tell nothing
        super().__init__(f"the process that ran the job {how}{last}", hint=hint)
        self.status = status
        self.tail = tail


def _ending(status: int) -> str:
    if status == OUT_OF_MEMORY:
        return "was ended, as Spark ran out of memory"
    if status >= 0:
        return f"ended itself with exit code {status}"
    why = ", as the system does when memory runs out" if -status == signal.SIGKILL else ""
    return f"was killed by signal {-status}{why}"


_ERRORS: dict[str, type[FreshlineError]] = {kind.code: kind for kind in (EngineError, EngineLostError, WarehouseError)}


def error_message(error: FreshlineError) -> dict[str, Any]:
    """An error as plain data; what PostgreSQL cannot store in a text is replaced."""
    return {
        "type": "error",
        "code": error.code,
        "message": storable(error.message),
        "hint": None if error.hint is None else storable(error.hint),
        "place": asdict(error.place) if error.place else None,
        "traceback": storable(getattr(error, "traceback", "")),
        **({"checks": error.checks, "staged": error.staged} if isinstance(error, CheckError) else {}),
    }


def error_from(message: Mapping[str, Any]) -> FreshlineError:
    """The error that an `error` message stands for."""
    place = Place(**message["place"]) if message.get("place") else None
    text, hint = message["message"], message.get("hint")
    if message["code"] == CheckError.code:
        return CheckError(text, place=place, hint=hint, checks=message["checks"], staged=message["staged"])
    if kind := _ERRORS.get(message["code"]):
        return kind(text, place=place, hint=hint)
    return JobFailedError(text, place=place, hint=hint, traceback=message.get("traceback") or "")


def hide_in(error: FreshlineError, hide: Callable[[str], str]) -> None:
    """An error must not tell a secret either."""
    error.message = hide(error.message)
    error.args = (error.message,)
    if isinstance(error, JobFailedError):
        error.traceback = hide(error.traceback)


def storable(text: str) -> str:
    """`text` without NUL and lone surrogates, which the database refuses, and cut in the middle if endless."""
    clean = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    if len(clean) <= MAX_TEXT:
        return clean
    half = MAX_TEXT // 2
    return f"{clean[:half]}\n... {len(clean) - MAX_TEXT} characters left out ...\n{clean[-half:]}"


class Channel:
    """One end of the socket. `send` may be called by any thread; `feed` belongs to one reader."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._sending = threading.Lock()
        self._rest = bytearray()

    def fileno(self) -> int:
        """For selectors."""
        return self._end.fileno()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message. OSError: the other end is gone."""
        data = json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        if len(data) > MAX_MESSAGE:
            raise JobFailedError(
                f"a message of {len(data)} bytes is too large; at most {MAX_MESSAGE} bytes may be passed"
            )
        with self._sending:
            self._end.sendall(data)

    def feed(self) -> Iterator[dict[str, Any]] | None:
        """The messages that one read completes; None at the end of the stream."""
        try:
            data = self._end.recv(65_536)
        except OSError:
            return None
        if not data or len(self._rest) + len(data) > MAX_MESSAGE:
            return None
        self._rest += data
        return self._complete()

    def _complete(self) -> Iterator[dict[str, Any]]:
        while (end := self._rest.find(b"\n")) >= 0:
            line = bytes(self._rest[:end])
            del self._rest[: end + 1]
            yield json.loads(line)

    def close(self) -> None:
        """Hang up; may be called twice."""
        self._end.close()
