"""The Delta logs follow what was published, in order, whatever fails (docs/semantics.md#R9.7)."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from freshline.delta.log import REPAIR_MARKER
from freshline.delta.sync import DeltaSync
from freshline.errors import WarehouseError
from freshline.model.run import StagedOutput
from freshline.services.delta_log_writer import DeltaLogWriter
from freshline.storage import layout
from freshline.storage.local import LocalStorage
from freshline.store.tables import versions as tables
from freshline.store.tables.versions import Unlogged
from tests.store_harness import Lab, laboratory, workflow

SCHEMA = {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]}
Rows = list[int]


class Table:
    """The asset b, whose versions are written by hand."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.root = lab.warehouse / "b"
        self.scribe = DeltaLogWriter(lab.store)
        self.expected: list[Rows] = []

    def publish(self, *rows: int, append: bool = False, schema: Any = SCHEMA) -> None:
        lab = self.lab
        lab.advance(minutes=1)
        lab.report("a")
        lab.settle()
        run = lab.start_of("b")
        name = layout.staging_directory("b", run.id, 1, 1)
        directory = lab.warehouse / name
        directory.mkdir(parents=True)
        pl.DataFrame({"x": list(rows)}, schema={"x": pl.Int64}).write_parquet(directory / "part-0.parquet")
        location = layout.seal(lab.storage, name)
        based = lab.head("b")["sequence"] if append else None
        output = StagedOutput("b", "work", run.id, location=location, schema=schema, appended=append, based_on=based)
        lab.store.runs.publish(run, [output])
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
    with laboratory(database_url, warehouse=str(tmp_path / "w")) as lab:
        layout.check_warehouse(lab.storage, lab.store.warehouse_id)
        lab.apply(workflow("b", "a"))
        yield Table(lab)


def history(table: Table) -> None:
    """Overwritten, appended, rolled back."""
    table.publish(1, 2)
    table.publish(3, append=True)
    table.publish(4, append=True)
    table.publish(9)
    table.lab.store.tables.rollback("b", 2)
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


def test_a_log_that_got_lost_is_written_anew(table: Table) -> None:
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


def test_a_repaired_log_begins_where_the_files_do(table: Table) -> None:
    """Versions whose files are gone have empty commits; the numbers of the others stay."""
    for n in range(3):
        table.publish(n)
    table.lab.rows("UPDATE snapshots SET gone_at = now() WHERE asset_id = 'b' AND table_version < 2 RETURNING 1")
    (table.root / "_delta_log").mkdir()
    (table.root / "_delta_log" / f"{7:020}.json").write_text("{}")
    table.lab.store.tables.rewrite_log("b", DeltaSync(table.lab.storage).rebuild)
    assert [table.read(n) for n in range(3)] == [[], [], [2]]
    assert DeltaTable(str(table.root)).version() == 2


def test_a_repair_keeps_what_is_published_meanwhile(table: Table) -> None:
    """While the log is written anew no scribe writes to it, or the repair would remove what it does not know.

    See docs/semantics.md#R9.7.
    """
    table.publish(1)
    table.write()

    def slow(one: Unlogged) -> None:
        table.publish(2)
        table.write()
        DeltaSync(table.lab.storage).rebuild(one)

    table.lab.store.tables.rewrite_log("b", slow)
    table.lab.advance(seconds=2)
    table.write()
    table.check()


def test_a_table_that_is_repaired_holds_up_no_other(table: Table) -> None:
    """The scribe leaves it for later and goes on."""
    table.lab.apply(workflow("b", "a"), workflow("c", "b"))
    table.publish(1)
    logged: list[str] = []

    def meanwhile(one: Unlogged) -> None:
        later = "SELECT 'c', '', 0, 1, eligible_at + interval '1 ms' FROM table_commits RETURNING 1"
        columns = "asset_id, partition_key, table_version, sequence, eligible_at"
        table.lab.rows(f"INSERT INTO table_commits ({columns}) {later}")
        table.lab.advance(seconds=1)
        while table.lab.store.tables.write_log(lambda other: logged.append(other.asset_id)):
            pass
        DeltaSync(table.lab.storage).rebuild(one)

    table.lab.store.tables.rewrite_log("b", meanwhile)
    assert logged == ["c"]
    table.check()


