"""The Delta logs follow what was published, in order, whatever fails (R9.7)."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable

from freshline.errors import WarehouseError
from freshline.model.run import StagedOutput
from freshline.services.scribe import Scribe
from freshline.store.versioning import Unlogged
from freshline.warehouse import files
from freshline.warehouse.tablelog import TableLog
from tests.lab import Lab, laboratory, workflow

SCHEMA = {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]}
Rows = list[int]


class Table:
    """The asset b, whose versions are written by hand."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.root = lab.settings.warehouse_path / "b"
        self.scribe = Scribe(lab.store)
        self.expected: list[Rows] = []

    def publish(self, *rows: int, append: bool = False, schema: Any = SCHEMA) -> None:
        lab = self.lab
        lab.advance(minutes=1)
        lab.report("a")
        lab.settle()
        run = lab.start_of("b")
        directory = files.staging_directory(lab.settings.warehouse_path, "b", run.id, 1, 1)
        directory.mkdir(parents=True)
        pl.DataFrame({"x": list(rows)}, schema={"x": pl.Int64}).write_parquet(directory / "part-0.parquet")
        location = files.seal(lab.settings.warehouse_path, directory)
        based = lab.head("b")["sequence"] if append else None
        output = StagedOutput("b", "work", run.id, location=location, schema=schema, appended=append, based_on=based)
        lab.store.publish_run(run, [output])
        self.expected.append(sorted([*(self.expected[-1] if append else []), *rows]))

    def write(self) -> int:
        """The scribe, until it is done; how many rounds it took."""
        rounds = 0
        while self.scribe.run_once():
            rounds += 1
        return rounds

    def read(self, version: int | None = None) -> Rows:
        return sorted(pl.read_delta(str(self.root), version=version)["x"].to_list())

    def check(self) -> None:
        """Every version is read as it was published."""
        assert [self.read(n) for n in range(len(self.expected))] == self.expected
        assert DeltaTable(str(self.root)).version() == len(self.expected) - 1


@pytest.fixture
def table(database_url: str, tmp_path: Path) -> Iterator[Table]:
    """No version yet."""
    with laboratory(database_url, warehouse=tmp_path / "w") as lab:
        files.check_warehouse(lab.settings.warehouse_path, lab.store.warehouse_id)
        lab.apply(workflow("b", "a"))
        yield Table(lab)


def history(table: Table) -> None:
    """Overwritten, appended, rolled back."""
    table.publish(1, 2)
    table.publish(3, append=True)
    table.publish(4, append=True)
    table.publish(9)
    table.lab.store.rollback_table("b", 2)
    table.expected.append([1, 2, 3])
    table.publish(5, append=True)


def test_the_log_is_what_was_published(table: Table) -> None:
    """Every version by its number, with its rows; afterwards there is nothing to do."""
    history(table)
    assert table.write() == 6
    table.check()
    assert table.write() == 0
    assert DeltaTable(str(table.root)).transaction_version("freshline") == table.lab.head("b")["sequence"]


def test_a_version_that_cannot_be_logged_holds_up_those_behind_it(table: Table) -> None:
    """Strictly by number: the second waits for the first, which is tried again later, and the doctor hears why."""
    table.publish(1)
    table.publish(2)
    tried: list[int] = []

    def full(one: Unlogged) -> None:
        tried.append(one.number)
        raise WarehouseError("the disk is full")

    assert table.lab.store.log_table(full)
    assert not table.lab.store.log_table(full)
    assert tried == [0]
    assert table.lab.one("SELECT trouble FROM table_commits WHERE tries = 1") == "the disk is full"
    table.lab.advance(seconds=2)
    assert table.write() == 2
    table.check()


def test_a_commit_whose_transaction_was_lost_is_left_as_it_is(table: Table) -> None:
    """A crash between the file and the transaction: the next one finds the same bytes."""
    table.publish(1)

    def dying(one: Unlogged) -> None:
        TableLog(table.root.parent).append(one)
        raise RuntimeError("the process dies")

    with pytest.raises(RuntimeError, match="dies"):
        table.lab.store.log_table(dying)
    assert table.write() == 1
    table.check()


def test_a_log_that_got_lost_is_written_anew(table: Table) -> None:
    """By the next version by itself, or by `freshline table repair`, with the same numbers and the same bytes."""
    history(table)
    table.write()
    before = {path.name: path.read_text() for path in (table.root / "_delta_log").iterdir()}
    shutil.rmtree(table.root / "_delta_log")
    table.lab.store.relog_table("b", TableLog(table.root.parent).rebuild)
    assert {path.name: path.read_text() for path in (table.root / "_delta_log").iterdir()} == before
    shutil.rmtree(table.root / "_delta_log")
    table.publish(7, append=True)
    table.write()
    table.check()


def test_a_repaired_log_begins_where_the_files_do(table: Table) -> None:
    """Versions whose files are gone have empty commits; the numbers of the others stay."""
    for n in range(3):
        table.publish(n)
    table.lab.rows("UPDATE snapshots SET gone_at = now() WHERE asset_id = 'b' AND table_version < 2 RETURNING 1")
    (table.root / "_delta_log").mkdir()
    (table.root / "_delta_log" / f"{7:020}.json").write_text("{}")
    table.lab.store.relog_table("b", TableLog(table.root.parent).rebuild)
    assert [table.read(n) for n in range(3)] == [[], [], [2]]
    assert DeltaTable(str(table.root)).version() == 2


def test_a_table_that_delta_cannot_hold_has_no_log_and_holds_nobody_up(table: Table) -> None:
    """It is published and read by us; when its types are such again, the log goes on with the right number."""
    odd = {"type": "struct", "fields": [{"name": "x", "type": "variant", "nullable": True, "metadata": {}}]}
    table.publish(1, schema=odd)
    assert table.write() == 1
    assert not (table.root / "_delta_log").exists()
    table.publish(2)
    table.publish(3, schema=odd)
    table.publish(4)
    table.write()
    assert [table.read(n) for n in (1, 3)] == [[2], [4]]
    assert DeltaTable(str(table.root)).version() == 3


def test_scribes_share_the_tables(table: Table) -> None:
    """Four at once write every version once, in order."""
    for n in range(8):
        table.publish(n, append=bool(n))
    errors: list[BaseException] = []

    def work() -> None:
        scribe = Scribe(table.lab.store)
        try:
            while table.lab.one("SELECT count(*) FROM table_commits"):
                scribe.run_once()
        except BaseException as error:  # noqa: BLE001 - the test fails on it
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    table.check()


def test_a_long_log_has_checkpoints(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers need not read every commit."""
    monkeypatch.setattr("freshline.warehouse.tablelog.CHECKPOINT_EVERY", 3)
    for n in range(5):
        table.publish(n, append=bool(n))
    table.write()
    assert list((table.root / "_delta_log").glob("*3.checkpoint.parquet"))
    table.check()


def test_a_warehouse_of_others_is_left_alone(table: Table) -> None:
    """R12.3: no log is written where the files are not ours, or where there are none."""
    table.publish(1)
    shutil.rmtree(table.lab.settings.warehouse_path)
    assert table.write() == 0
    assert not table.lab.settings.warehouse_path.exists()
