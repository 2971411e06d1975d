"""Reads pinned inputs without Spark: DuckDB over the files of tables, sources and deliveries."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from freshline.definitions.names import view_of
from freshline.errors import JobError, WarehouseError
from freshline.model.deliveries import Deliveries
from freshline.model.run import Location, PinnedInput
from freshline.storage.base import Storage, storage_at
from freshline.storage.duckdb_tables import (
    Field,
    TableFiles,
    no_rows,
    null_column,
    quoted,
    store_error,
    table_query,
)
from freshline.storage.layout import rows_at
from freshline.storage.parquet_columns import find_misfit
from freshline.storage.source_files import SourceFiles, files_at, remote_storage, source_query
from freshline.worker.partition_groups import cut_to_window, groups

if TYPE_CHECKING:
    from freshline.storage.duckdb_filesystem import DuckDBFilesystem

NO_EXTENSIONS = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
UNREADABLE = (duckdb.InvalidInputException, duckdb.IOException, duckdb.ConversionException)
FILE = re.compile(r"(?:[Ff]ile|pattern) ([\"'])(.+?)\1|^  file = (.+)$", re.MULTILINE)
LINE = re.compile(r"\b[Ll]ine:? (\d+)")
GONE = "it is no longer there"
DAMAGED = "it is damaged, or not in the format that the source declares"


class TableReader:
    """Gives the inputs of one step as relations of one DuckDB connection, so that a query can join them."""

    def __init__(self, warehouse: str, deliveries: Callable[[PinnedInput], Deliveries]) -> None:
        self._warehouse = warehouse
        self._deliveries = deliveries
        self._open: duckdb.DuckDBPyConnection | None = None
        self._filesystems: dict[str, DuckDBFilesystem] = {}

    def relation(self, pinned: PinnedInput, *, new: bool = False) -> duckdb.DuckDBPyRelation:
        """Return the rows of an input, or only those that are new to the step, as a lazy relation.

        All rows of an input are also the view that a query of Spark would have: `flights.clean` is `flights_clean`.
        """
        try:
            query = self._query(pinned, new=new) if pinned.partitions is None else self._divided(pinned, new=new)
            relation = cut_to_window(self._aligned(self._connection.sql(query), _fields(pinned)), pinned)
            if not new:
                relation.create_view(view_of(pinned.asset_id), replace=True)
        except (duckdb.Error, WarehouseError, OSError) as error:
            raise unreadable(pinned, error) from None
        return relation

    def arrow(self, pinned: PinnedInput, *, new: bool = False) -> Any:
        """Return the rows as a `pyarrow.Table`."""
        return self._loaded(pinned, "arrow", "pyarrow", lambda rows: rows.to_arrow_table(), new=new)

    def polars(self, pinned: PinnedInput, *, new: bool = False) -> Any:
        """Return the rows as a `polars.DataFrame`."""

        def load(rows: duckdb.DuckDBPyRelation) -> Any:
            import polars as pl  # noqa: PLC0415 - an optional package

            return pl.DataFrame(rows)

        return self._loaded(pinned, "polars", "polars", load, new=new)

    def paths(self, pinned: PinnedInput) -> tuple[str, ...]:
        """Return where the data is: the directories of a table, the path of a source, the paths of deliveries."""
        location = pinned.location or {}
        if pinned.partitions is not None:
            return tuple(path for one in pinned.partitions for path in self.paths(one))
        if pinned.deliveries is not None:
            return tuple(one.path for one in self._deliveries(pinned) if one.path is not None)
        if "paths" in location:
            storage = storage_at(self._warehouse)
            return tuple(storage.at(rows_at(location, path)) for path in _parts(pinned, since=None))
        return (str(location["path"]),) if "path" in location else ()

    def close(self) -> None:
        """Close the connection; its relations cannot be used afterwards."""
        if self._open is not None:
            self._open.close()
            self._open = None

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        if self._open is None:
            scratch = Path(tempfile.gettempdir()) / f"freshline-duckdb-{os.getpid()}"
            self._open = duckdb.connect(":memory:", config={**NO_EXTENSIONS, "temp_directory": str(scratch)})
            self._open.execute("SET TimeZone = 'UTC'")  # every run computes in UTC
        return self._open

    def _loaded(self, pinned: PinnedInput, method: str, package: str, load: Any, *, new: bool) -> Any:
        relation = self.relation(pinned, new=new)
        try:
            return load(relation)
        except ImportError as error:
            raise JobError(
                f"ctx.inputs[{pinned.asset_id!r}].{method}() needs the package {error.name or package!r}, which is not "
                "installed",
                hint=f"pip install 'freshline[{method}]', or use .duckdb(), which needs nothing more",
            ) from None
        except (duckdb.Error, OSError) as error:
            raise unreadable(pinned, error) from None

    def _query(self, pinned: PinnedInput, *, new: bool) -> str:
        location, since = pinned.location, pinned.since if new else None
        if location is None:
            raise JobError(f"asset {pinned.asset_id!r} has no data to read, only `.payload`")
        if pinned.deliveries is not None:
            return self._delivered(pinned, location, since)
        if "paths" not in location:
            whole = self._source(pinned, location, [str(location["path"])])
            return whole if since is None else f"FROM ({whole}) LIMIT 0"
        return self._table(pinned, location, since)

    def _divided(self, pinned: PinnedInput, *, new: bool) -> str:
        """Return the query of all partitions of an input; without any, one without rows."""
        queries = []
        for group in groups(pinned):
            location = group[0].location or {}
            if "paths" in location:
                names = [name for one in group for name in _parts(one, one.since if new else None)]
                queries.append(self._directories(group, names, location))
                continue
            read = [one for one in group if not new or one.since is None]
            whole = self._source(group[0], location, [str((one.location or {})["path"]) for one in read or group])
            queries.append(whole if read else f"FROM ({whole}) LIMIT 0")
        if queries:
            return " UNION ALL BY NAME ".join(f"({query})" for query in queries)
        return f"FROM ({self._query(replace(pinned, partitions=None), new=False)}) LIMIT 0"

    def _directories(self, group: Sequence[PinnedInput], names: Sequence[str], location: Location) -> str:
        """Return the query of directories of several partitions."""
        storage = storage_at(self._warehouse)
        self._attach(storage)
        known = {path: one for one in group for path in _parts(one, None)}
        files = [rows_at(known[name].location or {}, name) for name in names or list(known)[-1:]]
        # The names of directories are right already.
        plain = {key: value for key, value in location.items() if key != "partition"}
        columns = (location.get("partition") or {}).get("columns", {})
        table = TableFiles.of({**plain, "paths": files}, _fields(group[0]), None).with_columns(columns)
        query = table_query(self._connection, storage, table, [storage.at(name) for name in files])
        return query if names else f"FROM ({query}) LIMIT 0"

    def _table(self, pinned: PinnedInput, location: Location, since: int | None) -> str:
        storage, names = storage_at(self._warehouse), _parts(pinned, since)
        self._attach(storage)
        if not names:
            newest = self._table_query(storage, pinned, location, _parts(pinned, None)[-1:], None)
            return f"FROM ({newest}) LIMIT 0"
        return self._table_query(storage, pinned, location, names, pinned.rows if since is None else None)

    def _table_query(
        self, storage: Storage, pinned: PinnedInput, location: Location, names: Sequence[str], rows: int | None
    ) -> str:
        table = TableFiles.of({**location, "paths": names}, _fields(pinned), rows)
        return table_query(self._connection, storage, table, [storage.at(name) for name in table.names])

    def _delivered(self, pinned: PinnedInput, location: Location, since: int | None) -> str:
        deliveries = self._deliveries(pinned)
        chosen = [one.path for one in deliveries.after(since) if one.path is not None]
        if chosen:
            return self._source(pinned, location, chosen)
        if fields := _fields(pinned):
            return no_rows(fields)
        newest = next((one.path for one in reversed(deliveries) if one.path is not None), None)
        if newest is None:
            raise _no_columns(pinned)
        return f"FROM ({self._source(pinned, location, [newest])}) LIMIT 0"

    def _source(self, pinned: PinnedInput, location: Location, paths: Sequence[str]) -> str:
        files: list[str] = []
        for path in paths:
            storage = remote_storage(path)
            if storage is not None:
                self._attach(storage)
            found = files_at(path, storage)
            if not found:
                raise JobError(f"source {pinned.asset_id!r}: there are no files at {path}")
            files += found
        options = {str(name): str(value) for name, value in (location.get("options") or {}).items()}
        kind = str(location.get("format", "parquet"))
        if kind == "parquet" and (misfit := find_misfit(self._connection, files, _fields(pinned))):
            raise JobError(
                f"asset {pinned.asset_id!r} cannot be read: the input file {misfit.file}: {misfit.why}",
                hint=None if pinned.deliveries else "write the columns of all files of a source with the same types",
            )
        return source_query(SourceFiles(pinned.asset_id, kind, files, options, _fields(pinned)))

    def _attach(self, storage: Storage) -> None:
        """Let the connection read from a storage. DuckDB takes one file system per protocol."""
        address = str(storage)
        if "://" not in address:
            return
        from freshline.storage.duckdb_filesystem import DuckDBFilesystem  # noqa: PLC0415 - fsspec is slow to import
        from freshline.storage.remote import RemoteStorage  # noqa: PLC0415 - the same

        assert isinstance(storage, RemoteStorage)  # noqa: S101 - it has an address
        protocol = address.partition("://")[0]
        if protocol in self._filesystems:
            self._filesystems[protocol].add(address, storage)
        else:
            self._filesystems[protocol] = DuckDBFilesystem(address, storage)
            self._connection.register_filesystem(self._filesystems[protocol])

    @staticmethod
    def _aligned(rows: duckdb.DuckDBPyRelation, fields: Sequence[Field]) -> duckdb.DuckDBPyRelation:
        """Return the columns in the order of the schema; one that no file has is null."""
        there = {name.lower() for name in rows.columns}
        if not fields or rows.columns == [field["name"] for field in fields]:
            return rows
        columns = (quoted(one["name"]) if one["name"].lower() in there else null_column(one) for one in fields)
        return rows.project(", ".join(columns))


def _no_columns(pinned: PinnedInput) -> JobError:
    """Return the error of an append source without a file that says which columns it has."""
    known = pinned.deliveries
    skipped = known is not None and known.last > 0 and known.count == 0
    which, more = (" that is not skipped", "the next delivery is read; or ") if skipped else ("", "")
    return JobError(
        f"source {pinned.asset_id!r} has no delivery with a path{which}, so its columns are not known",
        hint=f"{more}declare its 'schema' in sources/, or look at `.deliveries` first",
    )


def unreadable(pinned: PinnedInput, error: Exception) -> JobError:
    """Return the error of an input that cannot be read, without the content of its files."""
    shown = (store_error(error) or concealed(error)) if isinstance(error, duckdb.Error) else None
    return JobError(f"asset {pinned.asset_id!r} cannot be read: {shown or str(error).splitlines()[0]}")


def concealed(error: BaseException) -> str | None:
    """Return a sentence for an error of reading a file; None for another error.

    Errors are visible with the scope `read`, and DuckDB quotes lines of the file.
    """
    text = str(error)
    if not isinstance(error, UNREADABLE) or (file := FILE.search(text)) is None:
        return None
    line = LINE.search(text)
    why = GONE if "No files found" in text else DAMAGED
    return f"the input file {file[2] or file[3]} cannot be read: {why}{f' (line {line[1]})' if line else ''}"


def _parts(pinned: PinnedInput, since: int | None) -> list[str]:
    parts = pinned.parts or [(0, path) for path in (pinned.location or {}).get("paths", ())]
    return [path for version, path in parts if since is None or version > since]


def _fields(pinned: PinnedInput) -> Sequence[Field]:
    schema = pinned.schema
    if isinstance(schema, Mapping) and schema.get("type") == "struct":
        return list(schema.get("fields") or ())
    return ()
