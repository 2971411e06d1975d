"""The demo on a real terminal: it plays to its end, and people see no internals."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.terminal.harness import CTRL_C, LARGE, SMALL, Size, Terminal, assert_readable

ROOT = Path(__file__).parents[2]
NAMES = ("carriers.scorecard", "carriers-scorecard", "report.bulletin", "report-bulletin", "flights.arrivals")
Play = Callable[..., Terminal]


@pytest.fixture
def play() -> Iterator[Play]:
    """Start the demo on a terminal, and end it after the test."""
    started: list[Terminal] = []
    # The demo prints this path. The one of `tmp_path` can be wider than a terminal of 80 columns.
    folder = tempfile.TemporaryDirectory(prefix="freshline-")
    Path(folder.name).chmod(0o711)

    def start(size: Size, *options: str, **more: str) -> Terminal:
        foreign = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        environ = {**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8", **more}
        command = [
            sys.executable,
            str(ROOT / "examples" / "flights" / "demo.py"),
            "--dir",
            str(Path(folder.name) / "flights"),
            *options,
        ]
        started.append(Terminal(command, size, environ, ROOT))
        return started[-1]

    yield start
    for terminal in started:
        terminal.close()
    folder.cleanup()


def live_table(terminal: Terminal) -> bool:
    """Return whether the table of assets is on the screen."""
    return any(line.split()[:2] == ["ASSET", "STATE"] for line in terminal.screen.display)


@pytest.mark.spark
@pytest.mark.process
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("size", "options", "environ", "grows"),
    [
        pytest.param(SMALL, ["--updates", "1"], {}, False, id="80x24-first-update"),
        pytest.param(SMALL, [], {}, False, id="80x24", marks=pytest.mark.full),
        pytest.param(SMALL, [], {}, True, id="80x24-grows", marks=pytest.mark.full),
        pytest.param(LARGE, [], {}, False, id="160x50", marks=pytest.mark.full),
        pytest.param(SMALL, [], {"NO_COLOR": "1"}, False, id="80x24-plain", marks=pytest.mark.full),
    ],
)
def test_the_demo_plays_on_a_terminal(
    play: Play, size: Size, options: list[str], environ: dict[str, str], grows: bool
) -> None:
    """The table of assets is live, also in a terminal that grows, and is gone at the end; every line can be read."""
    terminal = play(size, *options, **environ)
    terminal.wait_for(lambda: live_table(terminal), 180)
    if grows:
        terminal.resize(LARGE)
    assert terminal.end(800) == 0, terminal.text
    for part in ("all 11 assets are fresh", "What happened, from the store", "Next: the project is still there"):
        assert part in terminal.text
    assert terminal.text.count("HELD") == 1, "the live table is gone; the summary has a column of this name"
    assert_readable(terminal, NAMES)


@pytest.mark.process
@pytest.mark.full
@pytest.mark.timeout(300)
def test_the_demo_can_be_interrupted(play: Play) -> None:
    """Ctrl-C stops everything that was started, says where the project is, and ends with 130."""
    terminal = play(SMALL)
    terminal.wait_for(lambda: live_table(terminal), 180)
    terminal.send(CTRL_C)
    assert terminal.end(60) == 130, terminal.text
    assert "everything that was started is stopped" in terminal.text
    assert_readable(terminal, NAMES)
