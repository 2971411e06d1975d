"""One Delta table of all partitions of an asset: whole versions, removed files, other layouts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import psycopg
import pytest
from deltalake import DeltaTable

from freshline.delta.examine import examine
from freshline.delta.sync import DeltaSync
from freshline.errors import NotFoundError, UsageError
from freshline.model.run import StagedOutput
from freshline.services.delta_log_writer import DeltaLogWriter
from freshline.storage import layout
from freshline.store.db.queries import load
from tests.scenarios.test_partitions import divided
from tests.store_harness import Lab, laboratory

DAYS: dict[str, Any] = {"time": "day", "start": "2025-12-01"}
FIELDS = [{"name": "x", "type": "long"}, {"name": "day", "type": "date"}]
RUNS = load("runs")
ONE, TWO = "2025-12-30", "2025-12-31"


class Parts:
    """The asset b with a partition per day, whose versions are written by hand."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.root = lab.warehouse / "b"
        self.writer = DeltaLogWriter(lab.store)
        self.log = DeltaSync(lab.storage)
        self.expected: list[dict[str, list[int]]] = []
        self.count = 0
        lab.apply(divided("b", {"a": None}, DAYS), sources=({"assetId": "a", "partitioning": DAYS},))

    def publish(self, key: str, *rows: int, append: bool = False, column: str = "day", more: str | None = None) -> None:
        """Publish a version of a partition. `more`: a further column, which has the same values."""
        run = self._start(key)
        columns = {column: key}
        name = layout.staging_directory("b", run.id, 1, 1)
        directory = self.lab.warehouse / name / layout.partition_directory(columns)
        directory.mkdir(parents=True)
        content: dict[str, Any] = {"x": list(rows), column: [date.fromisoformat(key)] * len(rows)}
        kinds = {"x": pl.Int64, column: pl.Date, **({more: pl.Int64} if more else {})}
        content |= {more: list(rows)} if more else {}
        pl.DataFrame(content, schema=kinds).write_parquet(directory / "part-0.parquet")
        location = layout.seal(self.lab.storage, name)
        location["partition"] = {"columns": columns, "directory": layout.partition_directory(columns)}
        fields = [FIELDS[0], {"name": column, "type": "date"}, *([{"name": more, "type": "long"}] if more else ())]
        schema = {"type": "struct", "fields": [{**one, "nullable": True, "metadata": {}} for one in fields]}
        based = self.head(key)["sequence"] if append else None
        version = f"{key} {rows}" if not append else run.id
        output = StagedOutput("b", "work", version, location=location, schema=schema, appended=append, based_on=based)
        before = self.newest
        self.lab.store.runs.publish(run, [output])
        if self.newest != before:
            last = self.expected[-1] if self.expected else {}
            self.expected.append({**last, key: sorted([*(last.get(key, []) if append else []), *rows])})

    def _start(self, key: str) -> Any:
        self.lab.advance(minutes=1)
        self.count += 1
        self.lab.report("a", f"v{self.count}", partition_key=key)
        self.lab.settle()
        return self.lab.start_of("b")

    def head(self, key: str) -> dict[str, Any]:
        return self.lab.rows("SELECT * FROM heads WHERE asset_id = 'b' AND partition_key = %s", key)[0]

    @property
    def newest(self) -> int | None:
        found: int | None = self.lab.one("SELECT max(table_version) FROM snapshots WHERE asset_id = 'b'")
        return found

    def write(self) -> None:
        """Write all unlogged versions."""
        while self.writer.run_once():
            pass

    def read(self, version: int | None = None) -> dict[str, list[int]]:
        """Return the rows by day, as Polars reads them."""
        found: dict[str, list[int]] = {}
        for row in pl.read_delta(str(self.root), version=version).iter_rows(named=True):
            found.setdefault(str(row["day"]), []).append(row["x"])
        return {key: sorted(rows) for key, rows in found.items()}

    def check(self) -> None:
        """Every version is the whole table as it was, and the doctor agrees."""
        self.write()
        assert [self.read(n) for n in range(len(self.expected))] == self.expected
        assert DeltaTable(str(self.root)).version() == len(self.expected) - 1
        assert examine(self.lab.store, 10).count == 0

    def actions(self, version: int, kind: str) -> list[dict[str, Any]]:
        text = (self.root / "_delta_log" / f"{version:020}.json").read_text()
        return [one[kind] for one in map(json.loads, text.splitlines()) if kind in one]


@pytest.fixture
def parts(database_url: str, tmp_path: Path) -> Iterator[Parts]:
    """Yield an asset with partitions and without data."""
    with laboratory(database_url, warehouse=str(tmp_path / "w")) as lab:
        layout.check_warehouse(lab.storage, lab.store.warehouse_id)
        yield Parts(lab)


def history(parts: Parts) -> None:
    """Two days, one of them again, rows appended to one, an equal result."""
    parts.publish(ONE, 1, 2)
    parts.publish(TWO, 3)
    parts.publish(ONE, 4)
    parts.publish(TWO, 5, append=True)
    parts.publish(ONE, 4)
    parts.publish(TWO, 6)


