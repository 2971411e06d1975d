"""A database that is older than its warehouse: found at once, repaired without loss, and nothing is removed before."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from freshline.delta import examine as examination
from freshline.delta.log import REPAIR_MARKER
from freshline.delta.repair import LOST
from freshline.delta.sync import DeltaSync
from freshline.delta.unknown_logs import clear_unknown_logs
from freshline.services.vacuum import Vacuum
from freshline.storage.local import LocalStorage
from freshline.store.db.ids import new_id
from freshline.store.doctor import restore
from freshline.store.doctor.checks import Finding
from freshline.store.doctor.warehouse import Warehouse
from tests.delta.table import Rows, Table
from tests.store.saved import Saved
from tests.store.test_doctor_warehouse import age


class Backup:
    """The database of a table at one time, restored without its warehouse."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.expected = list(table.expected)
        self.position = position(table)
        self.saved = Saved(table.lab, "backup")

    def restore(self) -> None:
        self.saved.restore()
        self.table.expected[:] = self.expected
        self.table.lab.rows("SELECT setval('event_positions', %s)", self.position)


def position(table: Table) -> int:
    """Give all events their positions and return the last one."""
    table.lab.store.events.stamp_positions(10_000)
    return int(table.lab.one("SELECT last_value FROM event_positions"))


def delta(table: Table) -> list[str]:
    """Return what the doctor finds in the Delta logs."""
    return list(examination.examine(table.lab.store, 20).sentences)


def warehouse(table: Table) -> dict[str, Finding]:
    """Return what the doctor finds in the warehouse."""
    return {one.check.id: one for one in Warehouse(table.lab.store).examine(20) if one.count}


def repair(table: Table) -> None:
    """Rewrite the log as `freshline table repair` does."""
    table.lab.store.tables.rewrite_log("b", DeltaSync(table.lab.storage).rebuild)


def data_files(table: Table) -> set[Path]:
    """Return the files of all versions, published or not."""
    return set((table.root / "data").rglob("*.parquet"))


@pytest.fixture
def restored(table: Table) -> Table:
    """Two versions are in the backup; three more were published and logged after it."""
    table.publish(1, 2)
    table.publish(3, append=True)
    table.write()
    Vacuum(table.lab.store).run_once()
    backup = Backup(table)
    for n in (4, 5):
        table.publish(n, append=True)
    table.publish(6)
    table.write()
    position(table)
    Vacuum(table.lab.store).run_once()
    backup.restore()
    return table


def test_a_log_that_is_as_published_is_no_finding(table: Table) -> None:
    """Versions that wait to be written are not missing, and neither is a commit whose transaction was lost."""
    table.publish(1)
    assert delta(table) == []
    table.write()
    table.publish(2, append=True)
    table.publish(3)
    table.lab.store.tables.rollback("b", 2)
    assert delta(table) == []
    table.write()
    assert delta(table) == []
    table.lab.rows("UPDATE snapshots SET gone_at = now() WHERE asset_id = 'b' AND table_version < 2 RETURNING 1")
    repair(table)
    assert delta(table) == []


def test_versions_that_the_database_does_not_know_are_found_at_once_and_moved_aside(restored: Table) -> None:
    """Readers see the restored versions after the repair; commits are kept beside the log, and every data file."""
    table, files = restored, data_files(restored)
    assert table.read() == [6]
    assert delta(table) == ["the Delta log of 'b' has version 2 to 4; the newest version of the database is 1"]
    lost = {n: (table.root / "_delta_log" / f"{n:020}.json").read_text() for n in (2, 3, 4)}
    repair(table)
    table.check()
    assert delta(table) == []
    kept = {int(path.name[:20]): path.read_text() for path in (table.root / LOST).iterdir()}
    assert kept == lost
    assert data_files(table) == files
    table.publish(7, append=True)
    table.write()
    table.check()


def test_a_table_that_is_younger_than_the_backup_is_found_at_once_and_moved_aside(table: Table) -> None:
    """Otherwise version 0 would be published again, and its log never be written."""
    backup = Backup(table)
    table.publish(1)
    table.publish(2)
    table.write()
    files = data_files(table)
    assert clear_unknown_logs(table.lab.store, table.lab.storage) == []
    backup.restore()
    assert delta(table) == ["the Delta log of 'b' has version 0 to 1; the database has no version of this table"]
    lost = {n: (table.root / "_delta_log" / f"{n:020}.json").read_text() for n in (0, 1)}
    assert clear_unknown_logs(table.lab.store, table.lab.storage) == ["b"]
    assert delta(table) == []
    assert {int(path.name[:20]): path.read_text() for path in (table.root / LOST).iterdir()} == lost
    assert data_files(table) == files
    table.publish(7)
    table.write()
    table.check()
    assert delta(table) == []