def test_a_long_repair_is_no_idle_transaction(table: Table) -> None:
    """Files take their time; the server ends a transaction that does nothing for 5 s, this one later."""
    table.publish(1)
    limits: list[str] = []

    def look(one: Unlogged) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tables, "SQL", {"versions": "SHOW idle_in_transaction_session_timeout"})
            limits.extend(row["idle_in_transaction_session_timeout"] for row in one.versions(0, 0))

    table.lab.store.tables.write_log(look)
    table.lab.store.tables.rewrite_log("b", look)
    assert limits == ["10min", "10min"]


def appended(table: Table) -> None:
    """Five versions, of which the first one is gone, and a checkpoint of version 3."""
    table.publish(9)
    table.publish(1, 2)
    for n in (3, 4, 5):
        table.publish(n, append=True)
    table.write()
    table.lab.rows("UPDATE snapshots SET gone_at = now() WHERE asset_id = 'b' AND table_version = 0 RETURNING 1")


def nothing(_log: Path) -> None:
    """It is as it should be."""


def cleaned(log: Path) -> None:
    """Commits that a checkpoint made superfluous were removed, as it is done after 30 days."""
    for number in range(3):
        (log / f"{number:020}.json").unlink()


def broken(log: Path) -> None:
    """A commit says what nobody can read; the checkpoint after it hides that."""
    (log / f"{1:020}.json").write_text("{")


def foreign(log: Path) -> None:
    """Somebody else wrote to it."""
    (log / f"{5:020}.json").write_text('{"commitInfo":{"operation":"WRITE"}}\n')


def misled(log: Path) -> None:
    """The checkpoint that is said to be the last one is not there."""
    (log / "_last_checkpoint").write_text('{"version":7,"size":1}')


