"""`bytesIn`: the bytes of the files that a step reads of its inputs, each file once. Compared with the real files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from freshline.model.deliveries import Deliveries, Delivery, DeliveryRange
from freshline.model.run import PinnedInput
from freshline.storage.input_files import InputFiles

TABLE = "flights.clean"


def deliveries(pinned: PinnedInput) -> Deliveries:
    """Return deliveries `1.csv`, `2.csv`, and so on, in the directory of the source."""
    directory = (pinned.location or {})["path"]

    def fetch(first: int, last: int) -> list[Delivery]:
        return [Delivery(n, f"{directory}/{n}.csv", None, {}, "2026-11-02T00:00:00Z") for n in range(first, last + 1)]

    return Deliveries(pinned.deliveries or DeliveryRange(), fetch)


def write(path: Path, size: int) -> int:
    """Write a file of this size, and return the size on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path.stat().st_size


@pytest.fixture
def files(tmp_path: Path) -> InputFiles:
    """Return the files of a step that has read nothing yet."""
    return InputFiles(str(tmp_path), remote=True)


def table(*names: str, size: int | None = None, key: str = "") -> PinnedInput:
    """Return a table with one directory for each version."""
    parts = [(version, f"{TABLE}/data/{name}") for version, name in enumerate(names)]
    location = {"format": "parquet", "paths": [path for _, path in parts[-1:]]}
    return PinnedInput(TABLE, 1, "v", location, parts=parts, bytes=size, partition_key=key)


def test_a_table_counts_all_its_parts_once(files: InputFiles, tmp_path: Path) -> None:
    """Also if the step reads it twice, and whether the snapshot knows its size or not."""
    whole = write(tmp_path / TABLE / "data/a/part-0.parquet", 70) + write(tmp_path / TABLE / "data/b/p.parquet", 5)
    sized, unsized = table("a", "b", size=whole), table("a", "b")
    for pinned in (sized, sized, unsized, unsized):
        files.add(pinned, deliveries)
        assert files.bytes() == whole == 75


def test_an_increment_counts_what_is_new(files: InputFiles, tmp_path: Path) -> None:
    """What the step has read before counts only if it reads the whole table too, and then once."""
    write(tmp_path / TABLE / "data/a/part-0.parquet", 70)
    new = write(tmp_path / TABLE / "data/b/part-0.parquet", 5)
    pinned = replace(table("a", "b", size=75), since=0)
    files.add(pinned, deliveries, new=True)
    assert files.bytes() == new == 5
    files.add(replace(pinned, since=1), deliveries, new=True)
    assert files.bytes() == 5
    files.add(pinned, deliveries)
    assert files.bytes() == 75


def test_another_version_shares_its_parts(files: InputFiles, tmp_path: Path) -> None:
    """A version and the one that was appended to it have files in common."""
    write(tmp_path / TABLE / "data/a/part-0.parquet", 70)
    write(tmp_path / TABLE / "data/b/part-0.parquet", 5)
    files.add(table("a", size=70), deliveries)
    files.add(table("a", "b", size=75), deliveries)
    assert files.bytes() == 75


def test_partitions_count_each(files: InputFiles, tmp_path: Path) -> None:
    """Those that the run reads, and not the others beside them; with `new` only those that are new."""

    def part(day: str, name: str, size: int | None) -> PinnedInput:
        partition = {"columns": {"day": day}, "directory": f"day={day}"}
        pinned = table(name, size=size, key=day)
        return replace(pinned, location={**(pinned.location or {}), "partition": partition})

    one = write(tmp_path / TABLE / "data/batch/day=1/part-0.parquet", 30)
    two = write(tmp_path / TABLE / "data/batch/day=2/part-0.parquet", 4)
    write(tmp_path / TABLE / "data/batch/day=3/part-0.parquet", 9)
    both = replace(table("batch"), partitions=[part("1", "batch", None), part("2", "batch", two)])
    files.add(both, deliveries)
    files.add(both, deliveries)
    assert files.bytes() == one + two == 34
    again = InputFiles(str(tmp_path), remote=True)
    read = [replace(item, since=0 if item.partition_key == "1" else None) for item in both.partitions or ()]
    again.add(replace(both, partitions=read), deliveries, new=True)
    assert again.bytes() == two


def test_a_source_counts_the_files_that_are_read(files: InputFiles, tmp_path: Path) -> None:
    """A directory at any depth, without hidden files; a file that several paths and links name counts once."""
    seen = write(tmp_path / "in/a.csv", 11) + write(tmp_path / "in/deep/b.csv", 3)
    write(tmp_path / "in/_SUCCESS", 40)
    (tmp_path / "in/c.csv").symlink_to(tmp_path / "in/a.csv")
    for path in (tmp_path / "in", tmp_path / "in/a.csv", tmp_path / "in/*.csv"):
        files.add(PinnedInput("up", 1, "v", {"format": "csv", "path": str(path)}), deliveries)
        assert files.bytes() == seen == 14
    unchanged = PinnedInput("up", 1, "v", {"format": "csv", "path": str(tmp_path / "other.csv")}, since=0)
    files.add(unchanged, deliveries, new=True)
    assert files.bytes() == 14, "nothing of it is new"


def test_deliveries_count_when_they_are_read(files: InputFiles, tmp_path: Path) -> None:
    """Without those that were skipped; with `new` only the later ones; and those that a job looks at by itself."""
    sizes = {number: write(tmp_path / f"in/{number}.csv", number * 10) for number in (1, 2, 3, 4)}
    location = {"format": "csv", "path": str(tmp_path / "in")}
    pinned = PinnedInput("up", 4, "delivery:4", location, since=3, deliveries=DeliveryRange(4, [2]))
    files.add(pinned, deliveries, new=True)
    assert files.bytes() == sizes[4]
    looked = deliveries(pinned).each(files.add_delivery)
    assert looked[0].number == looked.after(None)[0].number == 1
    assert files.bytes() == sizes[1] + sizes[4]
    files.add(pinned, deliveries)
    assert files.bytes() == sizes[1] + sizes[3] + sizes[4]


def test_what_is_not_known_has_no_number(files: InputFiles, tmp_path: Path) -> None:
    """A file that is gone, or in a store that only Spark has a client for, is unknown, never 0."""
    assert (files.bytes(), files.empty) == (0, True)
    files.add(PinnedInput("up", 1, "v", {"format": "csv", "path": str(tmp_path / "gone.csv")}), deliveries)
    assert (files.bytes(), files.empty) == (None, False)
    elsewhere = InputFiles(str(tmp_path), remote=False)
    elsewhere.add(PinnedInput("up", 1, "v", {"format": "csv", "path": "s3a://bucket/in.csv"}), deliveries)
    assert elsewhere.bytes() is None