def test_a_table_that_is_published_meanwhile_keeps_its_log(table: Table) -> None:
    """The log's lock is taken first, and then the database is read."""
    table.publish(1)
    table.write()
    assert not table.lab.store.tables.clear_log("b", lambda: pytest.fail("it was removed"))
    table.check()


def test_a_version_that_was_published_again_is_found_at_once_and_repaired(restored: Table) -> None:
    """The log is not overwritten: it stays as it was, the doctor and the status say so, and a repair ends it."""
    table = restored
    table.publish(7)
    table.write()
    table.lab.advance(seconds=5)
    table.write()
    assert table.read() == [6], "an existing commit is never overwritten"
    assert delta(table) == [
        "the Delta log of 'b' has version 3 to 4; the newest version of the database is 2",
        "the Delta log of 'b' has commits that the database did not publish: version 2",
    ]
    for n in (8, 9, 10):
        table.publish(n)
    assert delta(table) == ["the Delta log of 'b' has commits that the database did not publish: version 2, 3, 4"]
    note = "1 Delta log is not written; `freshline doctor` says why"
    assert note in table.lab.store.reader.notes()
    repair(table)
    table.check()
    assert delta(table) == []
    assert note not in table.lab.store.reader.notes()


def test_a_log_that_is_older_than_the_database_is_found_at_once(table: Table) -> None:
    """The warehouse was restored, or the log lost its end: nothing waits to be written, so nobody would notice."""
    for n in range(3):
        table.publish(n)
    table.write()
    (table.root / "_delta_log" / f"{2:020}.json").unlink()
    assert delta(table) == ["the Delta log of 'b' ends at version 1; the database has written version 2"]
    repair(table)
    assert delta(table) == []
    table.check()


def test_a_repair_that_was_killed_is_found(table: Table) -> None:
    """Not while it may still be working."""
    table.publish(1)
    table.write()
    marker = table.root / "_delta_log" / REPAIR_MARKER
    marker.touch()
    assert delta(table) == []
    age(marker)
    assert delta(table) == ["the Delta log of 'b': a repair of it was not completed"]


@pytest.mark.parametrize("cleaned", [pytest.param(False, marks=pytest.mark.full), True])
def test_readers_see_a_whole_table_while_a_lost_time_is_moved_aside(
    table: Table, monkeypatch: pytest.MonkeyPatch, cleaned: bool
) -> None:
    """After every file they find a version that was published, also where a lost checkpoint is all that was left."""
    monkeypatch.setattr("freshline.delta.sync.CHECKPOINT_EVERY", 3)
    monkeypatch.setattr("freshline.delta.repair.READER_GRACE_S", 0)
    table.publish(1, 2)
    table.publish(3, append=True)
    table.write()
    backup = Backup(table)
    for n in range(4, 9):
        table.publish(n, append=True)
    table.write()
    published = [*table.expected]
    backup.restore()
    if cleaned:
        for number in range(3):
            (table.root / "_delta_log" / f"{number:020}.json").unlink()
    seen: list[Rows] = []
    remove, replace = LocalStorage.remove, LocalStorage.replace

    def removing(storage: LocalStorage, names: Iterable[str]) -> None:
        for name in names:
            remove(storage, [name])
            seen.append(table.read())

    def replacing(storage: LocalStorage, name: str, data: bytes) -> None:
        replace(storage, name, data)
        seen.append(table.read())

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "remove", removing)
        patch.setattr(LocalStorage, "replace", replacing)
        repair(table)
    assert len(seen) > 5
    assert [rows for rows in seen if rows not in published] == []
    table.check()
    assert DeltaTable(str(table.root)).version() == 1