DAMAGES = (nothing, cleaned, broken, foreign, misled)


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_newest_version_is_whole_while_the_log_is_repaired(
    table: Table, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    """After every step of a repair a reader finds all rows, and afterwards those of every version."""
    monkeypatch.setattr("freshline.delta.sync.CHECKPOINT_EVERY", 3)
    monkeypatch.setattr("freshline.delta.repair.READER_GRACE_S", 0)
    appended(table)
    damage(table.root / "_delta_log")
    seen: list[Rows] = []

    def watched(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(path: Path, *more: Any, **options: Any) -> Any:
            done = change(path, *more, **options)
            if "_delta_log" in str(path) and damage is not misled:
                seen.append(table.read())
            return done

        return changed

    with monkeypatch.context() as patch:
        for name in ("unlink", "rename", "replace"):
            patch.setattr(Path, name, watched(getattr(Path, name)))
        table.lab.store.tables.rewrite_log("b", DeltaSync(table.lab.storage).rebuild)
    assert [rows for rows in seen if rows != [1, 2, 3, 4, 5]] == []
    assert bool(seen) == (damage in {cleaned, broken, foreign})
    assert [table.read(n) for n in range(1, 5)] == table.expected[1:]
    assert DeltaTable(str(table.root)).version() == 4
    assert list(table.root.rglob(".*")) == [], "neither a mark nor a file that was begun"


def lost(log: Path) -> None:
    """There is no log."""
    shutil.rmtree(log)


def wrong(log: Path) -> None:
    """Two commits can be read and say what was never so; the checkpoint after them hides that."""
    for number in (1, 2):
        (log / f"{number:020}.json").write_text('{"commitInfo":{"operation":"WRITE"}}\n')


def readable(table: Table, version: int) -> Rows | None:
    """The rows of a version, if the log tells any."""
    try:
        return table.read(version)
    except DeltaError:
        return None


@pytest.mark.parametrize(
    ("damage", "done"),
    [(lost, n) for n in range(9)]
    + [(cleaned, n) for n in range(1, 6)]
    + [(broken, n) for n in range(1, 4)]
    + [(wrong, n) for n in range(1, 5)],
)
def test_a_repair_that_is_killed_tells_nothing_wrong_and_is_done_by_the_next_version(
    table: Table, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None], done: int
) -> None:
    """However many files of the new log are there, the newest version is right, if there is any to be read.

    So is every other version from the moment on in which wrong commits were removed; and the scribe needs no help.
    """
    monkeypatch.setattr("freshline.delta.sync.CHECKPOINT_EVERY", 3)
    monkeypatch.setattr("freshline.delta.repair.READER_GRACE_S", 0)
    history(table)
    table.write()
    damage(table.root / "_delta_log")
    replace, calls = LocalStorage.replace, itertools.count()

    def dying(storage: LocalStorage, name: str, data: bytes) -> None:
        if next(calls) == done:
            raise RuntimeError("the process dies")
        replace(storage, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "replace", dying)
        with pytest.raises(RuntimeError, match="dies"):
            table.lab.store.tables.rewrite_log("b", DeltaSync(table.lab.storage).rebuild)
    assert (table.root / "_delta_log" / REPAIR_MARKER).exists() == (done > 0)
    if damage is lost and done < 2:  # the mark and then the checkpoint
        with pytest.raises(TableNotFoundError):
            table.read()
    else:
        assert table.read() == table.expected[-1]
        assert DeltaTable(str(table.root)).version() == 5
    if done > 2:
        assert [n for n, rows in enumerate(table.expected) if readable(table, n) not in (None, rows)] == []
    table.publish(7, append=True)
    table.write()
    table.check()
    assert list(table.root.rglob(".*")) == []


def test_no_version_becomes_wrong_while_the_log_is_repaired(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """After every single file a version that was right is right or cannot be read, the newest one is right.

    A checkpoint may be all that keeps wrong commits before it from being read, so these have to go first.
    """
    monkeypatch.setattr("freshline.delta.sync.CHECKPOINT_EVERY", 3)
    monkeypatch.setattr("freshline.delta.repair.READER_GRACE_S", 0)
    table.publish(1, 2)
    for n in range(3, 8):
        table.publish(n, append=True)
    table.write()
    wrong(table.root / "_delta_log")
    right = [n for n, rows in enumerate(table.expected) if table.read(n) == rows]
    assert right == [0, 3, 4, 5], "those before the checkpoint are wrong"
    remove, replace = LocalStorage.remove, LocalStorage.replace
    removed: list[str] = []
    seen: list[tuple[str, list[int]]] = []

    def look(name: str) -> None:
        assert table.read() == table.expected[-1], name
        seen.append((name, [n for n in right if readable(table, n) not in (None, table.expected[n])]))

    def removing(storage: LocalStorage, names: Iterable[str]) -> None:
        for name in names:
            remove(storage, [name])
            removed.append(Path(name).name)
            look(f"without {name}")

    def replacing(storage: LocalStorage, name: str, data: bytes) -> None:
        replace(storage, name, data)
        look(f"with {name}")

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "remove", removing)
        patch.setattr(LocalStorage, "replace", replacing)
        table.lab.store.tables.rewrite_log("b", DeltaSync(table.lab.storage).rebuild)
    assert [(name, versions) for name, versions in seen if versions] == []
    assert {f"{1:020}.json", f"{2:020}.json", f"{3:020}.checkpoint.parquet"} <= set(removed)
    table.check()


def test_a_reader_is_not_disturbed_by_repairs(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it has begun to read before the repair."""
    monkeypatch.setattr("freshline.delta.sync.CHECKPOINT_EVERY", 3)
    appended(table)
    over = threading.Event()
    seen: list[Rows] = []

    def poll() -> None:
        while not over.is_set():
            try:
                seen.append(table.read())
            except Exception as error:  # noqa: BLE001 - the test fails on it
                seen.append([str(error)])  # type: ignore[list-item]

    reader = threading.Thread(target=poll)
    reader.start()
    for damage in (nothing, cleaned, broken):
        damage(table.root / "_delta_log")
        table.lab.store.tables.rewrite_log("b", DeltaSync(table.lab.storage).rebuild)
    over.set()
    reader.join()
    assert [rows for rows in seen if rows != [1, 2, 3, 4, 5]] == []


def written(table: Table) -> dict[str, tuple[int, int]]:
    """The files of the log, with what changes when one is written. Reading changes the access time only."""
    files = {path.name: path.stat() for path in (table.root / "_delta_log").iterdir()}
    return {name: (status.st_ino, status.st_mtime_ns) for name, status in files.items()}


def test_a_log_that_is_right_is_left_as_it_is(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its first versions are gone, which a new log would leave out."""
    monkeypatch.setattr("freshline.delta.sync.CHECKPOINT_EVERY", 3)
    appended(table)
    before = written(table)
    table.lab.store.tables.rewrite_log("b", DeltaSync(table.lab.storage).rebuild)
    assert written(table) == before


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
        scribe = DeltaLogWriter(table.lab.store)
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
