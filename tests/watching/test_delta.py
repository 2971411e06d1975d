"""A Delta table that another system writes: each version with other rows is reported once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable

from tests.watching.harness import SOURCE, Watching, watching

ROWS = pl.DataFrame({"id": [1, 2]})


@pytest.fixture
def place(database_url: str, tmp_path: Path) -> Iterator[Watching]:
    """Yield a project with a watched directory."""
    with watching(database_url, tmp_path) as found:
        yield found


def test_a_version_is_reported_once_and_maintenance_never(place: Watching) -> None:
    """New rows are a new version; compaction is not; a table that is created again is new even with a lower number."""
    table = str(place.drop / "table")
    place.apply({"delta": "drop/table"}, mode="snapshot")
    assert place.look()["error"] == "there is no Delta table at 'drop/table'"
    ROWS.write_delta(table)
    ROWS.write_delta(table, mode="append")
    place.look(minutes=5)
    first = place.lab.head(SOURCE)["data_version"]
    assert first.startswith("1@")
    place.look()
    DeltaTable(table).optimize.compact()
    assert place.look()["summary"] == "Version 2 has the rows of version 1."
    assert place.events() == 1
    ROWS.write_delta(table, mode="append")
    place.look()
    assert place.lab.head(SOURCE)["data_version"].startswith("3@")
    Path(table).rename(place.drop / "old")
    ROWS.write_delta(table)
    place.look()
    assert place.events() == 3
    assert place.lab.head(SOURCE)["data_version"].startswith("0@")


def test_an_append_source_gets_ranges_of_versions(place: Watching) -> None:
    """A delivery says after which version and up to which one the table changed."""
    table = str(place.drop / "table")
    ROWS.write_delta(table)
    place.apply({"delta": "drop/table"})
    place.look()
    ROWS.write_delta(table, mode="append")
    ROWS.write_delta(table, mode="append")
    place.look()
    rows = place.lab.rows("SELECT items -> 0 -> 'payload' AS p FROM deliveries ORDER BY last_number")
    assert [(row["p"]["from"], row["p"]["to"]) for row in rows] == [(None, 0), (0, 2)]


def test_a_table_outside_of_what_is_allowed_is_refused(place: Watching, tmp_path: Path) -> None:
    """The error names the path and what is allowed."""
    ROWS.write_delta(str(tmp_path / "other"))
    place.apply({"delta": "other"}, mode="snapshot", path="drop", format="delta")
    assert (
        place.look()["error"]
        == f"'delta' is 'other', which is not allowed; allowed is what is at or below {place.drop}"
    )
