"""Files are on their way to the disk while they are written."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from freshline.errors import WarehouseError
from freshline.storage import background_fsync
from freshline.storage.background_fsync import WORTH, flushed
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks often."""
    monkeypatch.setattr(background_fsync, "LOOK_S", 0.001)
    monkeypatch.setattr(background_fsync, "SHARE", 0)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What was synced: name and size in that moment."""
    seen: list[tuple[str, int]] = []

    def sync(path: Path) -> None:
        seen.append((path.name, path.stat().st_size))

    monkeypatch.setattr(background_fsync, "sync", sync)
    return seen


def test_a_file_is_synced_when_it_is_worth_it_and_again_when_it_has_grown(
    tmp_path: Path, synced: list[tuple[str, int]]
) -> None:
    """Also under its last name, once; what is small is left to the one who seals."""
    growing = tmp_path / "_temporary" / "part"
    growing.parent.mkdir()
    (tmp_path / "small").write_bytes(b"x" * 100)
    with flushed(tmp_path):
        growing.write_bytes(b"x" * WORTH)
        wait_until(lambda: synced == [("part", WORTH)], what="the first part")
        with growing.open("ab") as file:
            file.write(b"x" * WORTH)
        wait_until(lambda: len(synced) == 2, what="the rest")
        growing.rename(tmp_path / "renamed")
        (tmp_path / "next").write_bytes(b"x" * WORTH)
        wait_until(lambda: len(synced) == 3, what="another file")
    assert synced == [("part", WORTH), ("part", 2 * WORTH), ("next", WORTH)]


def test_a_disk_that_cannot_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel says it once, to whoever syncs first: it must not get lost."""
    asked = threading.Event()

    def sync(_path: Path) -> None:
        asked.set()
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(background_fsync, "sync", sync)
    (tmp_path / "part").write_bytes(b"x" * WORTH)
    with pytest.raises(WarehouseError, match=r"cannot be made durable.*Input/output error"), flushed(tmp_path):
        assert asked.wait(10)


def test_what_goes_away_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file gets its last name, or the attempt is given up."""
    asked = threading.Event()
    original = background_fsync.sync

    def sync(path: Path) -> None:
        path.unlink()
        asked.set()
        original(path)

    monkeypatch.setattr(background_fsync, "sync", sync)
    (tmp_path / "part").write_bytes(b"x" * WORTH)
    with flushed(tmp_path / "never"), flushed(tmp_path):
        assert asked.wait(10)


def test_an_error_inside_ends_it_too(tmp_path: Path) -> None:
    """No thread stays behind."""
    with pytest.raises(ValueError, match="inside"), flushed(tmp_path):
        raise ValueError("inside")
    assert not [thread for thread in threading.enumerate() if thread.name == "flusher"]
