"""New files of a directory become deliveries, each once, and all of them a version of a snapshot source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from freshline.model.file_patterns import parse
from freshline.watching.listing import listing_of
from tests.waiting import wait_until
from tests.watching.harness import SOURCE, Watching, watching


@pytest.fixture
def place(database_url: str, tmp_path: Path) -> Iterator[Watching]:
    """Yield a project with a watched directory."""
    with watching(database_url, tmp_path) as found:
        yield found


def test_each_new_file_is_one_delivery_in_the_order_of_time_and_name(place: Watching) -> None:
    """Files are delivered by time of change, then by name. A second look repeats nothing."""
    for name, moment in (("c.csv", 1), ("b.csv", 2), ("a.csv", 2), ("x.txt", 1), (".h.csv", 1), ("_t.csv", 1)):
        os.utime(place.write(name), (moment, moment))
    place.apply()
    assert place.look()["summary"] == "3 files match, 3 are new."
    assert place.delivered() == ["drop/c.csv", "drop/a.csv", "drop/b.csv"]
    assert place.look()["summary"] == "3 files match, none is new."
    place.write("d.csv")
    place.look()
    assert place.delivered() == ["drop/c.csv", "drop/a.csv", "drop/b.csv", "drop/d.csv"]
    assert place.events() == 4
    assert place.lab.work() == ["orders"]


def test_a_changed_file_is_a_conflict_and_a_renamed_one_is_new(place: Watching) -> None:
    """What was delivered is not delivered again when it changes, only when it has another name."""
    place.write("a.csv")
    place.write("b.csv")
    place.apply()
    place.look()
    place.write("a.csv", "id\n1\n2\n")
    (place.drop / "b.csv").rename(place.drop / "c.csv")
    place.look()
    place.look()
    assert sorted(place.delivered()) == ["drop/a.csv", "drop/b.csv", "drop/c.csv"]
    (changed,) = place.lab.rows("SELECT path, was_size, size FROM watched_files WHERE state = 'changed'")
    assert changed == {"path": "drop/a.csv", "was_size": 5, "size": 7}


def test_existing_files_can_be_ignored(place: Watching) -> None:
    """Files of the first look are ignored with `existing: ignore`; later ones are delivered."""
    place.write("a.csv")
    place.apply({"files": "drop/*.csv", "existing": "ignore"})
    assert place.look()["summary"] == "1 file existed at the first look and is ignored."
    place.write("b.csv")
    place.look()
    assert place.delivered() == ["drop/b.csv"]


def test_a_file_that_is_gone_and_comes_back_is_not_new(place: Watching) -> None:
    """A directory that vanishes is an error; the same files in it are not delivered again when it is back."""
    place.write("a.csv")
    place.apply()
    place.look()
    place.drop.rename(place.root / "away")
    row = place.look()
    assert row["failures"] == 1
    assert row["error"].startswith(f"the directory {place.drop} does not exist on ")
    (place.root / "away").rename(place.drop)
    place.write("b.csv")
    row = place.look(minutes=5)
    assert (row["failures"], row["error"]) == (0, None)
    assert place.delivered() == ["drop/a.csv", "drop/b.csv"]


def test_a_file_that_is_being_written_is_not_taken(place: Watching) -> None:
    """A file that a process has open for writing is not complete; an empty one has nothing to deliver."""
    place.write("done.csv")
    place.write("empty.csv", "")
    place.apply()
    with (place.drop / "open.csv").open("w", encoding="utf-8") as file:
        file.write("id\n")
        file.flush()
        assert place.look()["summary"] == "3 files match, 1 is new, 1 is not complete yet, 1 is empty."
        assert place.delivered() == ["drop/done.csv"]
        file.write("1\n")
    place.look()
    assert place.delivered() == ["drop/done.csv", "drop/open.csv"]


def test_files_wait_for_the_marker_of_their_directory(place: Watching) -> None:
    """With `marker` the files of a directory are taken when it has that file, which is not delivered itself."""
    place.write("one/part-0.csv")
    place.write("two/part-0.csv")
    place.write("two/_SUCCESS", "")
    place.apply({"files": "drop/*/*.csv", "marker": "_SUCCESS"})
    assert place.look()["summary"] == "2 files match, 1 is new, 1 waits for _SUCCESS in its directory."
    place.write("one/_SUCCESS", "")
    place.look()
    assert place.delivered() == ["drop/two/part-0.csv", "drop/one/part-0.csv"]


def test_a_burst_is_delivered_in_parts(place: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most MAX_FOUND files are one look. The next one follows at once, without a listing."""
    monkeypatch.setattr("freshline.watching.files.MAX_FOUND", 4)
    for number in range(10):
        os.utime(place.write(f"{number}.csv"), (number, number))
    place.apply()
    assert place.look()["claim"] >= 3
    assert place.delivered() == [f"drop/{number}.csv" for number in range(10)]
    assert place.events() == 10


