"""Where answers go: tables for people on a terminal, one JSON document for programs, stdout for nothing else."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import IO, Any

import click
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

# Wide enough for a pipe: nobody wants cells cut to 80 columns in a file.
PIPE_WIDTH = 200

STATE_COLOURS = {
    "source": "cyan",
    "running": "bright_blue",
    "missing": "magenta",
    "failing": "bold red",
    "waiting": "yellow",
    "stale": "dark_orange",
    "fresh": "green",
    "queued": "yellow",
    "succeeded": "green",
    "failed": "bold red",
    "canceled": "dim",
    "run": "bright_blue",
    "hold": "yellow",
    "skip": "dim",
    "error": "bold red",
    "open": "bold red",
    "triggered": "green",
    "included": "green",
    "superseded": "cyan",
    "held": "yellow",
    "ignored": "dim",
    "pending": "yellow",
}


def console(file: IO[str] | None = None) -> Console:
    """A console on stdout as it is now."""
    target = sys.stdout if file is None else file
    return Console(file=target, highlight=False, emoji=False, width=None if target.isatty() else PIPE_WIDTH)


def print_json(document: Any, *, line: bool = False) -> None:
    """One document on stdout; `line`: on a single line, for followers."""
    click.echo(json.dumps(document, indent=None if line else 2, ensure_ascii=False, default=str))


def coloured(word: str) -> Text:
    """A state or an outcome in its colour."""
    return Text(word, style=STATE_COLOURS.get(word, ""))


def table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, title: str | None = None) -> Table:
    """A plain table. Cells are text, never markup: ids may contain brackets."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold", title_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return made


def show(*renderables: RenderableType) -> None:
    """Print tables and texts on stdout."""
    out = console()
    for renderable in renderables:
        out.print(renderable, markup=False)


def show_line(line: Text) -> None:
    """Print one line on stdout, however long: the terminal wraps it, a pipe gets it whole."""
    console().print(line, soft_wrap=True)


def say(text: str) -> None:
    """A sentence about the answer, on stderr so that stdout stays the answer."""
    click.echo(text, err=True)
