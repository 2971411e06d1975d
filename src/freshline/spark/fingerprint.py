"""The data version of a table: a fingerprint of its rows, taken in the same pass as the write.

Every row becomes one hash; count and sums of the hashes do not depend on the order of rows, on files or on partitions,
and they do depend on duplicates. Names, types and order of the columns count too, nullability does not. Two
fingerprints of parts give that of the whole (R9.5): counts and sums add. The tallies of single columns say whose values
differ from the version before; they are no part of the data version.
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
# Two pieces of a row's hash: their sums stay below 2**63 for 2**35 rows. Each aggregate costs a large write 3 percent,
# decimals cost several times that, and xors are blind to rows that come in pairs.
BITS = 28
PIECES = (0, 64 - BITS)
FOLDED = 8  # columns in one number: the last of them loses 7 of its hash's 64 bits
MOST_COLUMNS = 100  # that are told apart
MOST_TOLD = 10_000_000  # rows of a table whose columns are told apart: it costs a large write 2 percent
TALLY_BITS = 16  # of a column: several share an aggregate


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What was seen of the rows. `schema`: a digest of the columns that count. `columns`: a tally of each."""

    rows: int
    sums: tuple[int, ...]
    schema: str
    columns: Mapping[str, int] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """The data version."""
        text = json.dumps([self.rows, list(self.sums), self.schema])
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
        told = more.columns if self.columns or not self.rows else {}
        return Fingerprint(
            rows=self.rows + more.rows,
            sums=tuple(one + other for one, other in zip(self.sums, more.sums, strict=True)),
            schema=more.schema,
            columns={name: self.columns.get(name, 0) ^ seen for name, seen in told.items()},
        )


def aggregates(fields: Sequence[StructField], digits: int | None = None, *, told: bool = True) -> list[Column]:
    """What to observe of the rows. `told`: columns are told apart.

    The hashes are expressions in each of them, evaluated once; a column of its own costs several times as much.
    They are texts that Spark parses: put together call by call from Python they cost a small step 40 ms.
    """
    hashes = [f"xxhash64({_hashable(quoted(one.name), one.dataType, digits)})" for one in fields]
    row = f"xxhash64({', '.join(_folded(hashes)) or '0'})"
    texts = {
        "rows": "count(1)",
        **{f"sum{shift}": f"sum(shiftrightunsigned({row}, {shift}) & {2**BITS - 1}L)" for shift in PIECES},
        **({f"tally{i}": f"bit_xor({text})" for i, text in enumerate(_tallies(hashes[:MOST_COLUMNS]))} if told else {}),
    }
    return [F.expr(text).alias(name) for name, text in texts.items()]


def _folded(hashes: Sequence[str]) -> list[str]:
    """Fewer numbers to hash, which saves a large write 3 percent: hashes of some columns, shifted by their place.

    The hash of a null is a number like any other.
    """
    shifted = [f"shiftleft({text}, {i % FOLDED})" if i % FOLDED else text for i, text in enumerate(hashes)]
    return [" ^ ".join(shifted[i : i + FOLDED]) for i in range(0, len(shifted), FOLDED)]


def _tallies(hashes: Sequence[str]) -> list[str]:
    """A few bits of each column's hash, side by side in as few numbers as they fit into."""
    many = 64 // TALLY_BITS
    parts = [f"shiftleft({text} & {2**TALLY_BITS - 1}L, {i % many * TALLY_BITS})" for i, text in enumerate(hashes)]
    return [" | ".join(parts[i : i + many]) for i in range(0, len(parts), many)]


def fingerprint(observed: Mapping[str, Any], fields: Sequence[StructField]) -> Fingerprint:
    """The fingerprint from the observed `aggregates`; an empty table has sums of nothing."""
    return Fingerprint(
        rows=observed["rows"],
        sums=tuple(observed[f"sum{shift}"] or 0 for shift in PIECES),
        schema=_schema_digest(fields),
        columns={one.name: _tally(observed, i) for i, one in enumerate(fields[:MOST_COLUMNS]) if "tally0" in observed},
    )


def _tally(observed: Mapping[str, Any], column: int) -> int:
    number, place = divmod(column, 64 // TALLY_BITS)
    return int(observed[f"tally{number}"] or 0) >> place * TALLY_BITS & (1 << TALLY_BITS) - 1


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