def test_a_snapshot_source_gets_a_version_of_all_files(place: Watching) -> None:
    """The version is a digest of names, sizes and times. It comes back with the files."""
    place.apply({"files": "drop/*.csv", "every": "1s"}, mode="snapshot")
    assert place.look()["summary"] == "No file matches 'drop/*.csv'."
    assert place.events() == 0
    first = place.write("a.csv")
    place.look()
    version = place.lab.head(SOURCE)["data_version"]
    place.look()
    assert place.events() == 1
    second = place.write("b.csv")
    place.look()
    assert place.lab.head(SOURCE)["data_version"] != version
    second.unlink()
    place.look()
    assert (place.events(), place.lab.head(SOURCE)["data_version"]) == (3, version)
    first.unlink()
    assert place.look()["summary"] == "No file matches 'drop/*.csv'."
    assert place.events() == 3


def test_a_link_to_another_place_is_refused_and_others_are_delivered(place: Watching, tmp_path: Path) -> None:
    """A link that leads out of what the source allows is shown and not delivered."""
    secret = tmp_path.parent / f"{tmp_path.name}-secret.csv"
    secret.write_text("id\n")
    place.write("a.csv")
    (place.drop / "b.csv").symlink_to(secret)
    place.apply()
    row = place.look()
    assert place.delivered() == ["drop/a.csv"]
    assert row["summary"] == "2 files match, 1 is new, 1 cannot be delivered."
    assert "leads by a symbolic link to a place that is not allowed" in row["conflicts"][0]["message"]


def test_a_file_whose_name_is_a_pattern_is_refused(place: Watching) -> None:
    """Spark would read `a[1].csv` as a pattern, and other files with it."""
    place.write("a[1].csv")
    place.write("b{1}.csv")
    place.apply()
    row = place.look()
    assert place.delivered() == []
    assert len(row["conflicts"]) == 2


def test_fifos_and_directories_are_not_files(place: Watching) -> None:
    """Nothing opens a FIFO, which would hang, and a directory with a matching name is left out."""
    os.mkfifo(place.drop / "a.csv")
    (place.drop / "b.csv").mkdir()
    place.write("c.csv")
    place.apply()
    place.look()
    assert place.delivered() == ["drop/c.csv"]


def test_a_look_at_closed_files_does_not_speak_of_all(place: Watching) -> None:
    """It examines those that were closed or moved in, so it does not know how many match, or whether none does."""
    for name in ("a.csv", "b.csv"):
        place.write(name)
    place.apply({"files": "drop/*.csv", "every": "1h"})
    assert place.look()["summary"] == "2 files match, 2 are new."
    place.finish(place.watcher)

    def closed(name: str) -> str:
        place.watcher.notifications.hint(SOURCE, f"drop/{name}")
        place.finish(place.watcher)
        return str(place.row()["summary"])

    assert closed("a.csv") == "1 file was closed or moved in, none is new."
    assert closed("gone.csv") == "What was closed or moved in is gone."


def test_settle_waits_until_a_file_does_not_change(place: Watching) -> None:
    """With `settle` a file is taken when two looks that far apart saw the same size and time."""
    place.write("a.csv")
    place.apply({"files": "drop/*.csv", "settle": "150ms"})
    row = place.look()
    assert row["summary"] == "1 file matches, none is new, 1 is not complete yet."
    assert row["next_at"] < place.lab.later(seconds=5)
    place.write("a.csv", "id\n1\n2\n")
    assert place.look()["summary"].endswith(", none is new, 1 is not complete yet.")
    wait_until(lambda: place.look()["reported"] == 1)
    assert place.delivered() == ["drop/a.csv"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("drop/**/*.csv", ["drop/a.csv", "drop/x/b.csv", "drop/x/y/c.csv"]),
        ("drop/*/*.csv", ["drop/x/b.csv"]),
        ("drop/**/y/*.csv", ["drop/x/y/c.csv"]),
        ("drop/x/b.csv", ["drop/x/b.csv"]),
        ("drop/[ab].csv", ["drop/a.csv"]),
        ("drop/x/**", ["drop/x/b.csv", "drop/x/y/c.csv"]),
        ("*/a.csv", ["drop/a.csv"]),
    ],
)
def test_a_listing_and_its_pattern_agree(tmp_path: Path, pattern: str, expected: list[str]) -> None:
    """A name matches one name, `**` any directories, hidden ones excepted."""
    names = ("a.csv", "x/b.csv", "x/y/c.csv", ".git/d.csv", "_tmp/e.csv", "f.csv._COPYING_")
    for name in names:
        (tmp_path / "drop" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "drop" / name).write_text("id\n")
    parsed = parse(pattern, str(tmp_path))
    listing = listing_of(parsed, None)
    found = [parsed.reported(below) for below, entry in listing.entries() if listing.examine(below, entry)]
    assert sorted(found) == expected
    files = [f"{tmp_path}/drop/{name}" for name in names]
    below = [file[len(parsed.base.path) + 1 :] for file in files if file.startswith(f"{parsed.base.path}/")]
    assert sorted(parsed.reported(one) for one in below if parsed.matches(one)) == expected
