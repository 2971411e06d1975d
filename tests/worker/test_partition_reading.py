"""Inputs with partitions of a `python` job: the rows of the mapped partitions, at their pins, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from freshline.errors import JobError
from freshline.model.deliveries import Deliveries, DeliveryRange
from freshline.model.run import PinnedInput, TimeCut
from freshline.storage.layout import partition_directory
from freshline.worker.context import Context
from freshline.worker.partition_inputs import advanced, combined
from freshline.worker.progress_reporter import ProgressReporter
from freshline.worker.table_reader import TableReader
from tests.worker.test_table_reader import struct, write

ONE, TWO = "2024-01-01", "2024-01-02"


def no_deliveries(_: PinnedInput) -> Deliveries:
    """Return no deliveries."""
    return Deliveries(DeliveryRange(), lambda *_: [])


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[TableReader]:
    """Yield a reader of a warehouse in a directory."""
    reader = TableReader(str(tmp_path / "warehouse"), no_deliveries)
    yield reader
    reader.close()


def part(root: Path, key: str, query: str, version: int = 0, **fields: str) -> PinnedInput:
    """Write one partition of the table `daily`, and return its pin."""
    columns = {"day": key}
    directory = root / "warehouse" / "daily" / "data" / f"{version}-1-1" / partition_directory(columns)
    write(directory / "part-0.parquet", f"SELECT *, DATE '{key}' AS day FROM ({query})")
    location = {"format": "parquet", "paths": [f"daily/data/{version}-1-1"]}
    location["partition"] = {"columns": columns, "directory": partition_directory(columns)}  # type: ignore[assignment]
    return PinnedInput(
        *("daily", version + 1, f"v{version}", location),
        table_version=version,
        base_version=version,
        schema=struct(**fields, day="date"),
        parts=[(version, f"daily/data/{version}-1-1")],
        rows=1,
        partition_key=key,
    )


def read_as_one(*parts: PinnedInput) -> PinnedInput:
    """Return the partitions as one input."""
    found = combined("daily", parts, None)
    assert found is not None
    return found


def test_the_rows_are_those_of_the_pinned_partitions(reader: TableReader, tmp_path: Path) -> None:
    """Other versions and partitions beside them are not read; a column that one lacks is null."""
    one = part(tmp_path, ONE, "SELECT 1 AS n", 0, n="integer")
    two = part(tmp_path, TWO, "SELECT 2 AS n, 'x' AS c", 1, n="integer", c="string")
    part(tmp_path, "2024-01-03", "SELECT 3 AS n", 2, n="integer")
    both = read_as_one(one, two)
    days = date(2024, 1, 1), date(2024, 1, 2)
    assert sorted(reader.polars(both).rows()) == [(1, None, days[0]), (2, "x", days[1])]
    assert reader.relation(read_as_one(one)).fetchall() == [(1, days[0])]
    assert [path.rsplit("/", 1)[1] for path in reader.paths(both)] == [f"day={ONE}", f"day={TWO}"]
    new = advanced(both, {ONE: 0}, {ONE: False})
    assert reader.polars(new, new=True)["n"].to_list() == [2]
    none = replace(both, partitions=[], parts=two.parts)
    assert reader.polars(none).columns == ["n", "c", "day"]
    assert reader.polars(none).rows() == []


def test_different_types_of_a_column_are_refused(reader: TableReader, tmp_path: Path) -> None:
    """The error names both partitions."""
    one = part(tmp_path, ONE, "SELECT 1 AS n", 0, n="integer")
    two = part(tmp_path, TWO, "SELECT 'x' AS n", 1, n="string")
    with pytest.raises(JobError, match=f"'n' is string in partition '{TWO}' and integer in partition '{ONE}'"):
        reader.relation(read_as_one(one, two))


def test_a_source_is_read_at_the_path_of_each_partition(reader: TableReader, tmp_path: Path) -> None:
    """Columns are matched by name."""
    pins = []
    for key, text in {ONE: "n,c\n1,a\n", TWO: "c,n\nb,2\n"}.items():
        (tmp_path / f"{key}.csv").write_text(text)
        location = {"format": "csv", "path": str(tmp_path / f"{key}.csv")}
        pins.append(PinnedInput("raw", 1, key, location, partition_key=key))
    both = combined("raw", pins, None)
    assert both is not None
    assert sorted(reader.polars(both).select("n", "c").rows()) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("column", "expected"),
    [("at", [2]), ("d", [1, 2])],
)
def test_rows_are_cut_to_the_window(reader: TableReader, tmp_path: Path, column: str, expected: list[int]) -> None:
    """By an instant, or by a day of the consumer's zone."""
    rows = "SELECT 1 AS n, TIMESTAMPTZ '2024-01-01 18:29:59Z' AS at, DATE '2024-01-02' AS d"
    rows += " UNION ALL SELECT 2, TIMESTAMPTZ '2024-01-01 18:30:00Z', DATE '2024-01-02'"
    rows += " UNION ALL SELECT 3, TIMESTAMPTZ '2024-01-02 18:30:00Z', DATE '2024-01-03'"
    one = part(tmp_path, ONE, rows, 0, n="integer", at="timestamp", d="date")
    cut = TimeCut(column, "2024-01-01T18:30:00+00:00", "2024-01-02T18:30:00+00:00", "2024-01-02", "2024-01-03")
    found = reader.polars(replace(read_as_one(one), cut=cut))
    assert sorted(found["n"].to_list()) == expected


