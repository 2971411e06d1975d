"""The first rows of a table as text: bounded in memory and in time, whatever is in the files."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Self

from freshline.errors import NotFoundError, WarehouseError
from freshline.model.documents.asset import Location, Snapshot
from freshline.storage.base import storage_at
from freshline.storage.duckdb_tables import duckdb_type, quoted
from freshline.storage.snapshot_rows import columns_of, connect, location_of

if TYPE_CHECKING:
    import duckdb

MOST_COLUMNS = 100
MOST_CHARS = 500
MOST_DIRECTORIES = 200
TIMEOUT_S = 10.0
SETTINGS = (
    "SET memory_limit = '256MB'",
    "SET threads = 1",
    "SET temp_directory = ''",
    "SET TimeZone = 'UTC'",
)
_AT_ONCE = (1, 8, 64)  # directories; most tables have one
_VIEW = "preview"


class Preview(NamedTuple):
    """The first rows. `truncated`: there are more rows; `cut`: there are more columns, or longer values."""

    columns: list[tuple[str, str]]
    rows: list[list[str | None]]
    truncated: bool
    cut: bool


def preview(warehouse: str, snapshot: Snapshot, limit: int, *, timeout_s: float = TIMEOUT_S) -> Preview:
    """Return up to `limit` rows of a snapshot of a table. Values are texts of up to 500 characters.

    Of a table with many directories, such as one per partition, only the first are read.
    """
    if snapshot["goneAt"] is not None:
        raise NotFoundError(f"version {snapshot['version']} of {snapshot['assetId']!r} was collected")
    location = location_of(snapshot)
    storage, fields = storage_at(warehouse), columns_of(snapshot)
    columns = [(field["name"], duckdb_type(field["type"])) for field in fields]
    rows: list[list[str | None]] = []
    left = len(location["paths"])
    with _Deadline(timeout_s) as deadline:
        for paths in _chunks(location["paths"]):
            part: Location = {**location, "paths": paths}
            with connect(storage, {**snapshot, "rows": None}, part, _VIEW, settings=SETTINGS) as connection:
                deadline.watch(connection)
                there = _columns(connection)
                columns = columns or list(there.items())
                rows += _read(connection, columns[:MOST_COLUMNS], there, limit + 1 - len(rows))
            left -= len(paths)
            if len(rows) > limit:
                break
    cut = len(columns) > MOST_COLUMNS or any(len(value or "") > MOST_CHARS for row in rows[:limit] for value in row)
    shown = [[None if value is None else value[:MOST_CHARS] for value in row] for row in rows[:limit]]
    return Preview(columns[:MOST_COLUMNS], shown, len(rows) > limit or left > 0, cut)


def _chunks(paths: Sequence[str]) -> Iterator[list[str]]:
    rest = islice(paths, MOST_DIRECTORIES)
    for size in _AT_ONCE:
        if found := list(islice(rest, size)):
            yield found
    while found := list(islice(rest, _AT_ONCE[-1])):
        yield found


def _columns(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    found = connection.sql(f'FROM "{_VIEW}"')
    return dict(zip(found.columns, map(str, found.types), strict=True))


def _read(
    connection: duckdb.DuckDBPyConnection, columns: Sequence[tuple[str, str]], there: dict[str, str], limit: int
) -> list[list[str | None]]:
    """Return rows as texts that are at most one character too long."""
    known = {name.lower() for name in there}
    texts = [
        f"left(CAST({quoted(name)} AS VARCHAR), {MOST_CHARS + 1})" if name.lower() in known else "NULL"
        for name, _ in columns
    ]
    query = f'SELECT {", ".join(texts) or "NULL"} FROM "{_VIEW}" LIMIT {limit}'  # noqa: S608 - names are quoted
    return [list(row[: len(columns)]) for row in connection.execute(query).fetchall()]


class _Deadline:
    """Interrupts the query of a connection when the time is over."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._over = threading.Event()
        self._timer = threading.Timer(seconds, self._interrupt)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def watch(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Interrupt this connection from now on."""
        self._connection = connection
        if self._over.is_set():
            raise WarehouseError(self._message)

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._timer.cancel()
        import duckdb  # noqa: PLC0415 - imported on demand

        if isinstance(error, duckdb.Error):
            raise WarehouseError(self._message if self._over.is_set() else str(error)) from None

    @property
    def _message(self) -> str:
        return f"reading took longer than {self._seconds:.0f} s"

    def _interrupt(self) -> None:
        self._over.set()
        if self._connection is not None:
            self._connection.interrupt()
