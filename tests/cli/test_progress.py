"""Progress of runs: bars on a terminal, lines otherwise, and a summary at the end."""

from __future__ import annotations

import codecs
import io
import itertools
import os
import pty
import re
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from freshline.cli.commands import listings
from freshline.cli.follow import RunFollower
from freshline.cli.render.progress import BAR_WIDTH, MOST_BARS, Bars, Lines, progress, standing
from freshline.cli.render.text import Text
from freshline.store.store import Store
from tests.cli.conftest import Freshline
from tests.rows import Rows
from tests.waiting import wait_until

METRICS = {
    "durationMs": 1500,
    "stages": 2,
    "tasks": 12,
    "rowsIn": 3_000_000,
    "bytesIn": 2_500_000,
    "rowsOut": 24,
    "bytesOut": 1_200,
    "shuffleReadBytes": 900,
    "shuffleWriteBytes": 900,
    "memorySpilledBytes": 0,
    "diskSpilledBytes": None,
}


CONTROL = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)")


class Terminal:
    """A real terminal and everything sent to it. `file` is the side to which programs write."""

    def __init__(self) -> None:
        self._ours, theirs = pty.openpty()
        self.file = os.fdopen(theirs, "w", encoding="utf-8")
        self.sent = ""
        self._reader = threading.Thread(target=self._read)  # a writer blocks unless somebody reads
        self._reader.start()

    def _read(self) -> None:
        decode = codecs.getincrementaldecoder("utf-8")().decode  # a read may end within a character
        try:
            while part := os.read(self._ours, 4096):
                self.sent += decode(part)
        except OSError:  # Linux reports a closed other side like this
            pass

    def close(self) -> str:
        """Return everything sent; may be called twice."""
        if not self.file.closed:
            self.file.close()
            self._reader.join()
            os.close(self._ours)
        return self.sent


def left_over(sent: str) -> list[str]:
    """Return the lines that remain on the screen. Control sequences that the bars do not use are errors."""
    lines, row = [""], 0
    for arguments, control, to_start, newline, words in CONTROL.findall(sent):
        if newline:
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif words:
            lines[row] += words
        elif control == "A":
            row -= int(arguments or 1)
        elif control == "K":
            lines[row] = ""
        else:
            assert to_start or control == "m" or arguments == "?25", f"unknown control {arguments}{control}"
    return [line for line in lines if line]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Yield a fully capable terminal, whatever the tests run in."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    opened = Terminal()
    yield opened
    opened.close()


def expect_bar(sent: str, *parts: str) -> None:
    """Check that a bar with these words was drawn, and that the cursor was hidden and shown again."""
    drawn = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", sent)
    assert re.search(f"[━╸╺]{{{BAR_WIDTH}}}", drawn)
    for part in parts:
        assert part in drawn
    assert [sent.count("\x1b[?25l"), sent.count("\x1b[?25h")] == [1, 1]
    assert sent.index("\x1b[?25l") < sent.index("\x1b[?25h")


def under_way(progress: dict[str, Any] | None = None, **fields: Any) -> Any:
    """Return the fields of a running run that matter here, as the reader returns them."""
    began = (datetime.now(UTC) - timedelta(seconds=90)).isoformat()
    told = {"id": "0000-5f0c11aa", "workflowSlug": "flights", "status": "running", "attempt": 1, "queuedAt": began}
    return {**told, "startedAt": began, "progress": progress, **fields}


def spark(done: int, total: int = 100, step: str = "hourly") -> dict[str, Any]:
    """Return progress as Spark reports it."""
    return {"step": step, "spark": {"done": done, "total": total, "stages": 1}}


def test_what_the_job_says_counts_more_than_sparks_tasks() -> None:
    """ctx.progress wins while it is told; without it tasks count; without both nothing is said."""
    assert standing(under_way({**spark(7), "job": {"done": 1, "total": 4}})).text == "1/4"
    assert standing(under_way({"step": "s", "job": {"done": 1500, "total": None}})).text == "1,500"
    assert standing(under_way(spark(7))).text == "7/100 tasks"
    assert standing(under_way({"step": "s"})).text == ""
    assert standing(under_way(None)) == (None, None, None, " tasks")


