"""The comparison as text, for a terminal and for docs/comparison.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import page

NAME = "docs/comparison.md"
BEGIN = "<!-- results: written by `python -m bench peers` -->"
END = "<!-- end of results -->"
NOTHING = "-"
Column = Mapping[str, Any]


def rows(columns: Sequence[Column]) -> Iterator[tuple[str, list[str]]]:
    """Yield each measurement with the cell of each system."""
    for what, path in (
        ("report to run created, 100 assets", ("idle", "created")),
        ("report to first result, 100 assets", ("idle", "first")),
        ("report to result three layers below, 100 assets", ("idle", "last")),
        ("report to run created, 1,000 assets", ("large", "created")),
        ("evaluation that asks for runs, 100 assets", ("idle", "ticks", "busy")),
        ("evaluation that asks for runs, 1,000 assets", ("large", "ticks", "busy")),
    ):
        yield what, [_seconds(_at(column, path)) for column in columns]
    for what, kind in (("one update during a run", "one"), ("three updates during a run", "burst")):
        yield what, [_interrupted(_at(column, ("during", kind))) for column in columns]


def show(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines for a terminal: each measurement, and below it a line per system."""
    columns = document["columns"]
    width = max((len(title(column)) for column in columns), default=0)
    for what, cells in rows(columns):
        yield f"  {what}"
        for column, cell in zip(columns, cells, strict=True):
            if cell != NOTHING:
                yield f"    {title(column):{width}}  {cell}"
    yield from (f"  {sentence}" for sentence in document["notes"])


def write(document: Mapping[str, Any], path: Path) -> None:
    """Write the results into the page."""
    page.put(path, BEGIN, END, lines(document))


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the date, the machine, the versions and the table."""
    machine, columns = document["machine"], document["columns"]
    yield (
        f"Measured on {document['at'][:10]} by `python -m bench peers` in {document['seconds'] / 60:.0f} minutes:"
        f" {machine['cores']} cores ({machine['architecture']}), {machine['memory_gb']} GB, {machine['system']},"
        f" Python {machine['python']}, PostgreSQL {document['server']['server_version']} for all, one system at a time."
        " Times are seconds: the median, and in brackets the smallest and the largest."
    )
    yield ""
    yield f"| | {' | '.join(title(column) for column in columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for what, cells in rows(columns):
        yield f"| {what} | {' | '.join(cells)} |"
    for sentence in document["notes"]:
        yield ""
        yield sentence


def title(column: Column) -> str:
    """Return a system with its version and configuration."""
    return f"{column['system']} {column['version']}, {column['settings']}"


def _at(column: Column, path: Sequence[str]) -> Any:
    found: Any = column
    for name in path:
        found = (found or {}).get(name)
    return found


def _seconds(value: Mapping[str, Any] | None) -> str:
    if value is None:
        return NOTHING
    return f"{_short(value['median'])} ({_short(value['low'])} to {_short(value['high'])})"


def _short(seconds: float) -> str:
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.1f}"


def _interrupted(value: Mapping[str, Any] | None) -> str:
    """Return whether an update was lost, the runs after it per round, and whether two overlapped."""
    if value is None:
        return NOTHING
    lost = f"**lost** {value['lost']} of {value['rounds']} times" if value["lost"] else "not lost"
    more = f"runs after it: {', '.join(map(str, value['more']))}"
    return f"{lost}; {more}{'; **two at once**' if value['overlapped'] else ''}"
