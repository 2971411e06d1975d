"""The checks of the harness fail where they should: each is shown a screen that nobody should see."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.terminal.harness import CTRL_C, SMALL, Size, Terminal, assert_readable

Start = Callable[[str], Terminal]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Run a Python program on a terminal of 40 columns."""
    started: list[Terminal] = []

    def begin(code: str) -> Terminal:
        made = Terminal([sys.executable, "-c", code], Size(40, 10), {**os.environ, "TERM": "xterm-256color"}, tmp_path)
        started.append(made)
        return made

    yield begin
    for terminal in started:
        terminal.close()


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("raise ValueError('no')", "Traceback"),
        ("print(object())", " object at 0x"),
        ("print('<freshline.cli.render.text.Text>')", "<freshline."),
        ("print('a ' * 18 + 'interrupted')", "broken at the right margin"),
        ("print('orders.cl'); print('ean')", "broken names"),
        ("print('x  w'); print('  o'); print('  r'); print('  d')", "a squeezed column"),
    ],
)
def test_an_unreadable_screen_is_noticed(start: Start, code: str, complaint: str) -> None:
    """Tracebacks, objects, broken words and names, and squeezed columns fail the test."""
    terminal = start(code)
    terminal.end()
    with pytest.raises(AssertionError, match=complaint.replace("(", r"\(")):
        assert_readable(terminal, ["orders.clean"])


def test_a_readable_screen_passes(start: Start) -> None:
    """Lines that fill the terminal, colours, columns of single digits, and what was erased are no fault."""
    code = (
        "print('word ' * 8); print('\\x1b[32mfresh\\x1b[0m'); print('a  1'); print('b  2');"
        "print('Traceback (most recent call last)', end='\\r\\x1b[2K'); print('orders.clean')"
    )
    terminal = start(code)
    assert terminal.end() == 0
    assert_readable(terminal, ["orders.clean"])
    assert terminal.text.split("\n")[-1] == "orders.clean"
    assert terminal.screen.colours() == {"default", "green"}


def test_lines_that_scrolled_away_are_kept(start: Start) -> None:
    """A screen of ten rows shows all of a hundred lines to the test."""
    terminal = start("[print(number) for number in range(100)]")
    assert terminal.end() == 0
    assert terminal.text.split() == [str(number) for number in range(100)]


def test_keys_sizes_and_exit_codes(start: Start) -> None:
    """Ctrl-C is SIGINT, a new size is SIGWINCH, and the exit code is that of the program, or of the signal."""
    code = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGWINCH, lambda *_: print(os.get_terminal_size().columns, flush=True))\n"
        "signal.signal(signal.SIGINT, lambda *_: sys.exit(7))\n"
        "print('ready', flush=True)\n"
        "while True: signal.pause()\n"
    )
    terminal = start(code)
    terminal.wait_for("ready")
    terminal.resize(SMALL)
    terminal.wait_for("80")
    terminal.send(CTRL_C)
    assert terminal.end() == 7
    killed = start("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert killed.end() == 128 + 9


def test_a_text_that_never_comes_is_told_with_the_screen(start: Start) -> None:
    """A failed wait shows what was on the screen, also if the program ended before."""
    with pytest.raises(AssertionError, match=r"ended before 'more' was shown:\s+hello"):
        start("print('hello')").wait_for("more")
    with pytest.raises(AssertionError, match=r"'more' was not shown within 0.5 s:\s+hello"):
        start("print('hello', flush=True); input()").wait_for("more", 0.5)
