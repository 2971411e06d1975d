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
            return rows.where(f"{name} >= TIMESTAMP '{cut.start}' AND {name} < TIMESTAMP '{cut.end}'")
        case DateType() if cut.first_day is not None:
            return rows.where(f"{name} >= DATE '{cut.first_day}' AND {name} < DATE '{cut.end_day}'")
        case None:
            raise missing_column(pinned.asset_id, cut, list(rows.columns))
        case kind:
            raise wrong_type(pinned.asset_id, cut, kind.simpleString())
