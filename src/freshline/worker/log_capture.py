"""The captured output of a step: secrets hidden, long lines cut, the number of lines limited."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from freshline.masking import Secrets
from freshline.worker.step_errors import storable

MAX_LINE = 8 * 1024
MAX_LOGGED = 64 * 1024  # characters of a line that a job passes to its logger
MAX_LINES = 10_000
MAX_BYTES = 1024 * 1024
TAIL = 20  # last lines kept for the error about a runner that died


class LineSplitter:
    """Splits the bytes of one stream into lines. A line without an end is returned in pieces of MAX_LINE.

    Secrets are hidden before a line is cut: half a secret would not be recognised.
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes, secrets: Secrets) -> Iterator[str]:
        """Yield the lines that `data` completes."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            yield _text(secrets.hide_bytes(line))
        # A secret that begins before the cut must end within the searched bytes.
        while len(self._rest) > MAX_LINE + secrets.longest:
            self._rest = secrets.hide_bytes(self._rest)
            if len(self._rest) <= MAX_LINE + secrets.longest:
                break
            piece, self._rest = self._rest[:MAX_LINE], self._rest[MAX_LINE:]
            yield _text(piece)

    def flush(self, secrets: Secrets) -> Iterator[str]:
        """Yield the unfinished last line, if there is one."""
        rest, self._rest = self._rest, b""
        if rest:
            yield _text(secrets.hide_bytes(rest))


def _text(line: bytes) -> str:
    cut = line.rstrip(b"\r")[:MAX_LINE]
    return storable(cut.decode("utf-8", "replace"))


class StepLog:
    """The log of one step: passes lines on until the limit, hides secrets, remembers the last lines."""

    def __init__(self, on_log: Callable[[str, str], None], secrets: Secrets | None = None) -> None:
        self._on_log = on_log
        self.secrets = secrets or Secrets()
        self._lines = 0
        self._bytes = 0
        self._tail: deque[str] = deque(maxlen=TAIL)

    @property
    def tail(self) -> str:
        """The last lines."""
        return "\n".join(self._tail)

    def write(self, stream: str, text: str) -> None:
        """Add one line."""
        hide = self.secrets.hide_cut if len(text) >= MAX_LOGGED else self.secrets.hide
        line = hide(text)[:MAX_LINE]
        self._tail.append(line)
        if self._lines > MAX_LINES or self._bytes > MAX_BYTES:
            return
        self._lines += 1
        self._bytes += len(line.encode()) + 1
        if self._lines > MAX_LINES or self._bytes > MAX_BYTES:
            line, stream = (
                f"truncated: a step may log {MAX_LINES} lines and {MAX_BYTES} bytes; the rest is not kept",
                "log",
            )
        self._on_log(stream, line)
