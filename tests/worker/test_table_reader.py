"""Inputs of a `python` job: Arrow, Polars, DuckDB and paths, without Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from freshline.errors import JobError
from freshline.model.deliveries import Deliveries, Delivery, DeliveryRange
from freshline.model.run import PinnedInput
from freshline.settings import Settings
from freshline.worker.runner_process import RunnerProcess
from freshline.worker.step_errors import JobFailedError
from freshline.worker.table_reader import TableReader
from tests.object_store_server import BUCKET, ObjectStore
from tests.worker.steps import Bench, copy_of, python, source

CSV = "id,origin,at\n1,JFK,2024-01-01\n2,LGA,2024-01-02\n"
ROWS = [(1, "JFK"), (2, "LGA")]


def struct(**fields: str) -> dict[str, Any]:
    """Return a schema of Spark."""
    named = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    return {"type": "struct", "fields": named}


def write(path: Path, query: str) -> Path:
    """Write the rows of a query to a Parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    duckdb.sql(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
    return path


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[TableReader]:
    """Yield a reader of a warehouse in a directory."""
    reader = TableReader(str(tmp_path / "warehouse"), deliveries)
    yield reader
    reader.close()


@pytest.fixture
def table(tmp_path: Path) -> PinnedInput:
    """Return a table that was appended to: the second part has one more column."""
    base = tmp_path / "warehouse" / "clean" / "data"
    write(base / "a-1-1" / "part-0.parquet", "SELECT 1 AS id, 'JFK' AS origin")
    write(base / "b-1-1" / "part-0.parquet", "SELECT 2 AS id, 'LGA' AS origin, 5 AS delay")
    paths = ["clean/data/a-1-1", "clean/data/b-1-1"]
    return PinnedInput(
        "flights.clean",
        2,
        "v2",
        {"format": "parquet", "paths": paths[1:]},
        parts=[(0, paths[0]), (1, paths[1])],
        schema=struct(id="integer", origin="string", delay="integer"),
        rows=2,
    )


def deliveries(pinned: PinnedInput) -> Deliveries:
    """Return the deliveries of a source that `appended` made."""
    location = pinned.location or {}

    def fetch(first: int, last: int) -> list[Delivery]:
        names = ((n, f"{location['path']}/{n}.{location['format']}") for n in range(first, last + 1))
        return [Delivery(n, path, None, {}, "2026-11-02T00:00:00Z") for n, path in names]

    return Deliveries(pinned.deliveries or DeliveryRange(), fetch)


def appended(path: Path, count: int, kind: str = "csv", **given: Any) -> PinnedInput:
    """Return an append source with files `1.csv`, `2.csv`, and so on."""
    return PinnedInput(
        "landing.orders",
        count,
        f"delivery:{count}",
        {"format": kind, "path": str(path)},
        table_version=count,
        deliveries=DeliveryRange(count),
        **given,
    )


def test_a_table_is_read_at_the_pinned_version_in_three_forms(reader: TableReader, table: PinnedInput) -> None:
    """Every part is read, columns that a part lacks are null, and later directories do not count."""
    expected = [(1, "JFK", None), (2, "LGA", 5)]
    write(Path(reader.paths(table)[0]).parent / "later-1-1" / "part-0.parquet", "SELECT 9 AS id")
    arrow, frame = reader.arrow(table), reader.polars(table)
    assert isinstance(arrow, pa.Table)
    assert isinstance(frame, pl.DataFrame)
    assert sorted(tuple(row.values()) for row in arrow.to_pylist()) == expected
    assert sorted(frame.rows()) == expected
    assert sorted(reader.relation(table).fetchall()) == expected
    assert reader.relation(table).columns == ["id", "origin", "delay"]


def test_new_rows_are_those_of_later_parts(reader: TableReader, table: PinnedInput) -> None:
    """`new=True` reads what was appended since; nothing is an empty table with all columns."""
    since = PinnedInput(**{name: getattr(table, name) for name in table.__slots__} | {"since": 0})
    none = PinnedInput(**{name: getattr(table, name) for name in table.__slots__} | {"since": 1})
    assert reader.relation(since, new=True).fetchall() == [(2, "LGA", 5)]
    assert reader.relation(none, new=True).fetchall() == []
    assert reader.arrow(none, new=True).column_names == ["id", "origin", "delay"]
    assert len(reader.relation(none).fetchall()) == 2


def test_inputs_are_joined_in_one_query(reader: TableReader, table: PinnedInput, tmp_path: Path) -> None:
    """All relations of a step share a connection, and each is a view."""
    (tmp_path / "names.csv").write_text("origin,name\nJFK,Kennedy\nLGA,La Guardia\n")
    reader.relation(table)
    names = reader.relation(source("airport.names", tmp_path / "names.csv"))
    query = "SELECT name FROM n JOIN flights_clean USING (origin) JOIN airport_names a USING (origin) ORDER BY 1"
    assert names.query("n", query.replace("SELECT name", "SELECT n.name")).fetchall() == [("Kennedy",), ("La Guardia",)]


def test_a_partitioned_table_has_its_columns_in_order_also_when_it_is_empty(
    reader: TableReader, tmp_path: Path
) -> None:
    """Values in the names of directories get the types of the schema."""
    base = tmp_path / "warehouse" / "split" / "data" / "a-1-1"
    write(base / "day=2024-01-01" / "x.parquet", "SELECT 1 AS id")
    location = {"format": "parquet", "paths": ["split/data/a-1-1"], "partitionBy": ["day"]}
    schema = struct(day="date", id="integer")
    found = reader.relation(PinnedInput("split", 1, "1", location, schema=schema, rows=1))
    assert [str(value) for value in found.fetchall()[0]] == ["2024-01-01", "1"]
    (tmp_path / "warehouse" / "split" / "data" / "none").mkdir()
    empty = PinnedInput("split", 2, "2", {**location, "paths": ["split/data/none"]}, schema=schema, rows=0)
    assert reader.relation(empty).columns == ["day", "id"]
    assert reader.relation(empty).fetchall() == []


def test_sources_are_read_as_spark_would(reader: TableReader, tmp_path: Path) -> None:
    """Read a file, a directory with partitions and markers, a pattern, other options, JSON and Parquet."""
    data = tmp_path / "data"
    (data / "dt=1").mkdir(parents=True)
    (data / "dt=1" / "a").write_text("id,origin\n1,JFK\n")
    (data / "_SUCCESS").write_text("")
    (data / ".hidden.csv").write_text("no\n")
    assert reader.relation(source("dir", data)).fetchall() == [(1, "JFK", 1)]
    (tmp_path / "one.csv").write_text(CSV)
    (tmp_path / "two.csv").write_text("id,origin\n3,EWR\n")
    whole = reader.relation(source("pattern", tmp_path / "*.csv")).project("id, origin").fetchall()
    assert sorted(whole) == [*ROWS, (3, "EWR")]
    (tmp_path / "o.txt").write_text("1;'a;b'\n2;none\n")
    options = {"header": "false", "delimiter": ";", "quote": "'", "nullValue": "none"}
    other = PinnedInput("o", 1, "1", {"format": "csv", "path": str(tmp_path / "o.txt"), "options": options})
    assert reader.relation(other).fetchall() == [(1, "a;b"), (2, None)]
    (tmp_path / "x.json").write_text('{"id": 1, "origin": "JFK"}\n{"origin": "LGA", "id": 2}\n')
    assert reader.relation(source("j", tmp_path / "x.json", "json")).fetchall() == ROWS
    write(tmp_path / "p" / "x.parquet", "SELECT 1 AS id, 'JFK' AS origin")
    assert reader.polars(source("p", tmp_path / "p", "parquet")).rows() == ROWS[:1]


def test_a_declared_schema_gives_the_types(reader: TableReader, tmp_path: Path) -> None:
    """Without it DuckDB infers them from all rows."""
    (tmp_path / "x.csv").write_text("code,n\n007,1\n")
    location = {"format": "csv", "path": str(tmp_path / "x.csv")}
    declared = PinnedInput("x", 1, "1", location, schema=struct(n="double", code="string"))
    assert reader.relation(declared).fetchall() == [(1.0, "007")]
    assert isinstance(reader.relation(declared).fetchall()[0][0], float)
    assert reader.relation(PinnedInput("x", 1, "1", location)).fetchall() == [("007", 1)]


def test_all_deliveries_or_the_new_ones(reader: TableReader, tmp_path: Path) -> None:
    """Columns are matched by name; without a new delivery there are no rows."""
    (tmp_path / "1.csv").write_text("id,origin\n1,JFK\n")
    (tmp_path / "2.csv").write_text("origin,id\nLGA,2\n")
    assert sorted(reader.relation(appended(tmp_path, 2)).fetchall()) == ROWS
    assert reader.relation(appended(tmp_path, 2, since=1), new=True).fetchall() == [("LGA", 2)]
    assert reader.relation(appended(tmp_path, 2, since=2), new=True).fetchall() == []
    assert reader.paths(appended(tmp_path, 2)) == (str(tmp_path / "1.csv"), str(tmp_path / "2.csv"))
    with pytest.raises(JobError, match="has no delivery with a path, so its columns are not known"):
        reader.relation(appended(tmp_path, 0))
    assert reader.relation(appended(tmp_path, 0, schema=struct(id="integer"))).fetchall() == []
    skipped = replace(appended(tmp_path, 2), deliveries=DeliveryRange(2, (1, 2)))
    with pytest.raises(JobError, match="has no delivery with a path that is not skipped, so its columns") as raised:
        reader.relation(skipped)
    assert "the next delivery is read; or declare its 'schema'" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "a,b\n1,secret\n2,x,y,secret\n", "x.csv cannot be read: it is damaged, or not in the format"),
        ("x.csv", "a,b\n1\n", "x.csv cannot be read: it is damaged, or not in the format"),
        ("x.json", '{"a": 1}\n{"a": secret}\n', r"x.json cannot be read: it is damaged.*\(line \d\)"),
        ("x.parquet", "secret", "x.parquet cannot be read: it is damaged"),
        ("x.orc", "", "format 'orc'; without Spark parquet, csv, json can be read"),
    ],
)
def test_an_unreadable_file_is_named_and_not_quoted(
    reader: TableReader, tmp_path: Path, name: str, content: str, message: str
) -> None:
    """A damaged CSV file is an error and not fewer rows."""
    (tmp_path / name).write_text(content)
    with pytest.raises(JobError, match=message) as raised:
        reader.arrow(source("s", tmp_path / name, name.rpartition(".")[2]))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("1 AS n", "'secret' AS n"), r"2.parquet: its column 'n' is VARCHAR, and INTEGER in the files before it"),
        (("1 AS n", "2 AS n, 1 AS m", "3 AS N, 'secret' AS m"), r"3.parquet: its column 'm' is VARCHAR, and INTEGER"),
        (("1 AS n", "DATE '2026-01-01' AS n"), r"2.parquet: its column 'n' is DATE, and INTEGER"),
        (("1 AS n", "0.5::DOUBLE AS n"), r"2.parquet: its column 'n' is DOUBLE, and INTEGER"),
        (("1.5::DECIMAL(9,2) AS n", "1.25::DECIMAL(9,3) AS n"), r"'n' is DECIMAL\(9, ?3\), and DECIMAL\(9, ?2\)"),
        (("1 AS n", "[1] AS n"), r"2.parquet: its column 'n' is INTEGER\[\], and INTEGER"),
        (("{'a': 1} AS n, 1 AS m", "{'a': 'secret'} AS n, 1 AS m"), r"its column 'n.a' is VARCHAR, and INTEGER"),
        (("{'a': 1} AS n, 1 AS m", "{'a': 1} AS n, 'x' AS m"), r"2.parquet: its column 'm' is VARCHAR, and INTEGER"),
    ],
)
def test_a_file_with_other_types_is_named(
    reader: TableReader, tmp_path: Path, columns: tuple[str, ...], message: str
) -> None:
    """DuckDB would read all of them as texts, or name the file that was there first. Alone each can be read."""
    for number, query in enumerate(columns, 1):
        write(tmp_path / f"{number}.parquet", f"SELECT {query}")
    given = appended(tmp_path, len(columns), "parquet")
    with pytest.raises(JobError, match=message) as raised:
        reader.relation(given)
    assert "secret" not in str(raised.value)
    alone = appended(tmp_path, len(columns), "parquet", since=len(columns) - 1)
    assert len(reader.relation(alone, new=True).fetchall()) == 1
    with pytest.raises(JobError, match=message) as raised:
        reader.relation(source("s", tmp_path, "parquet"))
    assert "with the same types" in str(raised.value.hint)


