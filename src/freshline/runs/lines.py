"""What a job prints, as bounded lines: long lines are cut, endless output ends with one line that says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from freshline.runs.protocol import storable

MAX_LINE = 8 * 1024
MAX_LINES = 10_000
MAX_BYTES = 1024 * 1024
TAIL = 20  # lines kept for the message about a runner that died
SHORTEST_SECRET = 4  # replacing every "1" of a log would hide more than it protects


class Splitter:
    """Bytes of one stream in, whole lines out. A line without an end is given out in pieces of MAX_LINE."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[str]:
        """The lines that `data` completes."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            yield _text(line)
        while len(self._rest) > MAX_LINE:
            piece, self._rest = self._rest[:MAX_LINE], self._rest[MAX_LINE:]
            yield _text(piece)

    def flush(self) -> Iterator[str]:
        """The unfinished last line, if there is one."""
        rest, self._rest = self._rest, b""
        if rest:
            yield _text(rest)


def _text(line: bytes) -> str:
    cut = line.rstrip(b"\r")[:MAX_LINE]
    return storable(cut.decode("utf-8", "replace"))


class Log:
    """The log of one step: passes lines on until the limit, hides the values of secrets, remembers the last lines."""

    def __init__(self, on_log: Callable[[str, str], None], secrets: Iterable[str] = ()) -> None:
        self._on_log = on_log
        self._secrets = sorted((s for s in secrets if len(s) >= SHORTEST_SECRET), key=len, reverse=True)
        self._lines = 0
        self._bytes = 0
        self._tail: deque[str] = deque(maxlen=TAIL)

    @property
    def tail(self) -> str:
        """The last lines."""
        return "\n".join(self._tail)

    def write(self, stream: str, text: str) -> None:
        """Take one line."""
        line = self.hide(text)[:MAX_LINE]
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

    def hide(self, text: str) -> str:
        """`text` without the values of secrets."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text