def test_an_older_database_is_found_and_nothing_is_removed(restored: Table) -> None:
    """Until the restore is confirmed, also if the database has meanwhile as many events as before."""
    table = restored
    assert "database-older" in warehouse(table)
    vacuum = Vacuum(table.lab.store)
    mark = (table.lab.warehouse / restore.MARK_FILE).read_bytes()
    for n in range(10, 30):
        table.publish(n)
    position(table)
    table.lab.rows("UPDATE snapshots SET gone_at = now() - interval '99 years' WHERE table_version = 0 RETURNING 1")
    files = data_files(table)
    vacuum.run_once()
    assert vacuum.trouble == restore.SUMMARY
    assert data_files(table) == files
    assert (table.lab.warehouse / restore.MARK_FILE).read_bytes() == mark
    (sentence, *_) = warehouse(table)["database-older"].sentences
    assert "the database has event" in sentence
    check = restore.RestoreCheck(table.lab.database, table.lab.storage)
    lost = check.accept()
    assert lost is not None
    assert lost.position == json.loads(mark)["position"]
    assert "database-older" not in warehouse(table)
    assert check.accept() is None
    vacuum.run_once()
    assert vacuum.trouble is None
    assert len(data_files(table)) == len(files) - 1


def test_a_restore_of_a_database_without_events_can_be_confirmed(table: Table) -> None:
    """No event has a position for a new mark, and the old one must not stay."""
    backup = Backup(table)
    table.publish(1)
    position(table)
    Vacuum(table.lab.store).run_once()
    backup.restore()
    table.lab.rows("UPDATE events SET position = NULL RETURNING 1")
    assert "database-older" in warehouse(table)
    check = restore.RestoreCheck(table.lab.database, table.lab.storage)
    assert check.accept() is not None
    assert "database-older" not in warehouse(table)
    assert check.accept() is None


def test_the_status_says_that_the_database_is_older(table: Table) -> None:
    """The materializer finds it in its first minute and reports it with its heartbeat."""
    lab = table.lab
    lab.store.processes.register(
        new_id(), "materializer", project=None, code_hash=None, info={"warehouse": restore.SUMMARY}
    )
    assert restore.SUMMARY in lab.store.reader.notes()


def test_tokens_that_a_restore_revived_are_listed(table: Table) -> None:
    """Those that the mark has as revoked by name, all others that are valid as worth a look; expired ones never."""
    tokens = table.lab.store.tokens
    for n, name in enumerate(("kept", "leaked", "revoked-before")):
        tokens.create(name, "operate", bytes([n]) * 32, lifetime_ms=90 * 86_400_000)
    tokens.revoke("revoked-before")
    table.publish(1)
    backup = Backup(table)
    tokens.revoke("leaked")
    table.publish(2)
    position(table)
    Vacuum(table.lab.store).run_once()
    assert "token-revived" not in warehouse(table)
    backup.restore()
    found = warehouse(table)
    assert list(found["token-revived"].sentences) == ["token 'leaked' was revoked, and is valid again"]
    assert found["database-older"].sentences[1].endswith("since the backup: kept")
    tokens.revoke("leaked")
    assert "token-revived" not in warehouse(table)


def test_a_mark_that_is_damaged_is_said(table: Table) -> None:
    """It does not stop the doctor, and the restore can be confirmed over it."""
    table.publish(1)
    position(table)
    mark = table.lab.warehouse / restore.MARK_FILE
    mark.write_text("{")
    assert "is damaged" in warehouse(table)["database-older"].sentences[0]
    restore.RestoreCheck(table.lab.database, table.lab.storage).accept()
    assert "database-older" not in warehouse(table)


@pytest.mark.full
def test_what_lost_runs_wrote_is_kept_for_the_retention(restored: Table) -> None:
    """The vacuum does not take it for the rest of an ended run; after the retention it cannot tell them apart."""
    table, files = restored, data_files(restored)
    for directory in (table.root / "data").iterdir():
        age(directory)
    ids = [path.name for path in (table.root / "data").iterdir()]
    table.lab.now = table.lab.now.replace(year=2027)  # the ids are of the real clock
    assert Warehouse(table.lab.store).remove_leftovers() == 3
    assert len(data_files(table)) == len(files) - 3, ids


def test_what_lost_runs_wrote_is_a_note_and_stays(restored: Table) -> None:
    """Within the retention nothing is removed."""
    table, files = restored, data_files(restored)
    for directory in (table.root / "data").iterdir():
        age(directory)
    lost = warehouse(table)["directory-lost"]
    assert lost.count == 3
    assert lost.healthy
    assert Warehouse(table.lab.store).remove_leftovers() == 0
    assert data_files(table) == files
