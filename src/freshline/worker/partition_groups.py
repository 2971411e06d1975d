"""The cut of an input to the window of a partition in DuckDB, and the partitions that are read together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from freshline.model.partition_pins import groups, missing_column, wrong_type
from freshline.model.run import PinnedInput
from freshline.storage.duckdb_tables import literal, quoted

if TYPE_CHECKING:
    import duckdb

__all__ = ["cut_to_window", "groups"]


def cut_to_window(rows: duckdb.DuckDBPyRelation, pinned: PinnedInput) -> duckdb.DuckDBPyRelation:
    """Return the rows whose time is within the window. Rows without a time are in none."""
    cut = pinned.cut
    if cut is None:
        return rows
    name = quoted(cut.column)
    kinds = {column.lower(): str(kind) for column, kind in zip(rows.columns, rows.types, strict=True)}
    match kinds.get(cut.column.lower()):
        case str() as kind if kind.startswith("TIMESTAMP"):  # without a zone it is in UTC
            start, end = (f"CAST({literal(at)} AS TIMESTAMPTZ)" for at in (cut.start, cut.end))
        case "DATE" if cut.first_day is not None and cut.end_day is not None:
            start, end = (f"CAST({literal(day)} AS DATE)" for day in (cut.first_day, cut.end_day))
        case None:
            raise missing_column(pinned.asset_id, cut, rows.columns)
        case kind:
            raise wrong_type(pinned.asset_id, cut, kind)
    return rows.filter(f"{name} >= {start} AND {name} < {end}")
