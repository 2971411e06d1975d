"""The data version of a table: a fingerprint of its rows, taken in the same pass as the write.

Every row becomes one 64-bit hash; count, xor and sums of the hashes do not depend on the order of rows, on files or
on partitions, and they do depend on duplicates. Names, types and order of the columns count too, nullability does not.
Two fingerprints of parts give that of the whole (R9.5): counts and sums add, xors xor. The xors of single columns say
whose values differ from the version before; they are no part of the data version.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody knows
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StructField,
    StructType,
    VariantType,
)

MASK_BITS = 62
MOST_COLUMNS = 100  # that are told apart
# Pieces of the hash: their sums stay below 2**63 for 2**41 rows, and sums of longs are quick where decimals are not.
PIECES = ((0, 21), (21, 21), (42, 22))


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What was seen of the rows. `schema`: a digest of the columns that count. `columns`: the xor of each."""

    rows: int
    xor: int
    sums: tuple[int, ...]
    schema: str
    columns: Mapping[str, int] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """The data version."""
        text = json.dumps([self.rows, self.xor, list(self.sums), self.schema])
        return f"fp1:{hashlib.sha256(text.encode()).hexdigest()[:32]}"

    def as_json(self) -> dict[str, Any]:
        """Plain data, kept beside the table so that parts can be combined later."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Fingerprint:
        """The inverse of `as_json`."""
        return cls(**{**data, "sums": tuple(data["sums"])})

    def extended(self, more: Fingerprint) -> Fingerprint:
        """The fingerprint of these rows and of those that were appended."""
        return Fingerprint(
            rows=self.rows + more.rows,
            xor=self.xor ^ more.xor,
            sums=tuple(one + other for one, other in zip(self.sums, more.sums, strict=True)),
            schema=more.schema,
            columns={name: self.columns.get(name, 0) ^ seen for name, seen in more.columns.items()},
        )


def aggregates(fields: Sequence[StructField], digits: int | None = None) -> list[Column]:
    """What to observe of the rows.

    The hashes are expressions in each of them, evaluated once; a column of its own costs several times as much.
    They are texts that Spark parses: put together call by call from Python they cost a small step 40 ms.
    """
    hashes = [f"xxhash64({_hashable(quoted(one.name), one.dataType, digits)})" for one in fields]
    row = f"xxhash64({', '.join(hashes) or '0'})"  # the hash of a null is a number like any other
    texts = {
        "rows": "count(1)",
        "xor": f"bit_xor({row})",
        **{f"sum{shift}": f"sum(shiftrightunsigned({row}, {shift}) & {2**bits - 1}L)" for shift, bits in PIECES},
        **{f"column{i}": f"bit_xor({one})" for i, one in enumerate(hashes[:MOST_COLUMNS])},
    }
    return [F.expr(text).alias(name) for name, text in texts.items()]


def fingerprint(observed: Mapping[str, Any], fields: Sequence[StructField]) -> Fingerprint:
    """The fingerprint from the observed `aggregates`; an empty table has sums of nothing."""
    return Fingerprint(
        rows=observed["rows"],
        xor=observed["xor"] or 0,
        sums=tuple(observed[f"sum{shift}"] or 0 for shift, _ in PIECES),
        schema=_schema_digest(fields),
        columns={one.name: observed[f"column{i}"] or 0 for i, one in enumerate(fields[:MOST_COLUMNS])},
    )


def counted(schema: StructType, exclude: Sequence[str] = ()) -> list[StructField]:
    """The columns that count: all but the excluded, which are compared as Spark does, without regard to case."""
    left_out = {name.lower() for name in exclude}
    return [field for field in schema.fields if field.name.lower() not in left_out]


def quoted(name: str) -> str:
    """A column's name in a text of SQL, whatever is in it."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def _hash(values: Sequence[tuple[str, DataType]], digits: int | None, depth: int = 0) -> str:
    """xxhash64 passes over nulls as if they were not there, so where they are is hashed as well."""
    hashable = [_hashable(text, kind, digits, depth) for text, kind in values]
    texts = [text for text, _ in values]
    masks = [_null_mask(texts[i : i + MASK_BITS]) for i in range(0, len(texts), MASK_BITS)]
    return f"xxhash64({', '.join(hashable + (masks or ['0']))})"


def _null_mask(texts: Sequence[str]) -> str:
    return " | ".join(f"if({text} IS NULL, {1 << i}L, 0L)" for i, text in enumerate(texts))


def _hashable(text: str, kind: DataType, digits: int | None, depth: int = 0) -> str:
    """A value that xxhash64 takes, equal for equal content; it takes -0.0 for 0.0 and all NaNs for one by itself."""
    item = f"item{depth}"  # of an array or a map inside of which others may be
    match kind:
        case FloatType() | DoubleType() if digits is not None:
            return f"round({text}, {digits})"
        case StructType():
            inner = [(f"{text}.{quoted(one.name)}", one.dataType) for one in kind.fields]
            return f"if({text} IS NULL, NULL, {_hash(inner, digits, depth)})"
        case ArrayType():
            hashed = _hash([(item, kind.elementType)], digits, depth + 1)
            return f"if({text} IS NULL, NULL, xxhash64(transform({text}, {item} -> {hashed})))"
        case MapType():
            # Entries in the order of their hashes: a map has no order, and not every value can be sorted.
            entry = [(f"{item}.key", kind.keyType), (f"{item}.value", kind.valueType)]
            hashed = f"transform(map_entries({text}), {item} -> {_hash(entry, digits, depth + 1)})"
            return f"if({text} IS NULL, NULL, xxhash64(array_sort({hashed})))"
        case VariantType():
            return f"to_json({text})"
    return text


def _schema_digest(fields: Sequence[StructField]) -> str:
    text = json.dumps([[field.name, field.dataType.simpleString()] for field in fields])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
