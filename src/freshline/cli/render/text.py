"""Styled text without control characters. `terminal` draws it with rich; a pipe gets it plain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# Sequences that colour, move or clear, then all other control characters but the tab and the end of a line: text of
# users' programs and data must not be able to act on a terminal.
CONTROL = r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]"

Piece = tuple[str, str]


class Text:
    """Pieces of text, each with a style in the syntax of rich. Control characters are removed."""

    __slots__ = ("pieces",)

    def __init__(self, *parts: str | Piece | Text) -> None:
        self.pieces: list[Piece] = []
        for part in parts:
            if isinstance(part, Text):
                self.pieces += part.pieces
            else:
                text, style = (part, "") if isinstance(part, str) else part
                self.pieces.append((clean(text), style))

    @classmethod
    def join(cls, separator: str, texts: Iterable[Text | str]) -> Text:
        """Concatenate texts with a separator between them."""
        parts = [part for text in texts for part in (separator, text)]
        return cls(*parts[1:])

    @property
    def plain(self) -> str:
        """Return the text without styles."""
        return "".join(text for text, _ in self.pieces)

    def __str__(self) -> str:
        return self.plain

    def wrapped(self, width: int, hang: int = 0) -> Iterator[Text]:
        """Yield lines of at most `width` characters, broken at spaces only.

        Continuation lines keep the indentation of their line, plus `hang`. A word that is longer than a line stays
        whole: the terminal folds it, and it can still be copied.
        """
        start = 0
        plain = self.plain
        for line in plain.split("\n"):
            indent = min(len(line) - len(line.lstrip(" ")) + hang, width // 2)
            ends = [start + one for one in [*_breaks(line, width, indent), len(line)]]
            for number, end in enumerate(ends):
                part = self._slice(start, start + len(plain[start:end].rstrip(" ")))
                yield Text(" " * indent, part) if number else part
                start = end
            start += 1

    def _slice(self, start: int, end: int) -> Text:
        parts: list[Piece] = []
        for text, style in self.pieces:
            if kept := text[max(0, start) : max(0, end)]:
                parts.append((kept, style))
            start, end = start - len(text), end - len(text)
        return Text(*parts)


def clean(text: str) -> str:
    """Remove control sequences and control characters."""
    return text if text.isprintable() else re.sub(CONTROL, "", text)


def _breaks(line: str, width: int, indent: int) -> list[int]:
    """Return where a line is broken: before each word that does not fit."""
    found = []
    used, begun = 0, False
    for match in re.finditer(r"^\s+|\S+\s*", line):
        word = match.group().rstrip()
        if word and begun and used + len(word) > width:
            found.append(match.start())
            used = indent
        used += len(match.group())
        begun = begun or bool(word)
    return found
