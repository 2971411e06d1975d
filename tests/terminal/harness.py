"""Programs on a real pseudo-terminal, and the screen that a person sees.

pexpect runs the program and pyte is the terminal: it interprets the control codes. Nothing here sleeps; a test waits
for a condition while it reads what the program prints.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pexpect
import pyte

INTERNALS = ("Traceback (most recent call last)", "<freshline.", " object at 0x", "<rich.", "Text(", "Table(")
CTRL_C = "\x03"
HISTORY = 20_000


class Size(NamedTuple):
    """Columns and rows of a terminal."""

    columns: int
    rows: int

    def __str__(self) -> str:
        return f"{self.columns}x{self.rows}"


SMALL, LARGE = Size(80, 24), Size(160, 50)


class Screen(pyte.HistoryScreen):  # type: ignore[misc]  # pyte has no annotations
    """A screen that remembers the words that the terminal broke at its right margin."""

    def __init__(self, size: Size) -> None:
        super().__init__(size.columns, size.rows, history=HISTORY, ratio=0.5)
        self.broken: list[str] = []

    def draw(self, data: str) -> None:
        """Draw text, and note a word that goes on in the next line."""
        for character in data:
            last = self.buffer[self.cursor.y][self.columns - 1].data
            if self.cursor.x >= self.columns and not character.isspace() and not last.isspace():
                self.broken.append(self._line(self.buffer[self.cursor.y]) + character)
            super().draw(character)

    def all_lines(self) -> list[str]:
        """Return all lines, those that have scrolled away first."""
        return [*map(self._line, self.history.top), *(line.rstrip() for line in self.display)]

    def _line(self, cells: Mapping[int, pyte.screens.Char]) -> str:
        return "".join(cells[column].data for column in range(self.columns)).rstrip()

    def colours(self) -> set[str]:
        """Return the colours of all characters."""
        rows = [*self.history.top, *(self.buffer[row] for row in range(self.lines))]
        return {cell.fg for row in rows for cell in row.values() if cell.data != " "}


class Terminal:
    """A program that runs on a terminal of a given size."""

    def __init__(self, command: Sequence[str], size: Size, environ: Mapping[str, str], directory: Path) -> None:
        self._child = pexpect.spawn(
            command[0],
            list(command[1:]),
            dimensions=(size.rows, size.columns),
            env=dict(environ),
            cwd=str(directory),
            echo=True,
        )
        self._child.delaybeforesend = None  # pexpect sleeps before each line otherwise
        self.screen = Screen(size)
        self._stream = pyte.ByteStream(self.screen)

    @property
    def text(self) -> str:
        """Return everything that was shown, without what was erased."""
        return "\n".join(self.screen.all_lines()).rstrip()

    def wait_for(self, condition: str | Callable[[], bool], timeout: float = 60) -> None:
        """Read until a text is on the screen, or a condition is true."""
        deadline = time.monotonic() + timeout
        while not (condition in self.text if isinstance(condition, str) else condition()):
            if not self._read():
                assert self._met(condition), f"the program ended before {condition!r} was shown:\n{self.text}"
                return
            assert time.monotonic() < deadline, f"{condition!r} was not shown within {timeout:g} s:\n{self.text}"

    def _met(self, condition: str | Callable[[], bool]) -> bool:
        return condition in self.text if isinstance(condition, str) else condition()

    def send(self, keys: str) -> None:
        """Type."""
        self._child.send(keys)

    def resize(self, size: Size) -> None:
        """Change the size of the terminal; the kernel sends SIGWINCH."""
        self.screen.resize(size.rows, size.columns)
        self._child.setwinsize(size.rows, size.columns)

    def end(self, timeout: float = 60, *, again: str = "") -> int:
        """Read to the end and return the exit code; a signal counts as 128 plus its number.

        `again` is typed every two seconds: Python does not notice a Ctrl-C that arrives just before it reads a line.
        """
        deadline = time.monotonic() + timeout
        typed = time.monotonic()
        while self._read():
            if again and time.monotonic() > typed + 2:
                self.send(again)
                typed = time.monotonic()
            assert time.monotonic() < deadline, f"the program did not end within {timeout:g} s:\n{self.text}"
        self._child.wait()
        killed: int | None = self._child.signalstatus
        return 128 + killed if killed is not None else int(self._child.exitstatus)

    def close(self) -> None:
        """Kill the program if it is still there."""
        self._child.close(force=True)

    def _read(self) -> bool:
        """Show what was printed since the last call, if anything; False at the end."""
        try:
            self._stream.feed(self._child.read_nonblocking(65_536, timeout=0.2))
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        return True


def assert_readable(terminal: Terminal, names: Iterable[str] = ()) -> None:
    """Check that no internals are shown, no word is broken and no column has been squeezed."""
    text = terminal.text
    for internal in INTERNALS:
        assert internal not in text, text
    assert terminal.screen.broken == [], f"broken at the right margin: {terminal.screen.broken}\n{text}"
    assert broken_names(text, names) == [], f"broken names: {broken_names(text, names)}\n{text}"
    assert squeezed_lines(text) == [], f"a squeezed column: {squeezed_lines(text)}\n{text}"


def broken_names(text: str, names: Iterable[str]) -> list[str]:
    """Return the words that are only the beginning of a name: its rest is in the next line."""
    known = set(names)
    beginnings = {name[:end] for name in known for end in range(4, len(name)) if re.search(r"[.-]", name[:end])}
    words = {word.strip("'`(),:;") for word in text.split()}
    return sorted((words & beginnings) - known)


def squeezed_lines(text: str) -> list[str]:
    """Return pairs of lines that hold nothing but single letters: what a squeezed column looks like."""
    lonely = re.compile(r"^\s*[A-Za-z](\s+[A-Za-z])*$")
    pairs = itertools.pairwise(text.split("\n"))
    return [f"{one} / {two}" for one, two in pairs if lonely.match(one) and lonely.match(two)]
