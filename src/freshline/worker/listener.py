"""The thread that listens to one runner: what it says, what it prints, and that it ended."""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

from freshline.errors import EngineError, FreshlineError
from freshline.worker.log_capture import Secrets, Splitter
from freshline.worker.protocol import Channel, error_from

POLL = 0.2  # seconds between two looks at the process itself
AT_ONCE = 64  # reads of one stream before the others get their turn


@dataclass(frozen=True, slots=True)
class Line:
    """One line that the runner, user code or the JVM printed."""

    stream: str
    text: str


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the runner."""

    message: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """The runner is gone. `status`: its exit code, or minus the signal's number."""

    status: int


class Listener:
    """Collects the events of a runner in `events`, and buries it: its group is killed, its scratch is removed."""

    def __init__(self, popen: subprocess.Popen[bytes], channel: Channel, cleanup: Callable[[], None]) -> None:
        self.events: queue.SimpleQueue[Line | Said | Ended] = queue.SimpleQueue()
        self.ready = threading.Event()
        self.leaving = threading.Event()
        self.ended = threading.Event()
        self.failure: FreshlineError | None = None
        self.secrets = Secrets()  # of the step that runs
        self.lacks_archive = False
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
        """How the runner ended; None while it lives."""
        return self._popen.returncode if self.ended.is_set() else None

    def next(self, timeout: float) -> Line | Said | Ended | None:
        """The next event; None if there is none for now. `Ended` is said again and again."""
        with contextlib.suppress(queue.Empty):
            return self.events.get(timeout=timeout)
        if self.ended.is_set() and self.events.empty():
            return Ended(self._popen.returncode)
        return None

    def drain(self) -> list[str]:
        """Forget what has come so far; the lines among it."""
        lines = []
        with contextlib.suppress(queue.Empty):
            while True:
                event = self.events.get_nowait()
                if isinstance(event, Line):
                    lines.append(event.text)
        return lines

    def kill(self) -> None:
        """Kill the runner's process group."""
        with self._killing:  # once its end is noted, the number may belong to somebody else
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
        self.events.put(Ended(status))

    def _once(self, selector: selectors.BaseSelector) -> bool:
        """Handle what has come; False when the control socket ended."""
        for key, _ in selector.select(POLL):
            if not key.data():
                selector.unregister(key.fileobj)
                if key.fileobj is self._channel:
                    return False
        return True

    def _pass_lines(self, stream: _Stream) -> bool:
        data = stream.read()
        self._pass(stream, stream.splitter.feed(data or b"", self.secrets))
        return data != b""

    def _pass(self, stream: _Stream, lines: Iterable[str]) -> None:
        for line in lines:
            self.events.put(Line(stream.name, line))

    def _pass_messages(self) -> bool:
        messages = self._channel.feed()
        for message in messages or ():
            if "id" in message:  # the answer to a step: what was printed before comes before
                for stream in self._streams:
                    self._pass_lines(stream)
                    self._pass(stream, stream.splitter.flush(self.secrets))
            self._take(message)
        return messages is not None

    def _take(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "ready":
            self.lacks_archive = not message["archive"]
            self.ready.set()
        elif message["type"] == "unable":
            error = error_from(message)
            self.failure = error if isinstance(error, EngineError) else EngineError(str(error))
        else:
            if message.get("last"):
                self.leaving.set()
            self.events.put(Said(message))


class _Stream:
    """The read end of stdout or stderr, never blocking."""

    def __init__(self, name: str, file: IO[bytes]) -> None:
        os.set_blocking(file.fileno(), False)
        self.name = name
        self.file = file
        self.splitter = Splitter()

    def read(self) -> bytes | None:
        """What is there; None if nothing is, b"" at the end."""
        parts: list[bytes] = []
        try:
            while len(parts) < AT_ONCE and (part := os.read(self.file.fileno(), 65_536)):
                parts.append(part)
        except BlockingIOError:
            return b"".join(parts) or None
        return b"".join(parts)
