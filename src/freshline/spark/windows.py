"""Cuts the rows of an input to the window of the consumer's partition, by a column of time (`timeColumn`)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import DateType, TimestampType

from freshline.model.partition_pins import missing_column, wrong_type
from freshline.model.run import PinnedInput
from freshline.spark.fingerprint import quoted


def cut_to_window(rows: DataFrame, pinned: PinnedInput) -> DataFrame:
    """Return the rows whose time is within the window. Rows without a time are in none."""
    cut = pinned.cut
    if cut is None:
        return rows
    name = quoted(cut.column)
    known = {field.name.lower(): field.dataType for field in rows.schema.fields}
    match known.get(cut.column.lower()):
        case TimestampType():
            kind, ranges = "TIMESTAMP", [(one.start, one.end) for one in (cut, *cut.others)]
        case DateType() if cut.first_day is not None:
            kind, ranges = "DATE", [(one.first_day or "", one.end_day or "") for one in (cut, *cut.others)]
        case None:
            raise missing_column(pinned.asset_id, cut, list(rows.columns))
        case kind:
            raise wrong_type(pinned.asset_id, cut, kind.simpleString())
    return rows.where(" OR ".join(f"{name} >= {kind} '{start}' AND {name} < {kind} '{end}'" for start, end in ranges))