def test_files_whose_types_fit_are_read_together(reader: TableReader, tmp_path: Path) -> None:
    """More, fewer and wider columns, in another order, change no value."""
    write(tmp_path / "1.parquet", "SELECT 1 AS n, 1.5::DECIMAL(9,2) AS d, {'a': 1} AS s, 0.5::FLOAT AS f")
    write(tmp_path / "2.parquet", "SELECT 'x' AS more, {'a': 2, 'b': [1]} AS s, 5000000000 AS n")
    write(tmp_path / "3.parquet", "SELECT 0.25::DOUBLE AS F, 2.25::DECIMAL(12,2) AS d")
    rows = reader.relation(appended(tmp_path, 3, "parquet")).project("n, CAST(d AS VARCHAR), s.a, f, more").fetchall()
    assert rows == [(1, "1.50", 1, 0.5, None), (5_000_000_000, None, 2, None, "x"), (None, "2.25", None, 0.25, None)]


def test_a_file_that_does_not_fit_the_declared_schema_is_named(reader: TableReader, tmp_path: Path) -> None:
    """The error of the conversion would quote a value and name no file. Numbers of another size are converted."""
    write(tmp_path / "1.parquet", "SELECT 1 AS n, 7 AS code")
    write(tmp_path / "2.parquet", "SELECT 'secret' AS n, '007' AS code")
    message = r"2.parquet: its column 'n' is VARCHAR, and the schema of the source declares BIGINT"
    with pytest.raises(JobError, match=message):
        reader.relation(appended(tmp_path, 2, "parquet", schema=struct(n="long", code="string")))
    write(tmp_path / "2.parquet", "SELECT 2.0::DOUBLE AS n, '007' AS code")
    found = reader.relation(appended(tmp_path, 2, "parquet", schema=struct(n="long", code="string")))
    assert found.fetchall() == [(1, "7"), (2, "007")]