@pytest.mark.parametrize(
    ("column", "words"),
    [("no", "its columns are n, day"), ("n", "has the type INTEGER; allowed is TIMESTAMP and DATE")],
)
def test_a_wrong_time_column_is_an_error(reader: TableReader, tmp_path: Path, column: str, words: str) -> None:
    """It says what is allowed."""
    one = part(tmp_path, ONE, "SELECT 1 AS n", 0, n="integer")
    cut = TimeCut(column, "2024-01-01T00:00:00+00:00", "2024-01-02T00:00:00+00:00", ONE, TWO)
    with pytest.raises(JobError, match=words):
        reader.relation(replace(read_as_one(one), cut=cut))


def context(tmp_path: Path, inputs: dict[str, PinnedInput]) -> Context:
    """Return the argument of a job without Spark."""

    def unknown(*_: Any) -> PinnedInput:
        raise AssertionError

    return Context(
        run_id="r",
        attempt=1,
        partition_keys=(ONE,),
        window=None,
        parameters={},
        inputs=inputs,
        full_refresh=False,
        tables=None,
        warehouse=str(tmp_path / "warehouse"),
        reporter=ProgressReporter(lambda _: None),
        find_version=unknown,
        deliveries=no_deliveries,
    )


def test_a_job_sees_keys_versions_and_changes(tmp_path: Path) -> None:
    """`at` needs one partition, and what changed needs an input with partitions."""
    one = part(tmp_path, ONE, "SELECT 1 AS n", 0, n="integer")
    two = part(tmp_path, TWO, "SELECT 2 AS n", 1, n="integer")
    both = advanced(read_as_one(one, two), {}, {ONE: False, TWO: True})
    ctx = context(tmp_path, {"daily": both, "plain": PinnedInput("plain", 1, "v", None)})
    found = ctx.inputs["daily"]
    assert found.keys == (ONE, TWO)
    assert found.versions == {ONE: "v0", TWO: "v1"}
    assert ctx.changed_partitions("daily") == (TWO,)
    assert ctx.partition_keys == (ONE,)
    assert sorted(found.polars()["n"].to_list()) == [1, 2]
    with pytest.raises(JobError, match="needs one partition; this run reads 2"):
        found.at(1)
    with pytest.raises(JobError, match="the asset has no partitions"):
        ctx.changed_partitions("plain")
    ctx.close()
