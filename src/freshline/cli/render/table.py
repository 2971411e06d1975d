"""Tables as data: columns, rows, and which columns give way on a narrow terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from freshline.cli.render.text import Text, clean


class Column(NamedTuple):
    """A column of a table.

    wraps: its cells are sentences, which may be wrapped at spaces down to this width. 0: they are never broken.
    drop: if the table is too wide, the column with the highest number is left out first; 0 is never left out.
    """

    name: str
    wraps: int = 0
    drop: int = 0


Columns = Sequence[str | Column]


class Table(NamedTuple):
    """Rows under named columns."""

    columns: tuple[Column, ...]
    rows: list[list[Text]]
    title: str | None = None
    indent: int = 0

    @classmethod
    def of(
        cls,
        columns: Columns,
        rows: Iterable[Sequence[str | Text]],
        *,
        title: str | None = None,
        indent: int = 0,
    ) -> Table:
        """Make a table of names and cells."""
        given = (Column(one) if isinstance(one, str) else one for one in columns)
        heads = tuple(one._replace(name=clean(one.name)) for one in given)  # names may be those of users' columns
        cells = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
        return cls(heads, cells, clean(title) if title else None, indent)

    def select(self, indexes: Sequence[int]) -> Table:
        """Return the table with some of its columns."""
        columns = tuple(self.columns[index] for index in indexes)
        return self._replace(columns=columns, rows=[[row[index] for index in indexes] for row in self.rows])
