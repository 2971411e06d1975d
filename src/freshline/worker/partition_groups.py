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
            kind, ranges = "TIMESTAMPTZ", [(one.start, one.end) for one in (cut, *cut.others)]
        case "DATE" if cut.first_day is not None:
            kind, ranges = "DATE", [(one.first_day or "", one.end_day or "") for one in (cut, *cut.others)]
        case None:
            raise missing_column(pinned.asset_id, cut, rows.columns)
        case other:
            raise wrong_type(pinned.asset_id, cut, other)
    return rows.filter(
        " OR ".join(
            f"({name} >= CAST({literal(start)} AS {kind}) AND {name} < CAST({literal(end)} AS {kind}))"
            for start, end in ranges
        )
    )
