"""Where answers go: tables and sentences for people, one JSON document for programs. Stdout is the answer alone."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import StringIO
from typing import IO, Any

import click

from freshline.cli.render.table import Table
from freshline.cli.render.text import Text

_captured: ContextVar[StringIO | None] = ContextVar("freshline_captured", default=None)
STATE_COLOURS = {
    "retired": "dim",
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
    "lost": "dark_orange",
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


def print_json(document: Any, *, line: bool = False) -> None:
    """Print one document on stdout; `line`: on a single line, for followers."""
    click.echo(json.dumps(document, indent=None if line else 2, ensure_ascii=False, default=str))


def coloured(state: str) -> Text:
    """Return a state or an outcome in its colour."""
    return Text((state, STATE_COLOURS.get(state, "")))


def show(*parts: str | Text | Table, hang: int = 0) -> None:
    """Print tables and sentences on stdout. On a terminal they are made to fit; a pipe gets every line whole."""
    file = _captured.get() or sys.stdout
    for part in parts:
        if isinstance(part, Table):
            _write_table(part, file)
        else:
            write_sentence(part, file, hang=hang)


@contextmanager
def captured() -> Iterator[StringIO]:
    """Collect what the block shows, as a pipe would get it. Other threads are not affected."""
    file = StringIO()
    token = _captured.set(file)
    try:
        yield file
    finally:
        _captured.reset(token)


def message(text: str) -> None:
    """Print a sentence about the answer on stderr."""
    write_sentence(text, _captured.get() or sys.stderr)


def warn(warnings: Iterable[str]) -> None:
    """Print warnings on stderr. They do not change the exit code."""
    for one in warnings:
        message(f"warning: {one}")


def write_sentence(line: str | Text, file: IO[str], *, hang: int = 0) -> None:
    """Print text, wrapped at spaces on a terminal; see `Text.wrapped`."""
    text = line if isinstance(line, Text) else Text(line)
    width = terminal_width(file)
    for one in [text] if width is None else text.wrapped(width, hang):
        write_line(one, file)


def write_line(line: str | Text, file: IO[str]) -> None:
    """Print text as it is: data of users must not be changed by line breaks."""
    text = line if isinstance(line, Text) else Text(line)
    colours = colourful(file)
    click.echo(_painted(text) if colours else text.plain, file=file, color=colours)


def colourful(file: IO[str]) -> bool:
    """Return whether to use colours: https://no-color.org, and FORCE_COLOR as its opposite."""
    if os.environ.get("NO_COLOR") or file is _captured.get():
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (file.isatty() and os.environ.get("TERM") != "dumb")


def terminal_width(file: IO[str]) -> int | None:
    """Return the width of the terminal; None if the file is not a terminal."""
    if not file.isatty():
        return None
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(file.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _painted(text: Text) -> str:
    if not any(style for _, style in text.pieces):
        return text.plain
    from freshline.cli.render.terminal import painted  # noqa: PLC0415 - rich is imported only to draw

    return painted(text)


def _write_table(table: Table, file: IO[str]) -> None:
    from freshline.cli.render.terminal import table_lines  # noqa: PLC0415 - rich is imported only to draw

    colours = colourful(file)
    for line in table_lines(table, terminal_width(file), colours=colours):
        click.echo(line, file=file, color=colours)
