"""Text in colours, and tables of it.

rich does this and much more, but to import it took a seventh of the time of a short command; it draws the live bars.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

CODES = {
    "bold": "1",
    "dim": "2",
    "reverse": "7",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "magenta": "35",
    "cyan": "36",
    "bright-blue": "94",
    "orange": "38;5;208",
}
GAP = "  "
NARROWEST = 6  # a column is not made narrower than this to fit on a terminal

# Sequences that colour, move or clear, then all other control characters but the tab and the end of a line: what users'
# programs and data say must not be able to do anything to a terminal.
CONTROL = r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]"

Piece = tuple[str, str]


class Text:
    """Pieces of text, each in a style: words of `CODES`. Control characters are left out."""

    __slots__ = ("pieces",)

    def __init__(self, *parts: str | Piece | Text) -> None:
        self.pieces: list[Piece] = []
        for part in parts:
            if isinstance(part, Text):
                self.pieces += part.pieces
            else:
                text, style = (part, "") if isinstance(part, str) else part
                self.pieces.append((_harmless(text), style))

    @classmethod
    def join(cls, between: str, texts: Iterable[Text | str]) -> Text:
        """The texts one after another, with the same between them."""
        parts = [part for text in texts for part in (between, text)]
        return cls(*parts[1:])

    @property
    def plain(self) -> str:
        """Without styles."""
        return "".join(text for text, _ in self.pieces)

    def __str__(self) -> str:
        return self.plain

    @property
    def painted(self) -> str:
        """With the codes that a terminal shows as styles."""
        return "".join(_paint(text, style) for text, style in self.pieces)

    def lines(self, width: int | None = None) -> list[Text]:
        """Its lines, folded to at most so many columns of a terminal."""
        lines: list[list[Piece]] = [[]]
        used = 0
        for text, style in self.pieces:
            for number, part in enumerate(text.split("\n")):
                if number:
                    lines.append([])
                    used = 0
                rest = part
                while width is not None and used + width_of(rest) > width:
                    fits = _fitting(rest, width - used) or int(used == 0)
                    lines[-1].append((rest[:fits], style))
                    lines.append([])
                    rest, used = rest[fits:], 0
                lines[-1].append((rest, style))
                used += width_of(rest)
        return [Text(*line) for line in lines]


def _harmless(text: str) -> str:
    return text if text.isprintable() else re.sub(CONTROL, "", text)


def _paint(text: str, style: str) -> str:
    codes = [CODES[word] for word in style.split()]
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes and text else text


def _fitting(text: str, room: int) -> int:
    """How many characters have room."""
    used = 0
    for number, character in enumerate(text):
        used += width_of(character)
        if used > room:
            return number
    return len(text)


def width_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


@dataclass(frozen=True, slots=True)
class Table:
    """Columns side by side, without lines around them. Cells that do not fit are folded, never cut."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Text]]
    title: str | None = None
    indent: int = 0

    def lines(self, width: int | None = None) -> Iterator[Text]:
        """As they are printed, in at most so many columns of a terminal."""
        if self.title:
            yield Text((self.title, "bold"))
        heads = [Text((name, "bold")) for name in self.columns]
        widths = self._widths(None if width is None else width - self.indent)
        for row in ([heads] if any(self.columns) else []) + [list(row) for row in self.rows]:
            cells = [cell.lines(most) for cell, most in zip(row, widths, strict=True)]
            for number in range(max(map(len, cells), default=0)):
                yield self._line([cell[number] if number < len(cell) else Text() for cell in cells], widths)

    def _line(self, cells: Sequence[Text], widths: Sequence[int]) -> Text:
        """One line of a row, padded up to its last cell that says something."""
        last = max((number for number, cell in enumerate(cells) if cell.plain), default=-1)
        parts: list[Text | str] = [" " * self.indent]
        for number, cell in enumerate(cells[: last + 1]):
            parts.append(cell)
            if number < last:
                parts.append(" " * (widths[number] - width_of(cell.plain)) + GAP)
        return Text(*parts)

    def _widths(self, width: int | None) -> list[int]:
        columns = zip(self.columns, *([cell.plain for cell in row] for row in self.rows), strict=True)
        widths = [max(width_of(line) for cell in column for line in cell.split("\n")) for column in columns]
        if width is None:
            return widths
        return _narrowed(widths, width - len(GAP) * (len(widths) - 1))


def _narrowed(widths: list[int], room: int) -> list[int]:
    """The widest columns give way first, as far as they can."""
    while (excess := sum(widths) - room) > 0 and max(widths) > NARROWEST:
        widest = max(widths)
        below = max([NARROWEST, *(one for one in widths if one < widest)])
        many = widths.count(widest)
        to = max(below, widest - -(-excess // many))
        widths = [to if one == widest else one for one in widths]
    return widths
