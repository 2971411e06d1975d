"""The thread that reads from one runner: its messages, its output and its exit."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import selectors
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import IO

from freshline.errors import EngineError, FreshlineError
from freshline.masking import Secrets
from freshline.worker.log_capture import LineSplitter
from freshline.worker.protocol import (
    Channel,
    FromRunner,
    Message,
    ProtocolError,
    Query,
    Ready,
    StepEnded,
    Unable,
)

POLL_S = 0.2  # between two checks of the process itself
EXIT_S = 1.0  # between the end of the control socket and the exit of a process that ends by itself
MAX_READS = 64  # of one stream before the others get their turn


@dataclass(frozen=True, slots=True)
class Line:
    """One line that the runner, user code or the JVM printed."""

    stream: str
    text: str


@dataclass(frozen=True, slots=True)
class Received:
    """A message of the runner."""

    message: Message


@dataclass(frozen=True, slots=True)
class Exited:
    """The runner has exited. `status`: its exit code, or minus the signal's number.

    `fault`: why the supervisor killed it, if its control socket could no longer be used.
    """

    status: int
    fault: str | None = None


class Listener:
    """Collects the events of a runner in `events`. After its exit it kills its group and calls `cleanup`."""

    def __init__(self, popen: subprocess.Popen[bytes], channel: Channel, cleanup: Callable[[], None]) -> None:
        self.events: queue.SimpleQueue[Line | Received | Exited] = queue.SimpleQueue()
        self.ready = threading.Event()
        self.leaving = threading.Event()
        self.ended = threading.Event()
        self.failure: FreshlineError | None = None
        self.secrets = Secrets()  # of the current step
        self.lacks_archive = False
        self.fault: str | None = None
        self._popen = popen
        self._channel = channel
        self._cleanup = cleanup
        self._killing = threading.Lock()
        self._streams = [
            _Stream(name, file) for name, file in (("stdout", popen.stdout), ("stderr", popen.stderr)) if file
        ]
        threading.Thread(target=self._listen, name="freshline-listener", daemon=True).start()

    @property
    def status(self) -> int | None:
        """The exit status of the runner; None while it runs."""
        return self._popen.returncode if self.ended.is_set() else None

    def next(self, timeout: float) -> Line | Received | Exited | None:
        """Return the next event, or None after `timeout`. After the exit every further call returns `Exited`."""
        with contextlib.suppress(queue.Empty):
            return self.events.get(timeout=timeout)
        if self.ended.is_set() and self.events.empty():
            return Exited(self._popen.returncode, self.fault)
        return None

    def drain(self) -> list[str]:
        """Remove all events so far; return the text of the lines among them."""
        lines = []
        with contextlib.suppress(queue.Empty):
            while True:
                event = self.events.get_nowait()
                if isinstance(event, Line):
                    lines.append(event.text)
        return lines

    def kill(self) -> None:
        """Kill the runner's process group."""
        with self._killing:  # after its exit is recorded, the pid may belong to another process
            if not self.ended.is_set():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._popen.pid, signal.SIGKILL)

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            for stream in self._streams:
                selector.register(stream.file, selectors.EVENT_READ, partial(self._pass_lines, stream))
            selector.register(self._channel, selectors.EVENT_READ, self._pass_messages)
            while self._popen.poll() is None and self._once(selector):
                pass
        self._pass_rest()
        self.kill()
        status = self._popen.wait()
        for stream in self._streams:
            self._pass_lines(stream)
            self._pass(stream, stream.splitter.flush(self.secrets))
            stream.file.close()
        self._channel.close()
        self._cleanup()
        with self._killing:
            self.leaving.set()
            self.ended.set()
        self.events.put(Exited(status, self.fault))

    def _once(self, selector: selectors.BaseSelector) -> bool:
        """Handle the readable streams; return False when the control socket is closed."""
        for key, _ in selector.select(POLL_S):
            if not key.data():
                selector.unregister(key.fileobj)
                if key.fileobj is self._channel:
                    self._explain_end()
                    return False
        return True

    def _pass_rest(self) -> None:
        """Pass what a process wrote to its control socket before it ended: that may say why."""
        while self.fault is None and select.select([self._channel], [], [], 0)[0] and self._pass_messages():
            pass

    def _explain_end(self) -> None:
        """Tell a process that ends from one that goes on and can no longer be controlled."""
        if self.fault is None:
            try:
                self._popen.wait(EXIT_S)
            except subprocess.TimeoutExpired:
                self.fault = "it closed its control socket"

    def _pass_lines(self, stream: _Stream) -> bool:
        data = stream.read()
        self._pass(stream, stream.splitter.feed(data or b"", self.secrets))
        return data != b""

    def _pass(self, stream: _Stream, lines: Iterable[str]) -> None:
        for line in lines:
            self.events.put(Line(stream.name, line))

    def _pass_messages(self) -> bool:
        """Pass the messages on; return False at the end of the socket, and after what is not a message."""
        try:
            messages = self._channel.feed()
            for message in messages or ():
                self._pass_message(message)
        except ProtocolError as error:
            self.fault = f"it wrote to its control socket, which only Freshline may use: {error}"
            return False
        return messages is not None

    def _pass_message(self, message: Message) -> None:
        if not isinstance(message, FromRunner):
            raise ProtocolError(f"{type(message).__name__} is a message of the supervisor")
        if isinstance(message, StepEnded | Query):  # earlier output comes first
            for stream in self._streams:
                self._pass_lines(stream)
                self._pass(stream, stream.splitter.flush(self.secrets))
        self._take(message)

    def _take(self, message: Message) -> None:
        match message:
            case Ready(class_archive):
                self.lacks_archive = not class_archive
                self.ready.set()
            case Unable(record):
                error = record.to_error()
                self.failure = error if isinstance(error, EngineError) else EngineError(str(error))
            case _:
                if isinstance(message, StepEnded) and message.last:
                    self.leaving.set()
                self.events.put(Received(message))


class _Stream:
    """The read end of stdout or stderr, non-blocking."""

    def __init__(self, name: str, file: IO[bytes]) -> None:
        os.set_blocking(file.fileno(), False)
        self.name = name
        self.file = file
        self.splitter = LineSplitter()

    def read(self) -> bytes | None:
        """Return the available bytes; None if there are none, b"" at the end."""
        parts: list[bytes] = []
        try:
            while len(parts) < MAX_READS and (part := os.read(self.file.fileno(), 65_536)):
                parts.append(part)
        except BlockingIOError:
            return b"".join(parts) or None
        return b"".join(parts)
