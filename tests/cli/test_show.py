"""`freshline show`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.cli.conftest import Freshline
from tests.rows import Rows, ago

ROWS = """
SELECT * FROM (VALUES
    (1, 'JFK', 1.5::double, 12.30::decimal(9, 2), date '2013-01-01', [1, 2], {'a': 1}, 'x'::blob),
    (2, '[bold]LGA', 'nan'::double, NULL, NULL, [], {'a': NULL}, NULL)
) AS t (id, origin, delay, cost, day, list, struct, bytes)
"""


@pytest.fixture
def table(rows: Rows, project: Path) -> Rows:
    """Insert the asset flights.clean with two versions, the first one in two directories."""
    base = project / ".freshline" / "warehouse" / "flights.clean" / "data"
    for name in ("run-1-1", "run-2-1"):
        (base / name).mkdir(parents=True)
        duckdb.sql(f"COPY ({ROWS}) TO '{base}/{name}/part-0.parquet'")
    rows.workflow("make", ["flights.clean"])
    both = {"format": "parquet", "paths": ["flights.clean/data/run-1-1", "flights.clean/data/run-2-1"]}
    rows.snapshot("flights.clean", "v1", 1, location=both, rows=4, bytes=100)
    one = {"format": "parquet", "paths": ["flights.clean/data/run-2-1"], "files": {"part-0.parquet": 1}}
    rows.snapshot("flights.clean", "v2", 2, location=one, rows=2, bytes=50)
    return rows


FIELDS = {
    "year": "string",
    "id": "integer",
    "day": "date",
    "at": "timestamp",
    "tags": {"type": "array", "elementType": "string", "containsNull": True},
    "cost": "decimal(9,2)",
    "pair": {"type": "struct", "fields": [{"name": "a b", "type": "long", "nullable": True, "metadata": {}}]},
    "by": {"type": "map", "keyType": "string", "valueType": "double", "valueContainsNull": True},
}
SCHEMA = {
    "type": "struct",
    "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in FIELDS.items()],
}
COLUMNS = [
    ("year", "VARCHAR"),
    ("id", "INTEGER"),
    ("day", "DATE"),
    ("at", "TIMESTAMP WITH TIME ZONE"),
    ("tags", "VARCHAR[]"),
    ("cost", "DECIMAL(9,2)"),
    ("pair", 'STRUCT("a b" BIGINT)'),
    ("by", "MAP(VARCHAR, DOUBLE)"),
]
NULLS = "year=__HIVE_DEFAULT_PARTITION__/day=__HIVE_DEFAULT_PARTITION__/at=__HIVE_DEFAULT_PARTITION__"


def split_table(rows: Rows, project: Path, *parts: list[str], lost: int = 0) -> None:
    """Insert the asset flights.split: a run directory for each of `parts`, with a row per partition, as Spark does."""
    base = project / ".freshline" / "warehouse" / "flights.split" / "data"
    for number, directories in enumerate(parts, 1):
        (base / f"run-{number}").mkdir(parents=True)
        for directory in directories:
            (base / f"run-{number}" / directory).mkdir(parents=True)
            row = "SELECT 7 AS id, ['x'] AS tags, 1.5::decimal(9, 2) AS cost, {'a b': 1::bigint} AS pair"
            duckdb.sql(f"COPY ({row}) TO '{base}/run-{number}/{directory}/part-0.parquet'")
    paths = [f"flights.split/data/run-{number}" for number, _ in enumerate(parts, 1)]
    location = {"format": "parquet", "paths": paths, "partitionBy": ["Year", "day", "at"]}
    rows.workflow("split", ["flights.split"])
    rows.snapshot("flights.split", "v1", location=location, schema=SCHEMA, rows=sum(map(len, parts)) + lost, bytes=9)


def source(rows: Rows, location: Any, **columns: Any) -> None:
    """Insert a source with this location."""
    rows.source("raw")
    rows.snapshot("raw", "r1", location=location, **columns)


def test_the_current_version_as_a_table_and_as_json(freshline: Freshline, table: Rows) -> None:
    """Rows as they are; what JSON has no word for becomes text or null."""
    text = freshline("show", "flights.clean")
    assert "[bold]LGA" in text.stdout
    assert "version 2" in text.stderr
    found = freshline.json("show", "flights.clean")
    assert (found["assetId"], found["version"], found["dataVersion"]) == ("flights.clean", 2, "v2")
    assert found["columns"][0] == {"name": "id", "type": "INTEGER"}
    first, second = found["rows"]
    assert (first["cost"], first["day"], first["list"], first["bytes"]) == ("12.30", "2013-01-01", [1, 2], "eA==")
    assert second["delay"] is None
    assert found["truncated"] is False


def test_an_older_version_reads_all_its_directories(freshline: Freshline, table: Rows) -> None:
    """A version is exactly its directories."""
    assert len(freshline.json("show", "flights.clean", "--version", "1")["rows"]) == 4


def test_limit_says_that_there_is_more(freshline: Freshline, table: Rows) -> None:
    """Cut rows are told."""
    found = freshline.json("show", "flights.clean", "--limit", "1")
    assert (len(found["rows"]), found["truncated"]) == (1, True)
    assert "there are more" in freshline("show", "flights.clean", "--limit", "1").stderr


def test_a_query_over_the_view(freshline: Freshline, table: Rows) -> None:
    """The view is named like the asset, with underscores."""
    query = "SELECT count(*) AS n, max(id) AS top FROM flights_clean"
    assert freshline.json("show", "flights.clean", "--sql", query)["rows"] == [{"n": 2, "top": 2}]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("COPY flights_clean TO '{root}/stolen.csv'", "one SELECT"),
        ("COPY flights_clean TO '{data}/stolen.csv'", "one SELECT"),
        ("SELECT 1; SELECT 2", "one SELECT"),
        ("SET enable_external_access = true", "one SELECT"),
        ("ATTACH '{root}/x.db'", "one SELECT"),
        ("INSTALL httpfs", "one SELECT"),
        ("DROP VIEW flights_clean", "one SELECT"),
        ("EXPLAIN ANALYZE COPY flights_clean TO '{root}/stolen.csv'", "one SELECT"),
        ("", "one SELECT"),
        ("SELEC 1", "not a query"),
        ("SELECT * FROM read_text('{root}/freshline.toml')", "disabled"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled"),
        ("SELECT * FROM '{data}/../../../other.parquet'", "disabled"),
        ("SELECT * FROM 'https://example.com/x.parquet'", "disabled"),
        ("SELECT nothing FROM flights_clean", "nothing"),
    ],
)
def test_a_query_can_only_read_this_version(freshline: Freshline, table: Rows, query: str, message: str) -> None:
    """No writing, no other files, no network, no settings; each is wrong usage with a sentence."""
    data = freshline.project / ".freshline" / "warehouse" / "flights.clean" / "data" / "run-2-1"
    before = sorted(data.rglob("*"))
    result = freshline("show", "flights.clean", "--sql", query.format(root=freshline.project, data=data), code=2)
    assert message in result.stderr
    assert result.stdout == ""
    assert sorted(data.rglob("*")) == before
    assert not (freshline.project / "stolen.csv").exists()


def test_a_source_file(freshline: Freshline, rows: Rows) -> None:
    """The declared file of a source is read as it is, with the options that DuckDB finds by itself."""
    path = freshline.project / "it's.csv"
    path.write_text("id,name\n1,ann\n2,bob\n")
    source(rows, {"format": "csv", "path": str(path), "options": {"header": "true"}})
    assert freshline.json("show", "raw")["rows"] == [{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}]


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ({"format": "avro", "path": "/x"}, "'avro' cannot be shown"),
        ({"format": "parquet", "path": "s3://bucket/x"}, "reads remote data only from the warehouse"),
        ({"format": "parquet", "path": "/nowhere/x.parquet"}, "cannot be read"),
    ],
)
def test_what_cannot_be_shown_is_explained(freshline: Freshline, rows: Rows, location: Any, message: str) -> None:
    """Formats, places and files that are not there."""
    source(rows, location)
    code = 1 if "nowhere" in location["path"] else 2
    assert message in freshline("show", "raw", code=code).stderr


def test_a_collected_version_is_told(freshline: Freshline, rows: Rows) -> None:
    """Its files are gone, and when."""
    source(rows, {"format": "parquet", "path": "/x"}, gone_at=ago(0))
    assert "was collected" in freshline("show", "raw", code=1).stderr


def test_without_a_table_the_payload_is_shown(freshline: Freshline, rows: Rows) -> None:
    """Reports and data kept elsewhere have a payload; it cannot be queried."""
    source(rows, None, payload={"path": "x"})
    assert json.loads(freshline("show", "raw").stdout) == {"path": "x"}
    assert freshline.json("show", "raw")["payload"] == {"path": "x"}
    assert "only a payload" in freshline("show", "raw", "--sql", "SELECT 1", code=2).stderr


def test_an_asset_that_was_never_produced(freshline: Freshline, rows: Rows) -> None:
    """Says so, and where the reason is."""
    rows.workflow("make", ["a"])
    assert "freshline why a" in freshline("show", "a", code=1).stderr


def test_times_with_a_zone_are_shown(freshline: Freshline, table: Rows, project: Path) -> None:
    """Spark's timestamps are such; DuckDB needs a package of its own to give them to Python."""
    base = project / ".freshline" / "warehouse" / "flights.clean" / "data" / "run-3-1"
    base.mkdir(parents=True)
    duckdb.sql(f"COPY (SELECT '2013-01-01 10:00:00+00'::timestamptz AS at) TO '{base}/part-0.parquet'")
    location = {"format": "parquet", "paths": ["flights.clean/data/run-3-1"]}
    table.snapshot("flights.clean", "v3", 3, location=location, rows=1, bytes=10)
    (row,) = freshline.json("show", "flights.clean")["rows"]
    assert row["at"].startswith("2013-01-01 10:00:00")


