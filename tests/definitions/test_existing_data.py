"""Which paths name at least one file (docs/semantics.md#R3.5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from freshline.definitions.loading.existing_data import holds_a_file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a directory with files, empty directories, and names that Spark leaves out."""
    for name in ("in/a.csv", "deep/dt=1/part.parquet", "_hidden/a.csv", ".dot/a.csv", "marked/_SUCCESS", "_dt=1/a.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "empty" / "below").mkdir(parents=True)
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "again").symlink_to(tmp_path / "loop")
    (tmp_path / "linked.csv").symlink_to(tmp_path / "in" / "a.csv")
    (tmp_path / "broken.csv").symlink_to(tmp_path / "nowhere")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("in/a.csv", True),
        ("in", True),
        ("deep", True),
        ("linked.csv", True),
        ("in/*.csv", True),
        ("*/a.csv", True),
        ("in/[^b].csv", True),
        ("{out,in}/a.{json,csv}", True),
        ("_dt=1/*", True),
        ("in/b.csv", False),
        ("in/*.json", False),
        ("{out,off}/*.csv", False),
        ("empty", False),
        ("empty/*", False),
        ("loop", False),
        ("broken.csv", False),
        ("marked", False),
        ("marked/*", False),
    ],
)
def test_which_paths_hold_a_file(root: Path, path: str, found: bool) -> None:
    """A file, a directory with one at any depth, a pattern that matches one; not what Spark leaves out."""
    assert holds_a_file(str(root / path)) is found
    assert holds_a_file(f"file://{root / path}") is found


@pytest.mark.parametrize("path", ["s3a://bucket/a.csv", "hdfs:///a", "https://host/a.csv", "odd:a", "file://host/a"])
def test_data_of_other_storages_is_not_looked_for(path: str) -> None:
    """An apply has neither the credentials nor the time."""
    assert not holds_a_file(path)
