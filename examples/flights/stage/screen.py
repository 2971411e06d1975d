"""What people see: lines as things happen, and on a terminal a table of the assets below them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from freshline.cli.render import text as ink
from freshline.cli.render.decisions import hold_words
from freshline.cli.render.format import number, parse_time
from freshline.cli.render.output import coloured, table

Json = dict[str, Any]

PIPE_WIDTH = 160


class Screen:
    """Lines for everybody; the table only where there is a terminal to draw it on."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        if not self._console.is_terminal:
            self._console = Console(highlight=False, width=PIPE_WIDTH)
        self._live: Live | None = None

    @contextmanager
    def live(self) -> Iterator[None]:
        """Inside, `assets` changes the table in place."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, auto_refresh=False, transient=True) as self._live:
            yield
        self._live = None

    def say(self, text: str, style: str = "") -> None:
        """A sentence of our own."""
        self._console.print(Text(text, style), soft_wrap=True)

    def table(self, columns: list[str], rows: Iterable[list[str]]) -> None:
        """A table that stays."""
        self._console.print(self._drawn(table(columns, rows)), soft_wrap=True)

    def heading(self, text: str) -> None:
        """A new part of the story."""
        self._console.print()
        self._console.print(Text(text, "bold"))

    def happened(self, seconds: float, kind: str, name: str, told: str, style: str) -> None:
        """Something that the store knows of."""
        line = Text(f"{seconds:7.1f} s  ", "dim")
        line.append(f"{kind:<7}", style)
        line.append(f" {name:<19} ", "bold")
        line.append(told)
        self._console.print(line, soft_wrap=not self._console.is_terminal)

    def assets(self, status: Json, levels: dict[str, int]) -> None:
        """The table of assets, as they are now."""
        if self._live is None:
            return
        now = parse_time(status["at"])
        made = [one for one in status["assets"] if one["assetId"] in levels]
        rows = [
            _row(one, levels, now) for one in sorted(made, key=lambda one: (levels[one["assetId"]], one["assetId"]))
        ]
        shown = table(["ASSET", "STATE", "VERSION", "ROWS", "AGE", ""], rows)
        self._live.update(Padding(self._drawn(shown), (1, 0, 0, 0)), refresh=True)

    def _drawn(self, shown: ink.Table) -> Group:
        """Return a table of the command line as rich prints it."""
        width = self._console.width if self._console.is_terminal else None
        return Group(*(Text.from_ansi(line.painted) for line in shown.lines(width)))


def _row(one: Json, levels: dict[str, int], now: datetime) -> list[str | ink.Text]:
    age = f"{(now - parse_time(one['producedAt'])).total_seconds():.0f} s" if one["producedAt"] else "-"
    name = "  " * (levels[one["assetId"]] - 1) + one["assetId"]
    return [name, coloured(one["state"]), number(one["version"]), number(one["rows"]), age, hold_words(one["hold"])]
