"""The messages between a supervisor and its runner: JSON lines on a private socket, plain data only."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from freshline.model.deliveries import Delivery
from freshline.model.run import OutputTarget, PinnedInput, StagedOutput
from freshline.watching.look import Mode
from freshline.watching.python import Returned
from freshline.worker.step_errors import ErrorRecord, JobFailedError

MAX_MESSAGE = 16 * 1024 * 1024


class ProtocolError(Exception):
    """The other end sent something that is not a message. Nothing after it can be trusted."""


@dataclass(frozen=True, slots=True)
class StepRequest:
    """One try of one step. `inputs`: what it reads; `outputs`: where each produced asset is staged.

    `window`: the time of the run's partition, from the first instant and before the second, in UTC as ISO 8601.
    `batch`: the partitions of a run that computes several; then `partition_key` is empty. `gaps`: they do not follow
    each other, so that they have no window.
    `empty`: consumed assets with partitions of which none has data that can be read, so that not even their columns are
    known. The step's own outputs are not among them.
    `conf`: the workflow's Spark settings; `session`: the id of the step's session on a Connect server; `orphans`:
    sessions of lost tries, which the runner closes first.
    """

    run_id: str
    attempt: int
    try_: int
    slug: str
    partition_key: str
    step: Mapping[str, Any]
    parameters: Mapping[str, Any]
    inputs: Mapping[str, PinnedInput]
    outputs: Mapping[str, OutputTarget]
    warehouse: str
    timeout_ms: int | None = None
    secrets: tuple[str, ...] | list[str] = ()
    full_refresh: bool = True
    conf: Mapping[str, str] = field(default_factory=dict)
    session: str | None = None
    orphans: tuple[str, ...] | list[str] = ()
    window: tuple[str, str] | None = None
    batch: tuple[str, ...] | list[str] = ()
    gaps: bool = False
    empty: tuple[str, ...] | list[str] = ()


@dataclass(frozen=True, slots=True)
class LookRequest:
    """One call of a function that looks at a source. `position`: what it returned as its position last time."""

    asset_id: str
    mode: Mode
    entrypoint: str
    position: Any = None
    timeout_ms: int | None = None
    secrets: tuple[str, ...] | list[str] = ()


@dataclass(frozen=True, slots=True)
class StepResult:
    """A finished step: its staged outputs and its metrics."""

    outputs: tuple[StagedOutput, ...]
    metrics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoreQueries:
    """What a running step may ask its supervisor, which has the database.

    `version`: another version of a partition of an input. `deliveries`: those of an append source from one number to
    another; of a long range only the first.
    """

    version: Callable[[str, str, int], PinnedInput]
    deliveries: Callable[[str, int, int], Sequence[Delivery]]


# To the runner.


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message: which project to run, and how to start Spark.

    `code`: the copy of the project's code to import from, and `code_hash`: its hash.
    `own_conf`: settings of the one large run that this runner's Spark is for.
    """

    project: str
    code: str
    code_hash: str
    scratch: str
    spark: bool
    master: str | None
    remote: str | None
    token: str | None
    own_conf: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class RunStep:
    """Execute a step with these secrets in its environment."""

    id: int
    request: StepRequest
    secrets: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RunLook:
    """Call a function that looks at a source, with these secrets in its environment. It counts as a step."""

    id: int
    request: LookRequest
    secrets: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CancelStep:
    """Stop the step with this id."""

    id: int


@dataclass(frozen=True, slots=True)
class SnapshotAnswer:
    """The answer to the `SnapshotQuery` with this number: the snapshot, or why there is none."""

    number: int
    pinned: PinnedInput | None = None
    error: ErrorRecord | None = None


@dataclass(frozen=True, slots=True)
class DeliveriesAnswer:
    """The answer to the `DeliveriesQuery` with this number: the first of them, or why there are none."""

    number: int
    deliveries: list[Delivery] | None = None
    error: ErrorRecord | None = None


@dataclass(frozen=True, slots=True)
class Exit:
    """Exit after the current step."""


# From the runner.


