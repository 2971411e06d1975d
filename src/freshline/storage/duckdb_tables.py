"""The rows of a table as a query of DuckDB, for `freshline show` and for jobs without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from freshline.storage.layout import rows_at

if TYPE_CHECKING:
    import duckdb

    from freshline.storage.base import Storage

READERS = {"parquet": "read_parquet", "csv": "read_csv", "json": "read_json"}
NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"  # how Spark names the directory of rows whose value is null
TYPES = {
    "boolean": "BOOLEAN",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
    "binary": "BLOB",
}

Field = Mapping[str, Any]  # of a schema of Spark: `name` and `type`


class TableFiles(NamedTuple):
    """The files of a table. `names`: directories, relative to the warehouse; `rows`: None if the number is not known.

    `split`: the lower-case names of the columns that are in the names of directories. `divided`: the names of
    directories are partitions, whose columns are in the files too.
    """

    kind: str
    names: Sequence[str]
    split: frozenset[str]
    fields: Sequence[Field]
    rows: int | None
    divided: bool = False

    @classmethod
    def of(cls, location: Mapping[str, Any], fields: Sequence[Field], rows: int | None) -> TableFiles:
        """Return the files at a location."""
        split = frozenset(name.lower() for name in location.get("partitionBy") or ())
        names = [rows_at(location, path) for path in location.get("paths", ())]
        table = cls(location["format"], names, split, fields, rows)
        return table.with_columns(location.get("partition", {}).get("columns", {}))

    def with_columns(self, columns: Iterable[str]) -> TableFiles:
        """Return the files of partitions with these columns."""
        named = frozenset(name.lower() for name in columns)
        # DuckDB reads all names of directories as columns, or none.
        return self._replace(split=self.split | named if self.split else self.split, divided=bool(named))


def table_query(
    connection: duckdb.DuckDBPyConnection, storage: Storage, table: TableFiles, paths: Sequence[str]
) -> str:
    """Return the query of all rows. `paths`: the addresses of the directories or files."""
    if not table.split:
        # The value in a file has the right type; DuckDB would guess that of a directory's name.
        return f"FROM {_files(table.kind, paths, *(['hive_partitioning = false'] if table.divided else []))}"
    # Freshline wrote it, so there is a schema.
    has_files = [any(name.endswith(f".{table.kind}") for name in storage.sizes(path)) for path in table.names]
    filled = _filled(connection, table, dict(zip(paths, has_files, strict=True)))
    if not filled:
        return no_rows(table.fields)
    found = _files(table.kind, filled, "hive_partitioning = true", "hive_types_autocast = false")
    there = {name.lower() for name in connection.sql(f"FROM {found}").columns}
    columns = ", ".join(_column(field, table.split, there) for field in table.fields)
    return f"SELECT {columns} FROM {found}"  # noqa: S608 - names and paths are quoted


def no_rows(fields: Iterable[Field]) -> str:
    """Return a query without rows that has these columns."""
    return f"SELECT {', '.join(map(null_column, fields))} WHERE false"


def null_column(field: Field) -> str:
    """Return a column of nulls."""
    return f"CAST(NULL AS {duckdb_type(field['type'])}) AS {quoted(field['name'])}"


def quoted(name: str) -> str:
    """Return the name of a column, quoted."""
    return '"' + name.replace('"', '""') + '"'


def text_list(texts: Iterable[str]) -> str:
    """Return texts as a list of literals."""
    return "[" + ", ".join(map(literal, texts)) + "]"


def literal(text: str) -> str:
    """Return a text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def duckdb_type(kind: Any) -> str:
    """Return DuckDB's name of a type in a schema of Spark; unknown types are text."""
    match kind:
        case {"type": "array", "elementType": element}:
            return f"{duckdb_type(element)}[]"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"MAP({duckdb_type(key)}, {duckdb_type(value)})"
        case {"type": "struct", "fields": fields}:
            return f"STRUCT({', '.join(quoted(one['name']) + ' ' + duckdb_type(one['type']) for one in fields)})"
        case str() if kind.startswith("decimal("):
            return kind.upper()
    return TYPES.get(str(kind), "VARCHAR")


def is_file(path: str) -> bool:
    """Return whether a path is that of a file on this machine."""
    return "://" not in path and Path(path).is_file()


def store_error(error: Exception) -> str | None:
    """Return the error of a store that DuckDB read from, without the traceback that DuckDB adds."""
    if "Traceback (most recent call last)" not in str(error):
        return None
    lines = re.findall(r"^\w*Error: (.*)$", str(error), re.MULTILINE)
    return lines[-1] if lines else None


def _filled(connection: duckdb.DuckDBPyConnection, table: TableFiles, paths: Mapping[str, bool]) -> list[str]:
    """Return the directories with files: Spark writes none for an empty partitioned table, and DuckDB needs one.

    If rows are missing then, files are lost, and DuckDB has to report that.
    """
    filled = [path for path, has_files in paths.items() if has_files]
    if len(filled) == len(paths) or table.rows is None:
        return filled
    query = f"SELECT count(*) FROM {_files(table.kind, filled)}" if filled else "SELECT 0"  # noqa: S608 - quoted
    return filled if connection.execute(query).fetchall() == [(table.rows,)] else list(paths)


def _files(kind: str, paths: Iterable[str], *options: str) -> str:
    globs = text_list(path if is_file(path) else f"{path}/**/*.{kind}" for path in paths)
    return f"{READERS[kind]}({', '.join([globs, 'union_by_name = true', *options])})"


def _column(field: Field, split: frozenset[str], there: set[str]) -> str:
    """Return one column of a partitioned table: from the files, or from the names of their directories."""
    name = quoted(field["name"])
    if field["name"].lower() in split:
        return f"CAST({_partition_value(name, field['type'])} AS {duckdb_type(field['type'])}) AS {name}"
    return name if field["name"].lower() in there else null_column(field)


def _partition_value(name: str, kind: Any) -> str:
    """Return the value in a directory's name as an expression that can be cast."""
    text = f"nullif({name}, '{NULL_DIRECTORY}')"
    match kind:
        case "timestamp":  # every run computes in UTC
            return f"{text} || '+00'"
        case "binary":
            return f"encode({text})"
    return text
