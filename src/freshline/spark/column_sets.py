"""Fingerprints of the rows projected to sets of columns, observed in the pass that writes (docs/semantics.md#R1.6).

They are computed from the hashes of single columns that the fingerprint of the rows needs anyway. The rows of a
projection are a multiset: tallies of single columns would not notice values that were swapped between rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - PySpark's usual alias
from pyspark.sql.types import StructField, StructType

from freshline.model.column_sets import ColumnSet, set_key
from freshline.model.json import Json
from freshline.spark.fingerprint import PIECES, column_hashes, hash_of, piece, schema_digest


@dataclass(frozen=True, slots=True)
class SetSums:
    """The sums over the rows, by the key of a set. With the number of rows and the schema they identify its content."""

    sums: Mapping[str, tuple[int, ...]]

    def as_json(self) -> Json:
        """Return plain data, stored with the table so that parts can be added later."""
        return {key: list(sums) for key, sums in self.sums.items()}

    @classmethod
    def from_json(cls, data: Json | None) -> SetSums:
        """Return the sums that `as_json` described; none of a table that was written without any."""
        return cls({key: tuple(sums) for key, sums in (data or {}).items()})

    def extended(self, more: SetSums) -> SetSums:
        """Return the sums of these rows and the appended ones: of the sets that are known of both."""
        return SetSums(
            {
                key: tuple(one + other for one, other in zip(sums, more.sums[key], strict=True))
                for key, sums in self.sums.items()
                if key in more.sums
            }
        )

    def versions(self, rows: int, schema: StructType) -> dict[str, str]:
        """Return the text that identifies the content of each set. It includes the whole schema of the table.

        With another schema a query can mean other columns, also if those that it read are the same.
        """
        digest = schema_digest(schema.fields)
        return {key: _version([rows, list(sums), digest]) for key, sums in self.sums.items()}


def _version(content: Json | list[object]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def set_aggregates(
    sets: Iterable[ColumnSet], schema: StructType, counted: Sequence[StructField], digits: int | None
) -> list[Column]:
    """Return the aggregates to observe. `counted`: the columns that count for the data version."""
    hashes = dict(zip((one.name.lower() for one in counted), column_hashes(counted, digits), strict=True))
    texts: dict[str, str] = {}
    for number, (_, columns) in enumerate(_known(sets, schema)):
        if read := [hashes[name] for name in columns if name in hashes]:
            row = hash_of(read)
            texts |= {f"set{number}_{shift}": f"sum({piece(row, shift)})" for shift in PIECES}
    return [F.expr(text).alias(name) for name, text in texts.items()]


def set_sums(sets: Iterable[ColumnSet], schema: StructType, observed: Mapping[str, int | None]) -> SetSums:
    """Return the sums from the observed `set_aggregates`. A set without counted columns is the number of rows."""
    return SetSums(
        {
            key: tuple(observed.get(f"set{number}_{shift}") or 0 for shift in PIECES)
            for number, (key, _) in enumerate(_known(sets, schema))
        }
    )


def _known(sets: Iterable[ColumnSet], schema: StructType) -> list[tuple[str, ColumnSet]]:
    """Return the sets of which the table has all columns, each under one name."""
    names = [one.name.lower() for one in schema.fields]
    return [(set_key(one), one) for one in sets if all(names.count(name) == 1 for name in one)]
