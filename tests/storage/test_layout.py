"""The warehouse: its id, and staged directories that must be what the step left."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from freshline.errors import WarehouseError
from freshline.storage import layout
from freshline.storage.layout import check_warehouse, seal, staging_directory, verify_staged
from freshline.storage.local import LocalStorage

STAGED = staging_directory("a.b", "run", 2, 3)


def test_a_warehouse_belongs_to_one_database(tmp_path: Path) -> None:
    """The first use writes the id, the next ones compare it (docs/semantics.md#R12.3)."""
    warehouse = tmp_path / "deep" / "warehouse"
    storage = LocalStorage(warehouse)
    check_warehouse(storage, "one")
    check_warehouse(storage, "one")
    with pytest.raises(WarehouseError, match="its id is 'one', the database's is 'two'"):
        check_warehouse(storage, "two")
    assert [path.name for path in warehouse.iterdir()] == [layout.ID_FILE]


def test_of_many_databases_at_once_one_gets_the_warehouse(tmp_path: Path) -> None:
    """Of concurrent creators one wins, and the others are refused."""
    refused: list[WarehouseError] = []

    def claim(name: str) -> None:
        try:
            check_warehouse(LocalStorage(tmp_path / "w"), name)
        except WarehouseError as error:
            refused.append(error)

    threads = [threading.Thread(target=claim, args=(str(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 7


def test_a_damaged_id_or_an_impossible_place_is_told(tmp_path: Path) -> None:
    """Nobody guesses: the file is named, and the system's reason is given."""
    (tmp_path / layout.ID_FILE).write_text("{")
    with pytest.raises(WarehouseError, match="is damaged"):
        check_warehouse(LocalStorage(tmp_path), "one")
    (tmp_path / "file").write_text("")
    with pytest.raises(WarehouseError, match="cannot be used: Not a directory"):
        check_warehouse(LocalStorage(tmp_path / "file" / "w"), "one")


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    """Write a directory as Spark leaves it."""
    directory = tmp_path / STAGED
    (directory / "k=1").mkdir(parents=True)
    (directory / "part-0.parquet").write_bytes(b"12345")
    (directory / "k=1" / "part-1.parquet").write_bytes(b"123")
    (directory / ".part-0.parquet.crc").write_bytes(b"1")
    (directory / "_SUCCESS").write_bytes(b"")
    return directory


def test_a_sealed_directory_is_listed_with_sizes(tmp_path: Path, staged: Path) -> None:
    """The location is relative to the warehouse and lists all data files; Spark's side files are gone."""
    storage = LocalStorage(tmp_path)
    location = seal(storage, STAGED)
    assert location == {
        "format": "parquet",
        "paths": ["a.b/data/run-2-3"],
        "files": {"a.b/data/run-2-3/k=1/part-1.parquet": 3, "a.b/data/run-2-3/part-0.parquet": 5},
    }
    assert sorted(path.name for path in staged.rglob("*")) == ["k=1", "part-0.parquet", "part-1.parquet"]
    verify_staged(storage, location)


def test_data_that_the_disk_does_not_accept_is_not_sealed(
    tmp_path: Path, staged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel reports a failed write to the first `fsync` of the file, and only to that."""
    fsync = os.fsync

    def failing(handle: int) -> None:
        if Path(f"/proc/self/fd/{handle}").readlink().name == "part-1.parquet":
            raise OSError(errno.EIO, "Input/output error")
        fsync(handle)

    assert staged.exists()
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(WarehouseError, match=r"cannot be made durable.*Input/output error"):
        seal(LocalStorage(tmp_path), STAGED)


def test_a_directory_that_changed_is_not_published(tmp_path: Path, staged: Path) -> None:
    """An extra or missing file, another size and a missing directory are described (docs/semantics.md#R9.4)."""
    storage = LocalStorage(tmp_path)
    location = seal(storage, STAGED)
    (staged / "part-9.parquet").write_bytes(b"1")
    with pytest.raises(WarehouseError, match=r"1 unknown \(part-9.parquet\); nothing is published"):
        verify_staged(storage, location)
    (staged / "part-9.parquet").unlink()
    (staged / "part-0.parquet").write_bytes(b"1234")
    with pytest.raises(WarehouseError, match=r"1 other size \(part-0.parquet\)"):
        verify_staged(storage, location)
    storage.clear(STAGED)
    storage.clear(STAGED)
    assert not staged.exists()
    with pytest.raises(WarehouseError, match="2 missing"):
        verify_staged(storage, location)


def test_data_that_lies_elsewhere_is_left_alone(tmp_path: Path) -> None:
    """Data that a job wrote outside of the warehouse is not verified."""
    (tmp_path / "theirs").write_text("")
    location = {"format": "csv", "path": str(tmp_path / "theirs")}
    verify_staged(LocalStorage(tmp_path / "w"), location)
    assert (tmp_path / "theirs").exists()
    (tmp_path / "theirs").unlink()
    verify_staged(LocalStorage(tmp_path / "w"), location)


def test_a_full_disk_is_named() -> None:
    """Python's and Java's ways to say it become one sentence."""
    for error in (OSError(errno.ENOSPC, "x"), RuntimeError("java.io.IOException: No space left on device")):
        assert "the disk of the warehouse" in str(layout.full_disk(error))
    assert layout.full_disk(OSError(errno.EACCES, "x")) is None


def test_a_directory_that_exists_is_not_staged_into(tmp_path: Path) -> None:
    """After a restore a run may have written it already: a failed try would remove what is there."""
    storage = LocalStorage(tmp_path)
    assert layout.unused_staging_directory(storage, "a", "run", 1, 2) == "a/data/run-1-2"
    (tmp_path / "a/data/run-1-2").mkdir(parents=True)
    (tmp_path / "a/data/run-1-2/part-0.parquet").touch()
    assert layout.unused_staging_directory(storage, "a", "run", 1, 2) == "a/data/run-1-1002"