def test_what_cannot_be_read_says_what_to_do(reader: TableReader, tmp_path: Path) -> None:
    """A missing file, no data at all, and an option that only Spark has."""
    with pytest.raises(JobError, match=r"nope.csv cannot be read: it is no longer there"):
        reader.relation(source("s", tmp_path / "nope.csv"))
    with pytest.raises(JobError, match=r"there are no files at .*\*\.csv"):
        reader.relation(source("s", tmp_path / "*.csv"))
    with pytest.raises(JobError, match=r"has no data to read, only `\.payload`"):
        reader.relation(PinnedInput("s", 1, "1", None))
    (tmp_path / "x.csv").write_text(CSV)
    location = {"format": "csv", "path": str(tmp_path / "x.csv"), "options": {"dateFormat": "dd.MM.yyyy"}}
    with pytest.raises(JobError, match="has the option 'dateFormat', which only Spark understands"):
        reader.relation(PinnedInput("s", 1, "1", location))


@pytest.mark.parametrize(("form", "package"), [("arrow", "pyarrow"), ("polars", "polars")])
def test_a_missing_package_is_named(
    reader: TableReader, table: PinnedInput, monkeypatch: pytest.MonkeyPatch, form: str, package: str
) -> None:
    """The error says what to install, and that DuckDB needs nothing."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(JobError, match=rf"ctx.inputs\['flights.clean'\].{form}\(\) needs the package '{package}'") as e:
        getattr(reader, form)(table)
    assert f"freshline[{form}]" in str(e.value.hint)


def test_a_bucket_holds_the_warehouse_and_a_source(objects: ObjectStore, tmp_path: Path) -> None:
    """Both are read through one client of the store, also in one query. Hadoop's name of S3 is understood."""
    write(objects.warehouse / "clean" / "data" / "a-1-1" / "part-0.parquet", "SELECT 1 AS id, 'JFK' AS origin")
    (objects.bucket / "in" / "dt=1").mkdir(parents=True)
    (objects.bucket / "in" / "dt=1" / "a.csv").write_text("origin,name\nJFK,Kennedy\n")
    (objects.bucket / "in" / "_SUCCESS").write_text("x")
    reader = TableReader(objects.address, deliveries)
    location = {"format": "parquet", "paths": ["clean/data/a-1-1"]}
    table = PinnedInput("clean", 1, "1", location, schema=struct(id="integer", origin="string"))
    reader.relation(table)
    for path in ("in", "in/dt=*/*.csv", "in/dt=1/a.csv"):
        named = PinnedInput("names", 1, "1", {"format": "csv", "path": f"s3a://{BUCKET}/{path}"})
        query = "SELECT clean.id, n.name FROM n JOIN clean USING (origin)"
        assert reader.relation(named).query("n", query).fetchall() == [(1, "Kennedy")]
    assert reader.paths(table) == (f"{objects.address}/clean/data/a-1-1",)
    assert reader.polars(table).rows() == [(1, "JFK")]
    reader.close()


