"""The columns of Parquet files, to find the file that cannot be read together with those before it.

DuckDB reads columns of different types as the type that holds all of them. For a number and a text that is a text, so
that a file with other types would change the values of all files without an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from freshline.storage.duckdb_tables import Field, duckdb_type, text_list

if TYPE_CHECKING:
    import duckdb

# Files with the same columns are one row. The root of a schema has the column id 0.
COLUMNS = """
SELECT columns, list(file_name) FROM (
    SELECT file_name, list((lower(name), duckdb_type, coalesce(num_children, 0)) ORDER BY column_id) AS columns
      FROM parquet_schema({files}) WHERE column_id > 0 GROUP BY file_name)
 GROUP BY columns
"""
WHOLE = re.compile(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT)|HUGEINT")
DECIMAL = re.compile(r"DECIMAL\(\d+,\s*(\d+)\)")
NESTED = re.compile(r"(STRUCT|MAP)\(.*|.*\[\]", re.DOTALL)
TIME = re.compile(r"DATE|TIMESTAMP.*")
TEXT = frozenset({"VARCHAR", "BLOB"})

Column = tuple[str, str, int]  # the name in lower case, the type, and the number of columns directly below


class Misfit(NamedTuple):
    """A file that does not fit, and why."""

    file: str
    why: str


def find_misfit(
    connection: duckdb.DuckDBPyConnection, files: Sequence[str], declared: Sequence[Field]
) -> Misfit | None:
    """Return the first file with a column that is not of the declared type, or of the type in the files before it.

    No value changes where integers, floating-point numbers, decimals of one scale or times differ in their size.
    """
    if len(files) < 2 and not declared:  # noqa: PLR2004 - one file cannot differ
        return None
    wanted = {str(field["name"]).lower(): duckdb_type(field["type"]) for field in declared}
    known: dict[str, str] = {}
    for file, columns in _first_files(connection, files):
        for path, kind in _flat(iter(columns)):
            if declared:
                why = _declared_otherwise(kind, wanted.get(path))
            else:
                why = _differs(kind, known.setdefault(path, kind))
            if why:
                return Misfit(file, f"its column '{path}' is {kind}, and {why}")
    return None


def _first_files(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> list[tuple[str, Sequence[Column]]]:
    """Return the first file with each set of columns, in the order of the files."""
    places = {name: place for place, name in enumerate(files)}
    found = connection.execute(COLUMNS.format(files=text_list(files))).fetchall()
    first = [(min(names, key=lambda name: places.get(name, 0)), columns) for columns, names in found]
    return sorted(first, key=lambda one: places.get(one[0], 0))


def _flat(columns: Iterator[Column], count: int | None = None, above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the type of `count` columns, all for None; those inside a nested column follow it."""
    for name, kind, below in islice(columns, count):
        yield f"{above}{name}", kind
        yield from _flat(columns, below, f"{above}{name}.")


def _differs(kind: str, before: str) -> str | None:
    """Return what the files before have; None if the values of both are read unchanged."""
    return None if _family(kind) == _family(before) else f"{before} in the files before it"


def _declared_otherwise(kind: str, declared: str | None) -> str | None:
    """Return what is declared; None if a value of this type can be read as one of it."""
    if declared is None or _fits(kind, declared):
        return None
    return f"the schema of the source declares {declared}"


def _fits(kind: str, declared: str) -> bool:
    if NESTED.fullmatch(kind) or NESTED.fullmatch(declared):
        return _family(kind) == _family(declared)
    return declared == "VARCHAR" or _group(kind) == _group(declared)


def _family(kind: str) -> str:
    """Return the same text for types whose values are read unchanged as the larger one of both."""
    if WHOLE.fullmatch(kind):
        return "integer"
    if scale := DECIMAL.fullmatch(kind):
        return f"decimal {scale[1]}"
    if kind.startswith("TIMESTAMP_"):
        return "TIMESTAMP"
    if nested := NESTED.fullmatch(kind):
        return nested[1] or "list"
    return "float" if kind == "DOUBLE" else kind.lower()


def _group(kind: str) -> str:
    if WHOLE.fullmatch(kind) or DECIMAL.fullmatch(kind) or kind in {"FLOAT", "DOUBLE"}:
        return "number"
    return "time" if TIME.fullmatch(kind) else "text" if kind in TEXT else kind
