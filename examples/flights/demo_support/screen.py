"""The output of the demo: lines as things happen, and on a terminal a live table of the assets below them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from rich.live import Live
from rich.padding import Padding

from freshline.cli.render import output, terminal
from freshline.cli.render.decisions import hold_text
from freshline.cli.render.format import number, parse_time
from freshline.cli.render.table import Column, Columns, Table
from freshline.cli.render.text import Text
from freshline.model.documents.status import AssetStatus, Status

ASSETS: Columns = ["ASSET", "STATE", Column("VERSION", drop=1), "ROWS", "AGE", Column("HELD", wraps=20, drop=2)]


class Screen:
    """Prints lines to a terminal or a pipe, and a live table to a terminal only."""

    def __init__(self) -> None:
        self._console = terminal.console(sys.stdout, colours=output.colourful(sys.stdout))
        self._live: Live | None = None

    @contextmanager
    def live(self) -> Iterator[None]:
        """Keep the table of `assets` below the lines while the block runs."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, auto_refresh=False, transient=True) as self._live:
            yield
        self._live = None

    def message(self, text: str, style: str = "") -> None:
        """Print a sentence."""
        self._print(Text((text, style)))

    def command(self, text: str) -> None:
        """Print a command as it is, so that it can be copied."""
        self._console.print(terminal.drawn(Text(text)), soft_wrap=True)

    def table(self, columns: Columns, rows: Iterable[list[str]]) -> None:
        """Print a table."""
        colours = output.colourful(sys.stdout)
        for line in terminal.table_lines(Table.of(columns, rows), self._width, colours=colours):
            print(line, flush=True)

    def heading(self, text: str) -> None:
        """Print the title of the next part."""
        self._print(Text(""))
        self._print(Text((text, "bold")))

    def event(self, seconds: float, kind: str, name: str, text: str, style: str) -> None:
        """Print something that happened; its text is wrapped in a column."""
        head = Text((f"{seconds:7.1f} s  ", "dim"), (f"{kind:<7}", style), (f" {name:<19} ", "bold"))
        indent = len(head.plain)
        lines = [Text(text)] if self._width is None else Text(text).wrapped(max(20, self._width - indent))
        for count, line in enumerate(lines):
            self._console.print(terminal.drawn(Text(" " * indent if count else head, line)), soft_wrap=True)

    def assets(self, status: Status, levels: dict[str, int]) -> None:
        """Replace the live table."""
        if self._live is None:
            return
        now = parse_time(status["at"])
        made = [one for one in status["assets"] if one["assetId"] in levels]
        ordered = sorted(made, key=lambda one: (levels[one["assetId"]], one["assetId"]))
        shown = Table.of(ASSETS, [_row(one, levels, now) for one in ordered])
        self._live.update(Padding(terminal.grid(shown, self._console.width), (1, 0, 0, 0)), refresh=True)

    @property
    def _width(self) -> int | None:
        return self._console.width if self._console.is_terminal else None

    def _print(self, text: Text) -> None:
        for line in [text] if self._width is None else text.wrapped(self._width):
            self._console.print(terminal.drawn(line), soft_wrap=True)


def _row(one: AssetStatus, levels: dict[str, int], now: datetime) -> list[str | Text]:
    age = f"{(now - parse_time(one['producedAt'])).total_seconds():.0f} s" if one["producedAt"] else "-"
    name = "  " * (levels[one["assetId"]] - 1) + one["assetId"]
    state = output.coloured(one["state"])
    return [name, state, number(one["version"]), number(one["rows"]), age, hold_text(one["hold"])]
