"""Combines new rows with the rows of the head: `append` and `merge` (docs/semantics.md#R9.5)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - PySpark's usual alias
from pyspark.sql.types import StructField, StructType

from freshline.errors import CheckError, JobError
from freshline.spark.fingerprint import quoted

# Reserved column names: a table may use any other.
NEW, ROW, COUNT, OLD = "__freshline_new", "__freshline_row", "__freshline_count", "__freshline_old"
REWRITE_HINT = (
    "`freshline run SLUG --full-refresh` writes the whole table again from what the inputs hold now; it first says "
    "which rows would be dropped"
)


def widened(asset_id: str, before: StructType, now: StructType) -> StructType:
    """Return the columns of the head, then new ones, all nullable. Raise JobError if the type of a column changed."""
    known = {field.name.lower(): field for field in before.fields}
    for field in now.fields:
        old = known.get(field.name.lower())
        kind = field.dataType.simpleString()
        if old is not None and old.dataType.simpleString() != kind:
            raise JobError(
                f"asset {asset_id!r}: column {field.name!r} was {old.dataType.simpleString()} and is now "
                f"{kind}; rows can only be added to a table of the same types",
                hint=f"cast it; or {REWRITE_HINT}",
            )
    new = [field for field in now.fields if field.name.lower() not in known]
    return StructType([*before.fields, *new]).toNullable()


def aligned(table: DataFrame, schema: StructType) -> DataFrame:
    """Return the table with the order and names of a schema; columns that it lacks are null."""
    there = {name.lower() for name in table.columns}
    return table.select(*(_named(field, there) for field in schema.fields))


def _named(field: StructField, there: Collection[str]) -> Column:
    column = F.col(quoted(field.name)) if field.name.lower() in there else F.lit(None).cast(field.dataType)
    return column.alias(field.name)


def merged(before: DataFrame, table: DataFrame, keys: Sequence[str], seen: Observation) -> DataFrame:
    """Return the rows of the head, replaced where a new row has the same keys, and the new rows. Null keys are equal.

    The new rows are computed once. `seen` observes the largest number of rows per key: `new` among the new rows, `old`
    among those of the head.
    """
    names = before.columns + [name for name in table.columns if name.lower() not in map(str.lower, before.columns)]
    both = before.withColumn(NEW, F.lit(0)).unionByName(table.withColumn(NEW, F.lit(1)), allowMissingColumns=True)
    row = F.struct(*(F.col(quoted(name)) for name in names))
    grouped = both.groupBy(*(F.col(quoted(key)) for key in keys)).agg(
        F.max_by(row, F.col(NEW)).alias(ROW), F.sum(NEW).alias(COUNT), F.sum(1 - F.col(NEW)).alias(OLD)
    )
    counted = grouped.observe(seen, F.max(COUNT).alias("new"), F.max(OLD).alias("old"))
    return counted.select(*(F.col(ROW).getField(name).alias(name) for name in names))


def most_per_key(table: DataFrame, keys: Sequence[str]) -> int | None:
    """Return the largest number of rows per key; None if there are no rows."""
    counted = table.groupBy(*(F.col(quoted(key)) for key in keys)).agg(F.count(F.lit(1)).alias(COUNT))
    most: int | None = counted.agg(F.max(COUNT)).collect()[0][0]
    return most


def check_new_keys(asset_id: str, keys: Sequence[str], most: int | None) -> None:
    """Raise CheckError if new rows share a key: only the job can decide which of them wins."""
    if most is not None and most > 1:
        raise CheckError(
            f"asset {asset_id!r}: {most} new rows have the same {', '.join(keys)}; merging needs one row per key; "
            "nothing was published"
        )


def check_head_keys(asset_id: str, version: int, keys: Sequence[str], most: int | None) -> None:
    """Raise CheckError if rows of the head share a key: a merge would silently drop all but one of them."""
    if most is not None and most > 1:
        raise CheckError(
            f"asset {asset_id!r}: {most} rows of version {version} have the same {', '.join(keys)}; merging needs one "
            "row per key; nothing was published",
            hint=REWRITE_HINT,
        )
