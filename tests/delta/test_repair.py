"""A repair of a Delta log disturbs no reader, and a killed one is finished by the next writer."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from freshline.delta.log import REPAIR_MARKER
from freshline.delta.sync import DeltaSync
from freshline.storage.local import LocalStorage
from freshline.store.tables import versions as tables
from freshline.store.tables.versions import Unlogged
from tests.delta.table import Rows, Table, history
from tests.store_harness import workflow


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
    """During a repair no other writer appends to the log; the repair would remove commits that it does not know.

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
    """The writer postpones it and continues with other tables."""
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
    """Leave the log as it is."""


def cleaned(log: Path) -> None:
    """Remove commits that a checkpoint covers, as `cleanup_metadata` does after 30 days."""
    for number in range(3):
        (log / f"{number:020}.json").unlink()


def broken(log: Path) -> None:
    """Make a commit unreadable; the checkpoint after it hides that."""
    (log / f"{1:020}.json").write_text("{")


def foreign(log: Path) -> None:
    """Add the commit of another writer."""
    (log / f"{5:020}.json").write_text('{"commitInfo":{"operation":"WRITE"}}\n')


def misled(log: Path) -> None:
    """Name a last checkpoint that does not exist."""
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
    """Delete the log."""
    shutil.rmtree(log)


def wrong(log: Path) -> None:
    """Replace two commits by readable but wrong ones; the checkpoint after them hides that."""
    for number in (1, 2):
        (log / f"{number:020}.json").write_text('{"commitInfo":{"operation":"WRITE"}}\n')


def readable(table: Table, version: int) -> Rows | None:
    """Return the rows of a version; None if it cannot be read."""
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

    The same holds for each other version once the wrong commits are removed. The next writer completes the repair.
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
    """Return the files of the log with inode and modification time, which change when a file is written."""
    files = {path.name: path.stat() for path in (table.root / "_delta_log").iterdir()}
    return {name: (status.st_ino, status.st_mtime_ns) for name, status in files.items()}


def test_a_log_that_is_right_is_left_as_it_is(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its first versions are gone, which a new log would leave out."""
    monkeypatch.setattr("freshline.delta.sync.CHECKPOINT_EVERY", 3)
    appended(table)
    before = written(table)
    table.lab.store.tables.rewrite_log("b", DeltaSync(table.lab.storage).rebuild)
    assert written(table) == before