def test_every_version_is_the_whole_table(parts: Parts) -> None:
    """A publication removes the files of its partition and no others; an unchanged partition makes no version."""
    history(parts)
    assert parts.newest == 4, "the equal result made no version"
    parts.check()
    assert [len(parts.actions(n, "remove")) for n in range(5)] == [0, 0, 1, 0, 2]
    assert {one["partitionValues"]["day"] for one in parts.actions(4, "remove")} == {TWO}
    table = DeltaTable(str(parts.root))
    assert table.metadata().partition_columns == ["day"]
    assert len(table.file_uris(file_pruning_predicate=[("day", "=", ONE)])) == 1
    arrow = table.to_pyarrow_dataset()
    assert duckdb.sql(f"SELECT x FROM arrow WHERE day = DATE '{ONE}'").fetchall() == [(4,)]
    lazy = pl.scan_delta(str(parts.root)).filter(pl.col("day") == date.fromisoformat(TWO))
    assert lazy.collect()["x"].to_list() == [6]
    assert arrow is not None


def test_a_lost_log_is_written_again_with_all_partitions(parts: Parts) -> None:
    """The database has every version of every partition: a rewritten log describes the same tables."""
    history(parts)
    parts.write()
    for file in (parts.root / "_delta_log").iterdir():
        if file.is_file():
            file.unlink()
    assert examine(parts.lab.store, 10).count == 1
    assert parts.lab.store.tables.rewrite_log("b", parts.log.rebuild) == 4
    parts.check()


def test_a_commit_is_written_in_the_order_of_versions_of_all_partitions(parts: Parts) -> None:
    """One commit that cannot be written holds back those of other partitions: the log has no gaps."""
    history(parts)
    numbers = []
    while parts.lab.store.tables.write_log(lambda one: numbers.append(one.number)):
        pass
    assert numbers == [0, 1, 2, 3, 4]


def test_columns_that_only_older_partitions_have_stay_in_the_table(parts: Parts) -> None:
    """They are null in the others."""
    parts.publish(ONE, 1, more="y")
    parts.publish(TWO, 2)
    parts.write()
    rows = sorted(pl.read_delta(str(parts.root)).select("x", "y").rows())
    assert rows == [(1, 1), (2, None)]
    parts.publish(ONE, 3, more="z")
    parts.write()
    assert sorted(pl.read_delta(str(parts.root)).select("x", "y", "z").rows()) == [(2, None, None), (3, None, 3)]


def test_another_layout_replaces_the_whole_table(parts: Parts) -> None:
    """The first partition with another column removes all files; the version before stays readable."""
    parts.publish(ONE, 1)
    parts.publish(TWO, 2)
    parts.lab.apply(
        divided("b", {"a": None}, {**DAYS, "column": "d"}), sources=({"assetId": "a", "partitioning": DAYS},)
    )
    parts.publish(ONE, 3, column="d")
    parts.write()
    assert parts.read(1) == {ONE: [1], TWO: [2]}
    assert pl.read_delta(str(parts.root)).select("x", "d").rows() == [(3, date.fromisoformat(ONE))]
    assert len(parts.actions(2, "remove")) == 2


def test_versions_that_the_database_has_forgotten_are_not_shown_half(parts: Parts) -> None:
    """A rewritten log begins where every partition is known; before, there is no row rather than some."""
    history(parts)
    parts.publish(ONE, 7)
    parts.lab.rows("DELETE FROM table_commits WHERE asset_id = 'b' RETURNING 1")
    parts.lab.rows("DELETE FROM snapshots WHERE asset_id = 'b' AND table_version = 0 RETURNING 1")
    parts.lab.store.tables.rewrite_log("b", parts.log.rebuild)
    assert parts.read(1) == {}, "what the first day had is not known"
    assert [parts.read(n) for n in range(2, 6)] == parts.expected[2:]


def test_a_rollback_of_one_partition_takes_what_it_had_in_a_version_of_the_table(parts: Parts) -> None:
    """The other partitions stay as they are; the rollback is one more version of the whole table."""
    history(parts)
    parts.check()
    made = parts.lab.store.tables.rollback("b", 3, partition_key=TWO)
    assert (made.table_version, made.changed) == (5, True)
    parts.expected.append({**parts.expected[-1], TWO: [3, 5]})
    parts.check()
    assert parts.lab.store.tables.rollback("b", 1, partition_key=ONE).changed
    assert not parts.lab.store.tables.rollback("b", 0, partition_key=ONE).changed, "they are the same rows"
    parts.expected.append({**parts.expected[-1], ONE: [1, 2]})
    parts.check()


def test_a_rollback_that_cannot_be_changes_nothing(parts: Parts) -> None:
    """It needs a partition, and a version in which that had data."""
    parts.publish(ONE, 1)
    parts.publish(TWO, 2)
    with pytest.raises(UsageError, match="has partitions, and none is named"):
        parts.lab.store.tables.rollback("b", 1)
    with pytest.raises(NotFoundError, match=f"'b@{TWO}' has no version 0"):
        parts.lab.store.tables.rollback("b", 0, partition_key=TWO)
    parts.check()


def test_two_partitions_of_an_asset_never_get_the_same_version(parts: Parts) -> None:
    """The number is taken under the lock of the asset: the second publication waits for the first."""
    parts.publish(ONE, 1)
    lock = {"workflow": parts.lab.one("SELECT id FROM workflows WHERE slug = 'b'")}
    database = parts.lab.database
    with database.transaction("publish_run") as first, database.transaction("publish_run") as second:
        first.execute(RUNS["lock_outputs"], {**lock, "partition": ONE})
        second.execute("SET LOCAL lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable), second.transaction():
            second.execute(RUNS["lock_outputs"], {**lock, "partition": TWO})