def test_a_share_stays_within_the_bar() -> None:
    """More than all, less than nothing and nothing to do are no error."""
    shares = [
        standing(under_way({"job": {"done": done, "total": total}})).share for done, total in [(9, 3), (-1, 3), (1, 0)]
    ]
    assert shares == [1.0, 0.0, None]


def test_bars_show_step_tasks_and_time() -> None:
    """One row for every run that is under way; the clock is the terminal's."""
    screen = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    bars = Bars(screen)
    bars.update([under_way(spark(50)), under_way(None, status="queued", startedAt=None)])
    screen.print(bars.bars())
    first, second = screen.file.getvalue().splitlines()  # type: ignore[attr-defined]  # it is the StringIO above
    for part in ("flights", "5f0c11aa", "hourly", "━", "50/100 tasks", "1.5 min"):
        assert part in first
    assert "queued" in second


def test_bars_are_bounded() -> None:
    """A terminal is not flooded: the rest is a number."""
    screen = Console(file=io.StringIO(), width=120)
    bars = Bars(screen)
    bars.update([under_way(spark(1))] * (MOST_BARS + 5))
    screen.print(bars.bars())
    shown = screen.file.getvalue().splitlines()  # type: ignore[attr-defined]  # it is the StringIO above
    assert len(shown) == MOST_BARS + 1
    assert "and 5 more" in shown[-1]


def test_lines_come_at_changes_only() -> None:
    """Another state, step or tenth is a line; a single task of a hundred is not."""
    screen = io.StringIO()
    lines = Lines(screen)
    course = [under_way(None, status="queued", startedAt=None), under_way(None), under_way(spark(0))]
    course += [under_way(spark(1)), under_way(spark(9)), under_way(spark(40)), under_way(spark(2, 50, "daily"))]
    for run in course:
        lines.update([run])
        lines.update([run])
    told = screen.getvalue().splitlines()
    assert [line.partition(" is ")[2] for line in told] == [
        "queued after 1.5 min",
        "running after 1.5 min",
        "running, step hourly, 0% (0/100 tasks) after 1.5 min",
        "running, step hourly, 40% (40/100 tasks) after 1.5 min",
        "running, step daily, 4% (2/50 tasks) after 1.5 min",
    ]


def test_a_terminal_gets_bars_that_are_gone_at_the_end(terminal: Terminal) -> None:
    """Bars are drawn below what is told; at the end only what was told is left, and the cursor is back."""
    with progress(terminal.file) as shown:
        shown.update([under_way(spark(50)), under_way(spark(7, step="daily"))])
        shown.print(Text("one line"))
        shown.print(Text("another line"))
    sent = terminal.close()
    expect_bar(sent, "hourly", "50/100 tasks", "daily", "7/100 tasks", "1.5 min")
    assert left_over(sent) == ["one line", "another line"]


def test_a_bar_is_drawn_while_it_waits(terminal: Terminal) -> None:
    """Nobody has to end the course to see it: the screen is drawn anew a few times a second."""
    with progress(terminal.file) as shown:
        shown.update([under_way(spark(50))])
        wait_until(lambda: "━" in terminal.sent, what="a bar")


def interrupted(follower: RunFollower) -> Iterator[Any]:
    """Read the runs twice, then raise KeyboardInterrupt."""
    yield from follower.poll()
    yield from follower.poll()
    raise KeyboardInterrupt


