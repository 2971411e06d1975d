"""Progress of runs that are queued or running: a live bar for each on a terminal, otherwise a line at each change.

The workers store progress with their heartbeat, so it is up to two or three seconds old.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

from freshline.cli.render import output
from freshline.cli.render.format import duration, parse_time, short
from freshline.cli.render.references import unit
from freshline.cli.render.text import Text
from freshline.model.documents.run import HasProgress, Run

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

TENTHS = 10
BAR_WIDTH = 24
SHORTEST_BAR = 6
REFRESH_HZ = 4
MOST_BARS = 20  # a live display that is higher than the terminal flickers
HANG = 4  # how far the second line of an entry is indented


class Standing(NamedTuple):
    """How much of a run is done. `total` None: the amount of work is not known."""

    step: str | None
    done: float | None
    total: float | None
    unit: str = ""

    @property
    def share(self) -> float | None:
        """Return the part that is done, from 0 to 1."""
        return None if self.done is None or not self.total else min(1.0, max(0.0, self.done / self.total))

    @property
    def text(self) -> str:
        """Return it as `3/10 tasks`; empty while nothing is known."""
        if self.done is None:
            return ""
        total = "" if self.total is None else f"/{self.total:,}"
        return f"{self.done:,}{total}{self.unit}"


def standing(run: HasProgress) -> Standing:
    """Return the progress that the job reports, else that of Spark's tasks."""
    progress = run["progress"] or {}
    if job := progress.get("job"):
        return Standing(progress.get("step"), job["done"], job["total"])
    spark = progress.get("spark") or {}
    return Standing(progress.get("step"), spark.get("done"), spark.get("total"), " tasks")


def elapsed(run: Run, now: datetime) -> str:
    """Return the time since the attempt began, or since the run was queued."""
    since = parse_time(run["startedAt"] or run["queuedAt"])
    return duration(max(0.0, (now - since).total_seconds()))


class Progress(Protocol):
    """A display of runs that are queued or running."""

    def update(self, runs: Sequence[Run]) -> None:
        """Show these runs, and no others."""

    def print(self, line: Text) -> None:
        """Print one line that stays."""


class Lines:
    """Prints a line when a run starts, reaches another step or try, or has done another tenth."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._printed: dict[str, tuple[Any, ...]] = {}

    def update(self, runs: Sequence[Run]) -> None:
        """Print the runs that changed."""
        now = datetime.now(UTC)
        marks = {run["id"]: _mark(run) for run in runs}
        for run in runs:
            if self._printed.get(run["id"]) != marks[run["id"]]:
                self.print(_line(run, now))
        self._printed = marks

    def print(self, line: Text) -> None:
        """Print one line."""
        output.write_line(line, self._file)


class Bars:
    """Draws a bar per run below the printed lines; at the end the bars are gone."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._runs: Sequence[Run] = ()

    def update(self, runs: Sequence[Run]) -> None:
        """Show these runs. The elapsed time goes on between two calls."""
        self._runs = runs

    def print(self, line: Text) -> None:
        """Print one line above the bars."""
        from freshline.cli.render.terminal import drawn  # noqa: PLC0415 - rich is imported only to draw

        for part in line.wrapped(self._console.width, HANG):
            self._console.print(drawn(part), soft_wrap=True)

    def bars(self) -> Grid:
        """Return a row per run: name, step, bar, amount, time. Without room the bar and then the step are left out."""
        from rich.progress_bar import ProgressBar  # noqa: PLC0415 - rich is imported only to draw
        from rich.table import Table as Grid  # noqa: PLC0415
        from rich.text import Text as Cell  # noqa: PLC0415

        now = datetime.now(UTC)
        runs = self._runs[:MOST_BARS]
        rows = [_cells(run, now) for run in runs]
        widths = [max((len(row[column].plain) for row in rows), default=0) for column in range(4)]
        room = self._console.width - sum(widths) - len(widths)
        bar = min(BAR_WIDTH, room) if room >= SHORTEST_BAR else 0
        step = room >= -1
        grid = Grid.grid(padding=(0, 1))
        for run, (name, where, amount, time) in zip(runs, rows, strict=True):
            share = standing(run).share
            drawn = [ProgressBar(total=1.0, completed=share or 0.0, width=bar, pulse=share is None)] if bar else []
            cells = [name, *([where] if step else []), amount, time]
            texts = [Cell.assemble(*cell.pieces, no_wrap=True, overflow="ellipsis") for cell in cells]
            grid.add_row(*texts[:-2], *drawn, *texts[-2:])
        if len(self._runs) > MOST_BARS:
            grid.add_row(Cell(f"and {len(self._runs) - MOST_BARS} more", "dim"))
        return grid


def _cells(run: Run, now: datetime) -> tuple[Text, Text, Text, Text]:
    at = standing(run)
    where = at.step if run["status"] == "running" and at.step else run["status"]
    name = Text(unit(run), (f" {short(run['id'])}", "dim"))
    return name, Text(where), Text(at.text), Text((elapsed(run, now), "cyan"))


def _mark(run: Run) -> tuple[Any, ...]:
    at = standing(run)
    return run["status"], run["attempt"], at.step, None if at.share is None else int(at.share * TENTHS)


def _line(run: Run, now: datetime) -> Text:
    at = standing(run)
    parts = [f"run {short(run['id'])} of {unit(run)} is {run['status']}"]
    parts += [f"step {at.step}"] if at.step else []
    parts += [f"{at.share:.0%} ({at.text})" if at.share is not None else at.text] if at.text else []
    return Text(f"{', '.join(parts)} after {elapsed(run, now)}")


@contextmanager
def progress(file: IO[str]) -> Iterator[Progress]:
    """Show progress while the block runs: bars on a terminal, lines otherwise."""
    if not file.isatty():
        yield Lines(file)
        return
    from rich.live import Live  # noqa: PLC0415 - rich is imported only to draw

    from freshline.cli.render.terminal import console  # noqa: PLC0415

    screen = console(file, colours=output.colourful(file))
    bars = Bars(screen)
    with Live(console=screen, get_renderable=bars.bars, refresh_per_second=REFRESH_HZ, transient=True):
        yield bars
