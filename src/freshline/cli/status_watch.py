"""`freshline status --watch`: the status as it changes. A live view on a terminal, a line per change elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from time import sleep
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from freshline.cli.render import output
from freshline.cli.render.decisions import hold_text
from freshline.cli.render.format import moment
from freshline.cli.render.status import state_text
from freshline.cli.render.table import Table
from freshline.cli.render.text import Text
from freshline.errors import ApiError, DatabaseError
from freshline.model.documents.status import AssetStatus, Status

if TYPE_CHECKING:
    from rich.console import Console, Group

POLL_S = 1.0
REFRESH_HZ = 4

Read = Callable[[], Status]
Parts = Callable[[Status], Sequence[str | Table]]


class Change(NamedTuple):
    """An asset whose state, version or hold differs from before."""

    at: str
    asset: AssetStatus


def watch(read: Read, parts: Parts, *, as_json: bool) -> NoReturn:
    """Show the status until the user interrupts. `parts`: what to draw of a status, on a terminal."""
    if as_json or not sys.stdout.isatty():
        _print_changes(read, as_json=as_json)
    _draw(read, parts)


def changes(before: Status | None, now: Status) -> Iterator[Change]:
    """Yield the assets that changed; all of them at first."""
    known = {one["assetId"]: _mark(one) for one in before["assets"]} if before else {}
    for one in now["assets"]:
        if known.get(one["assetId"]) != _mark(one):
            yield Change(now["at"], one)


def _mark(one: AssetStatus) -> tuple[Any, ...]:
    hold = one["hold"]
    return one["state"], one["needsDecision"] is None, one["version"], one["dataVersion"], hold and hold["reason"]


def _print_changes(read: Read, *, as_json: bool) -> NoReturn:
    before: Status | None = None
    while True:
        found = _read(read, first=before is None)
        if isinstance(found, str):
            output.message(found)
        else:
            for change in changes(before, found):
                _print(change, as_json=as_json)
            before = found
        sys.stdout.flush()
        sleep(POLL_S)


def _print(change: Change, *, as_json: bool) -> None:
    one = change.asset
    if as_json:
        output.print_json({"at": change.at, **one}, line=True)
        return
    held = hold_text(one["hold"])
    version = "" if one["version"] is None else f" version {one['version']}"
    output.write_line(
        f"{moment(change.at)} {one['assetId']} {state_text(one)}{version}{f': {held}' if held else ''}", sys.stdout
    )


def _read(read: Read, *, first: bool) -> Status | str:
    """Return the status, or a sentence while it cannot be read. The first reading raises its error."""
    import psycopg  # noqa: PLC0415 - help must not load the driver

    try:
        return read()
    except (DatabaseError, ApiError, psycopg.Error) as error:
        if first:
            raise
        return f"no answer, trying again: {str(error).strip().splitlines()[0]}"


def _draw(read: Read, parts: Parts) -> NoReturn:
    from rich.live import Live  # noqa: PLC0415 - rich is imported only to draw

    from freshline.cli.render.terminal import console  # noqa: PLC0415

    colours = output.colourful(sys.stdout)
    screen = console(sys.stdout, colours=colours)
    view = View(screen, parts, colours=colours)
    view.show(_read(read, first=True))
    with Live(console=screen, get_renderable=view.render, refresh_per_second=REFRESH_HZ, vertical_overflow="crop"):
        while True:
            sleep(POLL_S)
            view.show(_read(read, first=False))


class View:
    """What the terminal shows. It is drawn for the size that the terminal has at that time."""

    def __init__(self, screen: Console, parts: Parts, *, colours: bool) -> None:
        self._screen = screen
        self._parts = parts
        self._colours = colours
        self._found: Status | None = None
        self._note = ""

    def show(self, found: Status | str) -> None:
        """Show a status, or keep the last one and say why."""
        if isinstance(found, str):
            self._note = found
        else:
            self._found, self._note = found, ""

    def render(self) -> Group:
        """Return the lines that fit on the terminal."""
        from rich.console import Group  # noqa: PLC0415 - rich is imported only to draw
        from rich.text import Text as Line  # noqa: PLC0415

        size = self._screen.size
        lines = list(self._lines(size.width))
        most = max(2, size.height - 1)
        if len(lines) > most:
            left = len(lines) - most + 1
            lines[most - 1 :] = [f"… {left} more lines; a pattern such as 'sales.*' or a larger terminal shows them"]
        return Group(*(Line.from_ansi(line, no_wrap=True, overflow="crop") for line in lines))

    def _lines(self, width: int) -> Iterator[str]:
        from freshline.cli.render.terminal import painted, table_lines  # noqa: PLC0415 - rich is imported only to draw

        found = self._found
        if found is None:
            return
        title = Text((f"status at {moment(found['at'])}; Ctrl-C ends it", "dim"))
        sentences = (f"note: {note}" for note in found["notes"])
        for part in (title, *self._parts(found), *sentences, *([self._note] if self._note else [])):
            if isinstance(part, Table):
                yield from table_lines(part, width, colours=self._colours)
                continue
            text = part if isinstance(part, Text) else Text(part)
            yield from (painted(line) if self._colours else line.plain for line in text.wrapped(width))