def test_followers_on_a_terminal_see_bars(
    freshline: Freshline, rows: Rows, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`runs --follow` draws a bar for what runs; after Ctrl-C the line of the listing is left, and no bar."""
    rows.workflow("w", ["a"])
    rows.run("w", "running", progress=spark(30))
    monkeypatch.setattr(listings, "entries", interrupted)
    monkeypatch.setattr(listings, "sys", SimpleNamespace(stdout=terminal.file))
    freshline("runs", "--follow", code=130)
    sent = terminal.close()
    expect_bar(sent, "hourly", "30/100 tasks")
    (line,) = left_over(sent)
    assert "running" in line
    assert "━" not in line


def test_followers_see_how_far_runs_are(freshline: Freshline, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal the lines of the listing and of the course; with --json nothing but the listing."""
    rows.workflow("w", ["a"])
    rows.run("w", "running", progress=spark(30))
    monkeypatch.setattr(listings, "entries", interrupted)
    told = freshline("runs", "--follow", code=130).stdout.splitlines()
    assert len(told) == 2
    assert "step hourly, 30% (30/100 tasks)" in told[0]
    assert len(freshline("runs", "--follow", "--json", code=130).stdout.splitlines()) == 1


def test_a_run_in_detail(freshline: Freshline, rows: Rows) -> None:
    """Each try of each step with its numbers; what is not known is a dash, and the error is whole."""
    rows.workflow("w", ["a"])
    run_id = rows.run("w", "failed")
    step = (
        "INSERT INTO run_steps (run_id, step_id, attempt, try, status, started_at, finished_at, {0})"
        " VALUES (%s, %s, 1, 1, %s, now(), now(), {1})"
    )
    done = step.format("outputs, metrics", "'[]', %s")
    rows.update(done, run_id, "clean", "succeeded", METRICS)
    rows.update(done, run_id, "tell", "succeeded", {"durationMs": 3, "progress": {"done": 4, "total": 5}})
    rows.update(step.format("error", "%s"), run_id, "hourly", "failed", {"code": "job", "message": "it broke\nhere"})
    text = freshline("runs", run_id[-8:]).stdout
    clean, tell, hourly = (
        next(line for line in text.splitlines() if line.startswith(name)) for name in ("clean", "tell", "hourly")
    )
    assert " ".join(clean.split()) == "clean 1.1 succeeded 1.5 s 3,000,000 2.5 MB 24 1.2 KB 12 900 B -"
    assert tell.split()[-1] == "4/5"
    assert "it broke" in hourly
    assert "it broke" in text.splitlines()[-1]
    found = freshline.json("runs", run_id)
    assert found["steps"][0]["metrics"] == METRICS


@pytest.mark.parametrize("words", [["--follow"], ["--status", "failed"], ["--after", "x"], ["--workflow", "w"]])
def test_one_run_is_no_listing(freshline: Freshline, words: list[str]) -> None:
    """A RUN with the options of the listing is refused with a sentence."""
    assert "are for the listing" in freshline("runs", "5f0c11aa", *words, code=2).stderr


BEGIN = (
    "UPDATE runs SET status = 'running', attempt = 1, started_at = now(), worker_id = gen_random_uuid(),"
    ' lease_until = now() + interval \'1 h\', progress = \'{"step": "one", "job": {"done": 1, "total": 2}}\''
    " WHERE status = 'queued'"
)
END = (
    "UPDATE runs SET status = 'succeeded', finished_at = now(), lease_until = NULL, progress = NULL"
    " WHERE status = 'running'"
)


@pytest.fixture
def moving(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the run, and then end it, whenever `run --wait` sleeps."""
    steps = itertools.cycle([BEGIN, END])

    def go_on(_: float) -> None:
        with store.database.transaction("test") as connection:
            connection.execute(next(steps).encode())

    # Only in this module: other sleeps in this process must not move the run.
    monkeypatch.setattr("freshline.cli.commands.run.time", SimpleNamespace(sleep=go_on, monotonic=time.monotonic))


@pytest.mark.usefixtures("moving")
def test_waiting_tells_the_course_but_not_to_programs(applied: Freshline) -> None:
    """`run --wait` writes a line at each change to stderr; with --json stderr stays empty."""
    applied("report", "shop.raw")
    told = applied("run", "make-clean", "--wait").stderr
    assert "is running, step one, 50% (1/2) after" in told
    assert "succeeded" in told
    assert applied("run", "make-clean", "--wait", "--json").stderr == ""


@pytest.mark.usefixtures("moving")
def test_waiting_on_a_terminal_shows_a_bar(
    applied: Freshline, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bar of `run --wait` is drawn and gone before the end of the run is told, also beside --json."""
    applied("report", "shop.raw")
    monkeypatch.setattr("freshline.cli.commands.run.sys", SimpleNamespace(stderr=terminal.file))
    assert applied.json("run", "make-clean", "--wait")["status"] == "succeeded"
    sent = terminal.close()
    expect_bar(sent, "make-clean", "one", "1/2")
    assert left_over(sent) == []
