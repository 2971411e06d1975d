"""The Delta logs follow the published versions, in order, whatever fails (docs/semantics.md#R9.7)."""

from __future__ import annotations

import shutil
import threading

import pytest
from deltalake import DeltaTable

from freshline.delta.sync import DeltaSync
from freshline.errors import WarehouseError
from freshline.services.delta_log_writer import DeltaLogWriter
from freshline.store.tables.versions import Unlogged
from tests.delta.table import Table, history


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

    assert table.lab.store.tables.write_log(full)
    assert not table.lab.store.tables.write_log(full)
    assert tried == [0]
    assert table.lab.one("SELECT trouble FROM table_commits WHERE tries = 1") == "the disk is full"
    table.lab.advance(seconds=2)
    assert table.write() == 2
    table.check()


def test_a_commit_whose_transaction_was_lost_is_left_as_it_is(table: Table) -> None:
    """A crash between the file and the transaction: the next one finds the same bytes."""
    table.publish(1)

    def dying(one: Unlogged) -> None:
        DeltaSync(table.lab.storage).append(one)
        raise RuntimeError("the process dies")

    with pytest.raises(RuntimeError, match="dies"):
        table.lab.store.tables.write_log(dying)
    assert table.write() == 1
    table.check()


def test_a_lost_log_is_written_again(table: Table) -> None:
    """By the next version by itself, or by `freshline table repair`, with the same numbers and the same bytes."""
    history(table)
    table.write()
    before = {path.name: path.read_bytes() for path in (table.root / "_delta_log").iterdir()}
    assert before.keys() == {f"{n:020}.json" for n in range(6)}
    shutil.rmtree(table.root / "_delta_log")
    table.lab.store.tables.rewrite_log("b", DeltaSync(table.lab.storage).rebuild)
    after = {path.name: path.read_bytes() for path in (table.root / "_delta_log").iterdir()}
    assert after.keys() - before.keys() == {f"{5:020}.checkpoint.parquet", "_last_checkpoint"}
    assert {name: after[name] for name in before} == before
    table.check()
    shutil.rmtree(table.root / "_delta_log")
    table.publish(7, append=True)
    table.write()
    table.check()


def test_a_table_that_delta_cannot_hold_has_no_log_and_holds_nobody_up(table: Table) -> None:
    """Freshline can still read it. With supported types again, the log continues with the right number."""
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


def test_writers_share_the_tables(table: Table) -> None:
    """Four at once write every version once, in order."""
    for n in range(8):
        table.publish(n, append=bool(n))
    errors: list[BaseException] = []

    def work() -> None:
        writer = DeltaLogWriter(table.lab.store)
        try:
            while table.lab.one("SELECT count(*) FROM table_commits"):
                writer.run_once()
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
    monkeypatch.setattr("freshline.delta.sync.CHECKPOINT_EVERY", 3)
    for n in range(5):
        table.publish(n, append=bool(n))
    table.write()
    assert list((table.root / "_delta_log").glob("*3.checkpoint.parquet"))
    table.check()


def test_a_warehouse_of_others_is_left_alone(table: Table) -> None:
    """No log is written where the files are not ours, or where there are none (docs/semantics.md#R12.3)."""
    table.publish(1)
    shutil.rmtree(table.lab.warehouse)
    assert table.write() == 0
    assert not table.lab.warehouse.exists()
