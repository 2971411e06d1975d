"""A live view on a terminal: sentences and tables that are drawn again as they change."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from freshline.cli.render import output
from freshline.cli.render.table import Table
from freshline.cli.render.text import Text

if TYPE_CHECKING:
    from rich.console import Group

REFRESH_HZ = 4
Parts = Sequence[str | Text | Table]


@contextmanager
def live(parts: Callable[[], Parts]) -> Iterator[Callable[[], None]]:
    """Draw the parts until the block ends, then remove them. The block calls the yielded function after a change."""
    from rich.live import Live  # noqa: PLC0415 - rich is imported only to draw

    from freshline.cli.render.terminal import console  # noqa: PLC0415

    colours = output.colourful(sys.stdout)
    screen = console(sys.stdout, colours=colours)

    def render() -> Group:
        return _group(list(lines(parts(), screen.size.width, colours=colours)), screen.size.height)

    with Live(
        console=screen,
        get_renderable=render,
        refresh_per_second=REFRESH_HZ,
        vertical_overflow="crop",
        transient=True,
    ) as view:
        yield view.refresh


def lines(parts: Parts, width: int, *, colours: bool) -> Iterator[str]:
    """Yield the lines of sentences and tables for a terminal of this width."""
    from freshline.cli.render.terminal import painted, table_lines  # noqa: PLC0415 - rich is imported only to draw

    for part in parts:
        if isinstance(part, Table):
            yield from table_lines(part, width, colours=colours)
            continue
        text = part if isinstance(part, Text) else Text(part)
        yield from (painted(line) if colours else line.plain for line in text.wrapped(width))


def _group(shown: list[str], height: int) -> Group:
    from rich.console import Group  # noqa: PLC0415 - rich is imported only to draw
    from rich.text import Text as Line  # noqa: PLC0415

    most = max(2, height - 1)
    if len(shown) > most:
        shown[most - 1 :] = [f"… {len(shown) - most + 1} more lines; a larger terminal shows them"]
    return Group(*(Line.from_ansi(line, no_wrap=True, overflow="crop") for line in shown))
