"""The columns that hold the partition of a run: added if the output lacks them, and the same value in every row.

Rows of another partition would be lost or doubled: readers find them under a partition that they do not belong to, and
the run of their own partition does not replace them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's usual alias

from freshline.errors import CheckError, JobError
from freshline.model.run import BatchPartition, PartitionColumn
from freshline.spark.fingerprint import quoted

FOREIGN, EXAMPLE = "__freshline_foreign", "__freshline_example"
SHOWN = 5  # keys in a message


def with_columns(
    asset_id: str, table: DataFrame, columns: Sequence[PartitionColumn]
) -> tuple[DataFrame, tuple[PartitionColumn, ...]]:
    """Return the table with the columns of the partition, and the columns as the table names them.

    Missing columns come last. Raise JobError if a column has another type.
    """
    there = {field.name.lower(): field for field in table.schema.fields}
    named = []
    for one in columns:
        field = there.get(one.name.lower())
        if field is None:
            table = table.withColumn(one.name, F.expr(_literal(one)))
        elif field.dataType.simpleString().upper() != one.type:
            raise JobError(
                f"asset {asset_id!r}: column {field.name!r} holds the partition, and its type is "
                f"{field.dataType.simpleString().upper()}; allowed is {one.type}",
                hint=f"cast it to {one.type}, or leave it out: then it is added",
            )
        named.append(replace(one, name=field.name if field else one.name))
    return table, tuple(named)


def named(asset_id: str, table: DataFrame, batch: Sequence[BatchPartition]) -> list[BatchPartition]:
    """Return the partitions of a batch with the columns as the table names them.

    Raise JobError if the table lacks one: with several partitions it is not known to which one a row belongs.
    """
    known = {name.lower() for name in table.columns}
    for column in batch[0].columns:
        if column.name.lower() not in known:
            raise JobError(
                f"asset {asset_id!r}: the table has no column {column.name!r}, and the run computes {len(batch)} "
                f"partitions; its columns are {', '.join(table.columns)}",
                hint=f"return {column.name!r}, which says to which partition a row belongs; or remove 'batch: true'",
            )
    return [replace(one, columns=with_columns(asset_id, table, one.columns)[1]) for one in batch]


def number(batch: Sequence[BatchPartition]) -> str:
    """Return the expression for the place of a row's partition in the batch; null if it belongs to none."""
    cases = (
        f"WHEN {' AND '.join(f'{quoted(one.name)} = {_literal(one)}' for one in member.columns)} THEN {place}"
        for place, member in enumerate(batch)
    )
    return f"CASE {' '.join(cases)} END"


def batch_aggregates(place: str, batch: Sequence[BatchPartition]) -> list[Column]:
    """Return the aggregates to observe: how many rows belong to no partition of the batch, and one of them."""
    values = (f"coalesce(cast({quoted(one.name)} AS STRING), 'null')" for one in batch[0].columns)
    return [
        F.expr(f"count_if({place} IS NULL)").alias(FOREIGN),
        F.expr(f"min(if({place} IS NULL, concat_ws('|', {', '.join(values)}), NULL))").alias(EXAMPLE),
    ]


def check_batch(asset_id: str, batch: Sequence[BatchPartition], observed: Mapping[str, Any], staged: str) -> None:
    """Raise CheckError if rows belong to no partition of the batch. `staged`: where they are kept."""
    foreign = observed[FOREIGN] or 0
    if not foreign:
        return
    rows = "1 row has" if foreign == 1 else f"{foreign:,} rows have"
    names = ", ".join(repr(one.name) for one in batch[0].columns)
    shown = ", ".join(one.key for one in batch[:SHOWN])
    more = f" and {len(batch) - SHOWN} more" if len(batch) > SHOWN else ""
    error = CheckError(
        f"asset {asset_id!r}: {rows} another {names} than the {len(batch)} partitions of the run, such as "
        f"{observed[EXAMPLE]}; allowed are {shown}{more}; nothing was published",
        hint=f"filter the rows by {names}",
    )
    error.staged = staged
    raise error


def aggregates(columns: Sequence[PartitionColumn]) -> list[Column]:
    """Return the aggregates to observe: per column, how many rows have another value, and one of these values."""
    return [
        expression
        for number, one in enumerate(columns)
        for expression in (
            F.expr(f"count_if(NOT ({quoted(one.name)} <=> {_literal(one)}))").alias(f"{FOREIGN}{number}"),
            F.expr(
                f"min(if({quoted(one.name)} <=> {_literal(one)}, NULL, "
                f"coalesce(cast({quoted(one.name)} AS STRING), 'null')))"
            ).alias(f"{EXAMPLE}{number}"),
        )
    ]


def check(asset_id: str, columns: Sequence[PartitionColumn], observed: Mapping[str, Any], staged: str) -> None:
    """Raise CheckError if rows do not belong to the partition. `staged`: where they are kept."""
    for number, one in enumerate(columns):
        foreign = observed[f"{FOREIGN}{number}"] or 0
        if foreign:
            rows = "1 row has" if foreign == 1 else f"{foreign:,} rows have"
            error = CheckError(
                f"asset {asset_id!r}: {rows} another {one.name!r} than the partition of the run, such as "
                f"{observed[f'{EXAMPLE}{number}']}; allowed is {one.value}; nothing was published",
                hint=f"filter the rows by {one.name!r}, or leave the column out if all of them belong to the partition",
            )
            error.staged = staged
            raise error


def _literal(one: PartitionColumn) -> str:
    value = one.value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{value}'" if one.type == "STRING" else f"{one.type} '{value}'"