@dataclass(frozen=True, slots=True)
class Ready:
    """The runner can execute steps. `class_archive`: its JVM started with one, or there is no JVM."""

    class_archive: bool


@dataclass(frozen=True, slots=True)
class Unable:
    """Spark cannot be started or reached; the runner exits."""

    error: ErrorRecord


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that the job passed to its logger."""

    text: str


ProgressValues = Mapping[str, Mapping[str, int | float | None]]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the step is. `values`: numbers of the job itself under `job`, of Spark under `spark`."""

    values: ProgressValues


@dataclass(frozen=True, slots=True)
class SnapshotQuery:
    """The step reads another version of an input."""

    id: int
    number: int
    asset: str
    version: int
    partition_key: str = ""


@dataclass(frozen=True, slots=True)
class DeliveriesQuery:
    """The step reads the deliveries of an append source from number `first` to number `last`."""

    id: int
    number: int
    asset: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class StepEnded:
    """The step has ended: with a result, with an error, or with neither if it was stopped.

    `returned`: the result of a look. `last`: the runner cannot execute another step.
    """

    id: int
    last: bool
    result: StepResult | None = None
    error: ErrorRecord | None = None
    returned: Returned | None = None


Query = SnapshotQuery | DeliveriesQuery
Answer = SnapshotAnswer | DeliveriesAnswer
ToRunner = Hello | RunStep | RunLook | CancelStep | Answer | Exit
FromRunner = Ready | Unable | LogLine | Progress | Query | StepEnded
Message = ToRunner | FromRunner

_KINDS: Mapping[str, type[Message]] = {
    kind.__name__: kind
    for kind in (
        *(Hello, RunStep, RunLook, CancelStep, SnapshotAnswer, DeliveriesAnswer, Exit),
        *(Ready, Unable, LogLine, Progress, SnapshotQuery, DeliveriesQuery, StepEnded),
    )
}


def encode(message: Message) -> bytes:
    """Return one line of JSON."""
    data = {"type": type(message).__name__, **asdict(message)}
    return json.dumps(data, allow_nan=False, separators=(",", ":")).encode() + b"\n"


@cache
def _adapter(name: str) -> TypeAdapter[Message]:
    return TypeAdapter(_KINDS[name])


def decode(line: bytes) -> Message:
    """Return the message of one line. Raise `ProtocolError` for anything else: user code can write to the socket."""
    try:
        adapter = _adapter(json.loads(line)["type"])
        return adapter.validate_json(line, strict=True)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ProtocolError(f"{len(line)} bytes are not a message ({type(error).__name__})") from None


class Channel:
    """One end of the socket. `send` may be called by any thread; `feed` belongs to one reader."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._sending = threading.Lock()
        self._rest = bytearray()

    def fileno(self) -> int:
        """Return the descriptor, for selectors."""
        return self._end.fileno()

    def send(self, message: Message) -> None:
        """Send one message. Raise OSError if the other end is gone."""
        data = encode(message)
        if len(data) > MAX_MESSAGE:
            raise JobFailedError(
                f"a message of {len(data)} bytes is too large; at most {MAX_MESSAGE} bytes may be passed"
            )
        with self._sending:
            self._end.sendall(data)

    def feed(self) -> Iterator[Message] | None:
        """Read once and return the messages that are complete; None at the end of the stream.

        Raise `ProtocolError`, also while the messages are iterated, for anything that is not a message.
        """
        try:
            data = self._end.recv(65_536)
        except OSError:
            return None
        if not data:
            if self._rest:
                raise ProtocolError(f"it ended in the middle of a message, after {len(self._rest)} bytes")
            return None
        self._rest += data
        return self._complete()

    def _complete(self) -> Iterator[Message]:
        while (end := self._rest.find(b"\n")) >= 0:
            line = bytes(self._rest[:end])
            del self._rest[: end + 1]
            yield decode(line)
        if len(self._rest) > MAX_MESSAGE:
            raise ProtocolError(f"a line has more than {MAX_MESSAGE} bytes")

    def close(self) -> None:
        """Close the socket; may be called twice."""
        self._end.close()
