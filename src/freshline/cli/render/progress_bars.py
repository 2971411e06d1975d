"""Live bars of runs that are under way, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO

from rich import text
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from freshline.cli.render.format import short
from freshline.cli.render.progress import elapsed, standing
from freshline.cli.render.text import Text
from freshline.model.json import Json

BAR_WIDTH = 24
REFRESH_HZ = 4
MOST_BARS = 20  # a live display that is higher than the terminal flickers


class Bars:
    """Bars below what is told; they are gone at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._runs: Sequence[Json] = ()

    def update(self, runs: Sequence[Json]) -> None:
        """See `Course.update`; the clock goes on between two calls."""
        self._runs = runs

    def tell(self, line: Text) -> None:
        """See `Course.tell`."""
        self._console.print(text.Text.from_ansi(line.painted), soft_wrap=True)

    def bars(self) -> Table:
        """A row per run."""
        table = Table.grid(padding=(0, 1))
        now = datetime.now(UTC)
        for run in self._runs[:MOST_BARS]:
            table.add_row(*_row(run, now))
        if len(self._runs) > MOST_BARS:
            table.add_row(text.Text(f"and {len(self._runs) - MOST_BARS} more", "dim"))
        return table


def _row(run: Json, now: datetime) -> tuple[text.Text | ProgressBar, ...]:
    at = standing(run)
    known = at.share is not None
    bar = ProgressBar(total=1.0, completed=at.share or 0.0, width=BAR_WIDTH, pulse=not known)
    where = at.step if run["status"] == "running" and at.step else run["status"]
    name = text.Text.assemble(run["workflowSlug"], (f" {short(run['id'])}", "dim"))
    return name, text.Text(where), bar, text.Text(at.words), text.Text(elapsed(run, now), "cyan")


@contextmanager
def bars(file: IO[str]) -> Iterator[Bars]:
    """Bars that move while the block runs."""
    console = Console(file=file, highlight=False, emoji=False)
    shown = Bars(console)
    with Live(console=console, get_renderable=shown.bars, refresh_per_second=REFRESH_HZ, transient=True):
        yield shown
