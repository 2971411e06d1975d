"""Where answers go: tables for people on a terminal, one JSON document for programs, stdout for nothing else."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import IO, Any

import click

from freshline.cli.render.text import Table, Text

STATE_COLOURS = {
    "source": "cyan",
    "running": "bright-blue",
    "missing": "magenta",
    "failing": "bold red",
    "waiting": "yellow",
    "stale": "orange",
    "fresh": "green",
    "queued": "yellow",
    "succeeded": "green",
    "failed": "bold red",
    "canceled": "dim",
    "run": "bright-blue",
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


def print_json(document: Any, *, line: bool = False) -> None:
    """One document on stdout; `line`: on a single line, for followers."""
    click.echo(json.dumps(document, indent=None if line else 2, ensure_ascii=False, default=str))


def coloured(word: str) -> Text:
    """A state or an outcome in its colour."""
    return Text((word, STATE_COLOURS.get(word, "")))


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, title: str | None = None, indent: int = 0
) -> Table:
    """A plain table."""
    cells = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    return Table(columns, cells, title, indent)


def show(*parts: str | Text | Table) -> None:
    """Print tables and texts on stdout. Cells are folded to fit on a terminal; a pipe gets them whole."""
    width = _width(sys.stdout)
    for part in parts:
        for line in part.lines(width) if isinstance(part, Table) else (part,):
            write_line(line, sys.stdout)


def write_line(line: str | Text, file: IO[str]) -> None:
    """Print one line, however long: a terminal wraps it."""
    text = line if isinstance(line, Text) else Text(line)
    painted = colourful(file)
    click.echo(text.painted if painted else text.plain, file=file, color=painted)


def colourful(file: IO[str]) -> bool:
    """Whether colours are wanted there, as people usually say it: https://no-color.org and its counterpart."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (file.isatty() and os.environ.get("TERM") != "dumb")


def say(text: str) -> None:
    """A sentence about the answer, on stderr so that stdout stays the answer."""
    write_line(text, sys.stderr)


def _width(file: IO[str]) -> int | None:
    if not file.isatty():
        return None
    from shutil import get_terminal_size  # noqa: PLC0415 - a pipe does without it

    return get_terminal_size().columns
