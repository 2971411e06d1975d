"""Drawing with rich: colours, and tables that fit on a terminal.

Only `output` and the live displays import this module, and only when there is something to draw: rich takes a fifth of
the time of a short command.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from typing import IO

from rich import text as rich_text
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from rich.table import Table as Grid

from freshline.cli.render.table import Column, Table
from freshline.cli.render.text import Text

GAP = 2
UNLIMITED = 1_000_000
WORD = re.compile(r"^\s+\S+|\S+")  # an indented first word is not broken from its indentation


def painted(text: Text) -> str:
    """Return the text with the control codes of its styles."""
    system = ColorSystem.EIGHT_BIT
    return "".join(Style.parse(style).render(part, color_system=system) for part, style in text.pieces if part)


def drawn(text: Text) -> rich_text.Text:
    """Return the text as rich has it."""
    return rich_text.Text.assemble(*text.pieces)


def console(file: IO[str], *, colours: bool, width: int | None = None) -> Console:
    """Return a console that prints exactly what it is given."""
    return Console(
        file=file,
        highlight=False,
        markup=False,
        emoji=False,
        color_system="256" if colours else None,
        force_terminal=file.isatty(),
        width=width,
    )


def table_lines(table: Table, width: int | None, *, colours: bool) -> Iterator[str]:
    """Yield the lines of a table that is at most `width` columns wide; None: as wide as it is."""
    plain = console(io.StringIO(), colours=False, width=UNLIMITED)
    system = ColorSystem.EIGHT_BIT if colours else None
    room = None if width is None else width - table.indent
    if table.title:
        yield Style(bold=True).render(table.title, color_system=system)
    for line in plain.render_lines(grid(table, room), plain.options, pad=False):
        parts = [(part.text, part.style) for part in line]
        while parts and not parts[-1][0].strip(" "):
            parts.pop()
        if parts:
            parts[-1] = (parts[-1][0].rstrip(" "), parts[-1][1])
        text = "".join(style.render(part, color_system=system) if style else part for part, style in parts)
        yield " " * table.indent + text if text else ""
    if room is not None and (left_out := _left_out(table, room)):
        note = f"(not shown in {width} columns: {', '.join(left_out)})"
        yield Style(dim=True).render(" " * table.indent + note, color_system=system)


def grid(table: Table, width: int | None = None) -> Grid:
    """Lay a table out in at most `width` columns.

    Columns of sentences are wrapped first. If that does not suffice, empty columns and then those that may be dropped
    are left out. If that does not suffice either, every row becomes a record with one line per column.
    """
    if width is None:
        return _side_by_side(table, _natural(table))
    kept = _kept(table, width)
    if kept is None:
        return _records(table, width)
    shown = table.select(kept)
    return _side_by_side(shown, _shared(shown, width))


def _side_by_side(table: Table, widths: Sequence[int]) -> Grid:
    named = any(column.name for column in table.columns)
    drawn_table = Grid(box=None, padding=(0, GAP, 0, 0), pad_edge=False, show_header=named, header_style="bold")
    for column, width in zip(table.columns, widths, strict=True):
        drawn_table.add_column(rich_text.Text(column.name), width=width, overflow="fold")
    for row in table.rows:
        drawn_table.add_row(*map(drawn, row))
    return drawn_table


def _records(table: Table, width: int) -> Grid:
    shown = [one for number, one in enumerate(table.columns) if any(row[number].plain for row in table.rows)]
    label = min(max((cell_len(column.name) for column in shown), default=0), max(1, width - GAP - 2))
    records = Grid.grid(padding=(0, GAP, 0, 0), pad_edge=False)
    records.add_column(width=label, style="bold", overflow="fold")
    records.add_column(width=max(2, width - label - GAP), overflow="fold")
    for number, row in enumerate(table.rows):
        if number:
            records.add_row("", "")
        for column, cell in zip(table.columns, row, strict=True):
            if cell.plain:
                records.add_row(rich_text.Text(column.name), drawn(cell))
    return records


def _kept(table: Table, width: int) -> list[int] | None:
    """Return the columns that fit; None if even those that may not be dropped do not."""
    least = _least(table)
    kept = list(range(len(table.columns)))
    while sum(least[one] for one in kept) + GAP * (len(kept) - 1) > width:
        empty = [one for one in kept if not any(row[one].plain for row in table.rows)]
        first = empty[-1] if empty else max(kept, key=lambda one: table.columns[one].drop)
        if not empty and table.columns[first].drop == 0:
            return None
        kept.remove(first)
    return kept


def _left_out(table: Table, width: int) -> list[str]:
    kept = _kept(table, width)
    gone = [one for one in range(len(table.columns)) if kept is not None and one not in kept]
    return [table.columns[one].name for one in gone if any(row[one].plain for row in table.rows)]


def _shared(table: Table, width: int) -> list[int]:
    """Give every column what it needs at least, and the rest to the columns of sentences in equal parts."""
    natural, widths = _natural(table), _least(table)
    spare = width - GAP * (len(widths) - 1) - sum(widths)
    hungry = sorted(range(len(widths)), key=lambda one: natural[one] - widths[one])
    for number, one in enumerate(hungry):
        more = min(natural[one] - widths[one], spare // (len(hungry) - number))
        widths[one] += more
        spare -= more
    return widths


def _natural(table: Table) -> list[int]:
    return [max(map(cell_len, _lines(column, table.rows, index))) for index, column in enumerate(table.columns)]


def _least(table: Table) -> list[int]:
    widths = _natural(table)
    for index, column in enumerate(table.columns):
        if column.wraps:
            longest = max(map(cell_len, _words(column, table.rows, index)))
            widths[index] = min(widths[index], max(column.wraps, longest))
    return widths


def _lines(column: Column, rows: Sequence[Sequence[Text]], index: int) -> list[str]:
    return [column.name, *(line for row in rows for line in row[index].plain.expandtabs().split("\n"))]


def _words(column: Column, rows: Sequence[Sequence[Text]], index: int) -> list[str]:
    return [word for line in _lines(column, rows, index) for word in WORD.findall(line)] or [""]