def columns(found: Any) -> list[tuple[str, str]]:
    """Return names and types, in order."""
    return [(one["name"], one["type"]) for one in found["columns"]]


def test_columns_that_split_the_files_keep_their_types_and_places(
    freshline: Freshline, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text of digits stays text, a null is null, times are UTC, and the order is that of the stored schema.

    A column that no file has, as after an append that added it, is null.
    """
    monkeypatch.setenv("TZ", "America/New_York")
    there = "year=2024/day=2013-01-01/at=2013-01-01 10%3A00%3A00"
    split_table(rows, freshline.project, [there, NULLS])
    found = freshline.json("show", "flights.split", "--sql", "FROM flights_split ORDER BY year NULLS LAST")
    assert columns(found) == COLUMNS
    assert columns(freshline.json("show", "flights.split")) == COLUMNS
    first, second = found["rows"]
    assert (first["year"], first["day"]) == ("2024", "2013-01-01")
    assert datetime.fromisoformat(first["at"]) == datetime(2013, 1, 1, 10, tzinfo=UTC)
    assert (second["year"], second["day"], second["at"]) == (None, None, None)
    assert (first["id"], first["tags"], first["cost"], first["pair"], first["by"]) == (
        7,
        ["x"],
        "1.50",
        {"a b": 1},
        None,
    )


def test_a_split_table_without_rows_has_columns(freshline: Freshline, rows: Rows) -> None:
    """Spark writes no file for it: the columns come from the stored schema, and a query works too."""
    split_table(rows, freshline.project, [])
    found = freshline.json("show", "flights.split")
    assert (columns(found), found["rows"]) == (COLUMNS, [])
    assert "0 rows shown" in freshline("show", "flights.split").stderr
    counted = freshline.json(
        "show", "flights.split", "--sql", "SELECT count(*) AS n, max(year) AS y FROM flights_split"
    )
    assert counted["rows"] == [{"n": 0, "y": None}]


def test_an_append_of_no_rows_to_a_split_table(freshline: Freshline, rows: Rows) -> None:
    """A directory without files beside one with files adds nothing, and is no error."""
    split_table(rows, freshline.project, [NULLS], [])
    assert len(freshline.json("show", "flights.split")["rows"]) == 1


@pytest.mark.parametrize("parts", [([],), ([NULLS], [])], ids=["all", "one of two"])
def test_lost_files_of_a_split_table_are_told(freshline: Freshline, rows: Rows, parts: tuple[list[str], ...]) -> None:
    """A table that had more rows than its files have is not shown as if these were all."""
    split_table(rows, freshline.project, *parts, lost=5)
    assert "cannot be read" in freshline("show", "flights.split", code=1).stderr
