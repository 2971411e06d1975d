"""The data version of a table: a fingerprint of its rows, taken in the same pass as the write.

Every row becomes one hash; count and sums of the hashes do not depend on the order of rows, on files or on partitions,
and they do depend on duplicates. Names, types and order of the columns count too, nullability does not. The
fingerprint of a whole table is the sum of those of its parts, so that an append need not read the head. The tallies of
single columns show which columns differ from the version before; they are not part of the data version.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - PySpark's usual alias
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

from freshline.model.json import Json

MASK_BITS = 62
# Two pieces of a row's hash: their sums stay below 2**63 for 2**35 rows. Each aggregate costs a large write 3 percent,
# decimals cost several times that, and a xor does not notice rows that come in pairs.
BITS = 28
PIECES = (0, 64 - BITS)
FOLDED = 8  # columns in one number: the last of them loses 7 of its hash's 64 bits
MAX_TALLIED_COLUMNS = 100
MAX_TALLIED_ROWS = 10_000_000  # tallies cost a large write 2 percent
TALLY_BITS = 16  # per column: several share an aggregate


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Counts and sums over the rows. `schema`: a digest of the counted columns. `columns`: a tally of each."""

    rows: int
    sums: tuple[int, ...]
    schema: str
    columns: Mapping[str, int] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """The data version."""
        text = json.dumps([self.rows, list(self.sums), self.schema])
        return f"fp1:{hashlib.sha256(text.encode()).hexdigest()[:32]}"

    def as_json(self) -> Json:
        """Return plain data, stored with the table so that parts can be added later."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Json) -> Fingerprint:
        """Return the fingerprint that `as_json` described."""
        return cls(**{**data, "sums": tuple(data["sums"])})

    def extended(self, more: Fingerprint) -> Fingerprint:
        """Return the fingerprint of these rows and the appended ones."""
        tallied = more.columns if self.columns or not self.rows else {}
        return Fingerprint(
            rows=self.rows + more.rows,
            sums=tuple(one + other for one, other in zip(self.sums, more.sums, strict=True)),
            schema=more.schema,
            columns={name: self.columns.get(name, 0) ^ seen for name, seen in tallied.items()},
        )


def aggregates(fields: Sequence[StructField], digits: int | None = None, *, tally: bool = True) -> list[Column]:
    """Return the aggregates to observe. `tally`: also those of single columns.

    The hashes are common subexpressions, evaluated once; computing them as a column costs several times as much.
    The expressions are SQL texts: building them call by call from Python costs a small step 40 ms.
    """
    hashes = column_hashes(fields, digits)
    row = hash_of(hashes)
    texts = {
        "rows": "count(1)",
        **{f"sum{shift}": f"sum({piece(row, shift)})" for shift in PIECES},
        **(
            {f"tally{i}": f"bit_xor({text})" for i, text in enumerate(_tallies(hashes[:MAX_TALLIED_COLUMNS]))}
            if tally
            else {}
        ),
    }
    return [F.expr(text).alias(name) for name, text in texts.items()]


def column_hashes(fields: Sequence[StructField], digits: int | None) -> list[str]:
    """Return the expression of each column's hash. Expressions with equal texts are evaluated once."""
    return [f"xxhash64({_hashable(quoted(one.name), one.dataType, digits)})" for one in fields]


def hash_of(hashes: Sequence[str]) -> str:
    """Return the expression of the hash of a row, from those of its columns."""
    return f"xxhash64({', '.join(_folded(hashes)) or '0'})"


def piece(row: str, shift: int) -> str:
    """Return the expression of one of the pieces of a row's hash that are summed."""
    return f"shiftrightunsigned({row}, {shift}) & {2**BITS - 1}L"


def _folded(hashes: Sequence[str]) -> list[str]:
    """Combine the hashes of several columns, shifted by their place: fewer numbers save a large write 3 percent.

    The hash of a null is a number like any other.
    """
    shifted = [f"shiftleft({text}, {i % FOLDED})" if i % FOLDED else text for i, text in enumerate(hashes)]
    return [" ^ ".join(shifted[i : i + FOLDED]) for i in range(0, len(shifted), FOLDED)]


def _tallies(hashes: Sequence[str]) -> list[str]:
    """Pack a few bits of each column's hash into as few numbers as possible."""
    many = 64 // TALLY_BITS
    parts = [f"shiftleft({text} & {2**TALLY_BITS - 1}L, {i % many * TALLY_BITS})" for i, text in enumerate(hashes)]
    return [" | ".join(parts[i : i + many]) for i in range(0, len(parts), many)]


def fingerprint(observed: Mapping[str, int | None], fields: Sequence[StructField]) -> Fingerprint:
    """Return the fingerprint from the observed `aggregates`; the sums of an empty table are null."""
    return Fingerprint(
        rows=observed["rows"] or 0,
        sums=tuple(observed[f"sum{shift}"] or 0 for shift in PIECES),
        schema=schema_digest(fields),
        columns={
            one.name: _tally(observed, i) for i, one in enumerate(fields[:MAX_TALLIED_COLUMNS]) if "tally0" in observed
        },
    )


def _tally(observed: Mapping[str, int | None], column: int) -> int:
    number, place = divmod(column, 64 // TALLY_BITS)
    return int(observed[f"tally{number}"] or 0) >> place * TALLY_BITS & (1 << TALLY_BITS) - 1


def counted_fields(schema: StructType, exclude: Sequence[str] = ()) -> list[StructField]:
    """Return the counted columns: all but the excluded ones, whose names ignore case, as in Spark."""
    left_out = {name.lower() for name in exclude}
    return [field for field in schema.fields if field.name.lower() not in left_out]


def quoted(name: str) -> str:
    """Quote a column's name for SQL."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def _hash(values: Sequence[tuple[str, DataType]], digits: int | None, depth: int = 0) -> str:
    """Hash values and the positions of nulls: xxhash64 itself skips nulls."""
    hashable = [_hashable(text, kind, digits, depth) for text, kind in values]
    texts = [text for text, _ in values]
    masks = [_null_mask(texts[i : i + MASK_BITS]) for i in range(0, len(texts), MASK_BITS)]
    return f"xxhash64({', '.join(hashable + (masks or ['0']))})"


def _null_mask(texts: Sequence[str]) -> str:
    return " | ".join(f"if({text} IS NULL, {1 << i}L, 0L)" for i, text in enumerate(texts))


def _hashable(text: str, kind: DataType, digits: int | None, depth: int = 0) -> str:
    """Return an expression that xxhash64 accepts, equal for equal content. It treats -0.0 as 0.0 and NaNs as equal."""
    item = f"item{depth}"  # unique per level of nested arrays and maps
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


def schema_digest(fields: Sequence[StructField]) -> str:
    """Return a digest of names, types and order of columns."""
    text = json.dumps([[field.name, field.dataType.simpleString()] for field in fields])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