JOBS = """
import os, sys
def reads(ctx):
    orders = ctx.inputs["up"]
    result = {
        "arrow": orders.arrow().num_rows, "polars": orders.polars().height, "path": orders.path,
        "duckdb": orders.duckdb().aggregate("sum(id)").fetchall()[0][0],
        "pyspark": "pyspark" in sys.modules,
        "children": open(f"/proc/self/task/{os.getpid()}/children").read().split(),
    }
    return {"assets": [{"assetId": "out", "dataVersion": "1", "payload": result}]}
def late(ctx): ctx.inputs["landing.orders"].duckdb().fetchall()
def one_path(ctx): return ctx.inputs["landing.orders"].path
"""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Yield a runner without Spark."""
    (tmp_path / "jobs.py").write_text(JOBS)
    runner = RunnerProcess(tmp_path, spark=False, settings=Settings(project=tmp_path), code=copy_of(tmp_path))
    runner.start()
    yield Bench(tmp_path, runner)
    runner.kill()


def test_a_python_step_reads_a_table_without_a_jvm(bench: Bench) -> None:
    """The runner neither imports PySpark nor starts a process."""
    path = bench.project / "x.csv"
    path.write_text(CSV)
    (output,) = bench.run(python("reads"), inputs={"up": source("up", path)}).outputs
    read = {"arrow": 2, "polars": 2, "path": str(path), "duckdb": 3}
    assert output.payload == read | {"pyspark": False, "children": []}


def test_an_error_in_the_jobs_own_query_names_the_delivery(bench: Bench) -> None:
    """A lazy relation fails in user code; the file is named and not quoted."""
    (bench.project / "1.csv").write_text("id,origin\n1,JFK\n")
    (bench.project / "2.csv").write_text("id,origin\n" + "1,JFK\n" * 30_000 + '"secret\n')
    given = appended(bench.project, 2)

    def fetch(_asset_id: str, first: int, last: int) -> Deliveries:
        return deliveries(given)[first - 1 : last]

    with pytest.raises((JobError, JobFailedError), match=r"2\.csv cannot be read") as raised:
        bench.run(python("late"), inputs={"landing.orders": given}, deliveries=fetch)
    assert "freshline delivery skip landing.orders 2" in str(raised.value.hint)
    assert "secret" not in str(raised.value)
    with pytest.raises(JobError, match=r"has 2 paths; use ctx.inputs\['landing.orders'\].paths"):
        bench.run(python("one_path"), inputs={"landing.orders": given}, deliveries=fetch)
