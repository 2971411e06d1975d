"""Versions of sets of columns: they change if and only if the rows projected to the set change, or the schema."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from freshline.definitions.schema.workflow import Produces
from freshline.model.column_sets import column_set, set_key
from freshline.model.run import PinnedInput, StagedOutput
from freshline.spark.staging import Staging, write
from freshline.storage.local import LocalStorage

pytestmark = pytest.mark.spark

DDL = "a int, b string, c double"
AB, C, NONE = column_set(["B", "a"]), column_set(["c"]), column_set([])
Rows = list[tuple[Any, ...]]


class Writer:
    """Writes versions of one table."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.storage, self.count = spark, LocalStorage(root), 0

    def write(
        self, rows: Rows | DataFrame, ddl: str = DDL, head: PinnedInput | None = None, **rule: Any
    ) -> StagedOutput:
        """Write rows with the versions of three sets."""
        self.count += 1
        produced = Produces.model_validate({"assetId": "t", **rule})
        table = self.spark.createDataFrame(rows, ddl) if isinstance(rows, list) else rows
        sets = (AB, C, NONE)
        return write(
            table,
            Staging("t", "s", self.storage, f"t/{self.count}", produced, head, replace=head is None, column_sets=sets),
        )

    def versions(self, rows: Rows, ddl: str = DDL, **rule: Any) -> dict[str, str]:
        """Return the versions of the three sets, by name."""
        found = self.write(rows, ddl, **rule).column_versions
        names = {set_key(AB): "ab", set_key(C): "c", set_key(NONE): "none"}
        return {names[key]: version for key, version in found.items()}


@pytest.fixture
def writer(spark: SparkSession, tmp_path: Path) -> Writer:
    """Return a writer of versions."""
    return Writer(spark, tmp_path)


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """Return the sets whose versions differ."""
    return {name for name in before if before[name] != after.get(name)}


def test_only_the_sets_with_a_changed_column_change(writer: Writer) -> None:
    """Order of rows is nothing; duplicates, nulls and the number of rows count."""
    rows: Rows = [(1, "x", 1.0), (2, "y", 2.0), (2, "y", 2.0), (None, None, None)]
    before = writer.versions(rows)
    assert changed(before, writer.versions(rows[::-1])) == set()
    assert changed(before, writer.versions([*rows[:3], (None, None, 3.0)])) == {"c"}
    assert changed(before, writer.versions([(1, "z", 1.0), *rows[1:]])) == {"ab"}
    assert changed(before, writer.versions([*rows[:3], (None, "", None)])) == {"ab"}
    assert changed(before, writer.versions([*rows, rows[0]])) == {"ab", "c", "none"}
    twice: Rows = [(1, "x", 1.0), (1, "x", 1.0), (2, "y", 2.0), (None, None, None)]
    assert changed(before, writer.versions(twice)) == {"ab", "c"}


def test_swapped_values_change_the_set(writer: Writer) -> None:
    """The columns hold the same values, but in other rows: a fingerprint per column would be equal."""
    before, after = [(1, "x", 1.0), (2, "y", 2.0)], [(1, "y", 1.0), (2, "x", 2.0)]
    for column in range(3):
        assert Counter(row[column] for row in before) == Counter(row[column] for row in after)
    assert changed(writer.versions(before), writer.versions(after)) == {"ab"}


def test_pairs_of_equal_rows_change_the_set(writer: Writer) -> None:
    """Two equal projected rows that become two other equal ones: an exclusive or would be zero for both."""
    before: Rows = [(1, "x", 1.0), (1, "x", 2.0)]
    assert changed(writer.versions(before), writer.versions([(2, "y", 1.0), (2, "y", 2.0)])) == {"ab"}


def test_excluded_columns_and_digits_apply_to_every_set(writer: Writer) -> None:
    """What does not count for the data version does not count for a set."""
    rule: dict[str, Any] = {"dataVersion": {"exclude": ["b"], "digits": 1}}
    before = writer.versions([(1, "x", 1.01)], **rule)
    assert changed(before, writer.versions([(1, "other", 1.02)], **rule)) == set()
    assert changed(before, writer.versions([(1, "x", 1.2)], **rule)) == {"c"}
    all_but_c: dict[str, Any] = {"dataVersion": {"exclude": ["c"]}}
    assert (
        changed(writer.versions([(1, "x", 1.0)], **all_but_c), writer.versions([(1, "x", 2.0)], **all_but_c)) == set()
    )


def test_any_change_of_the_schema_changes_every_set(writer: Writer) -> None:
    """A query can mean other columns by the same names. A set with a column that is gone has no version."""
    before = writer.versions([(1, "x", 1.0)])
    assert changed(before, writer.versions([(1, "x", 1.0, 1)], f"{DDL}, d int")) == {"ab", "c", "none"}
    assert writer.versions([(1, "x")], "a int, b string").keys() == {"ab", "none"}
    assert changed(before, writer.versions([(1, "x", 1.0)], "a long, b string, c double")) == {"ab", "c", "none"}
    hidden = {"dataVersion": {"exclude": ["d"]}}
    assert changed(before, writer.versions([(1, "x", 1.0, 1)], f"{DDL}, d int", **hidden)) == {"ab", "c", "none"}


def test_no_versions_where_every_version_is_a_change(writer: Writer) -> None:
    """With `dataVersion: {source: none}` nothing is compared."""
    assert writer.versions([(1, "x", 1.0)], dataVersion={"source": "none"}) == {}


def test_appended_rows_add_to_the_sets(writer: Writer) -> None:
    """The sum of the parts is the version of the whole; without sums of the head there is none."""
    table: dict[str, Any] = {"table": {"mode": "append"}}
    first, second = [(1, "x", 1.0)], [(2, "y", 2.0)]
    whole = writer.write([*first, *second], **table)
    staged = writer.write(first, **table)
    assert staged.location is not None
    head = PinnedInput("t", 1, "v", staged.location, schema=staged.schema, rows=1, bytes=1)
    assert writer.write(second, head=head, **table).column_versions == whole.column_versions
    unknown = {name: value for name, value in staged.location.items() if name != "columnSets"}
    before = PinnedInput("t", 1, "v", unknown, schema=staged.schema, rows=1, bytes=1)
    assert writer.write(second, head=before, **table).column_versions == {}


def test_versions_are_equal_exactly_where_an_oracle_says_so(writer: Writer) -> None:
    """Over random small tables: equal versions of a set, equal multisets of the projected rows."""
    luck = random.Random(5)  # noqa: S311
    contents: dict[tuple[str, str], set[Any]] = {}
    for _ in range(25):
        rows: Rows = [
            (luck.choice([None, 1, 2]), luck.choice([None, "x"]), luck.choice([None, 1.0]))
            for _ in range(luck.randint(0, 2))
        ]
        found = writer.versions(rows)
        projected = {"ab": [row[:2] for row in rows], "c": [row[2:] for row in rows], "none": [() for _ in rows]}
        for name, part in projected.items():
            contents.setdefault((name, found[name]), set()).add(frozenset(Counter(part).items()))
    assert all(len(content) == 1 for content in contents.values()), "two contents have one version"
    distinct = {(name, content) for (name, _), found in contents.items() for content in found}
    assert len(distinct) == len(contents), "one content has two versions"
