"""The archive of classes makes Spark start faster, or does nothing at all."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from freshline.errors import EngineError
from freshline.spark import jvm_cds
from freshline.spark.java import check_java
from freshline.spark.jvm_cds import archive_options, archive_path, build_archive


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache of the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "freshline"


class Trainings:
    """Stands in for the training run, which takes half a minute."""

    def __init__(self) -> None:
        self.count = 0
        self.free = threading.Event()

    def __call__(self, scratch: Path, made: Path) -> None:
        assert scratch == made.parent
        self.count += 1
        self.free.wait(10)
        made.write_bytes(b"classes")


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Trainings]:
    """Training runs that end when the test says so."""
    trainings = Trainings()
    monkeypatch.setattr(jvm_cds, "_run_training", trainings)
    yield trainings
    trainings.free.set()


@pytest.mark.usefixtures("cache")
def test_the_archive_is_used_where_it_is_and_never_hurts(tmp_path: Path) -> None:
    """One per version of Java and installation of PySpark; the JVM ignores a damaged one."""
    assert archive_options("17.0.1") == ""
    archive_path("17.0.1").parent.mkdir()
    archive_path("17.0.1").write_bytes(b"damaged")
    options = archive_options("17.0.1")
    assert str(tmp_path) in options
    assert archive_options("21.0.1") == ""
    done = subprocess.run(["java", *options.split(), "-version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout == ""


def test_of_several_makers_one_makes_it(cache: Path, trainings: Trainings) -> None:
    """The others wait, and find it made; nothing but the archive and the file of the lock is left."""
    with ThreadPoolExecutor(4) as pool:
        makers = [pool.submit(build_archive) for _ in range(4)]
        trainings.free.set()
        (path,) = {maker.result(30) for maker in makers}
    assert trainings.count == 1
    assert path.read_bytes() == b"classes"
    assert sorted(cache.iterdir()) == sorted([path, path.with_suffix(".lock")])


def test_what_a_killed_maker_left_is_removed(cache: Path, trainings: Trainings) -> None:
    """A hundred megabytes for every kill would be too much; the archives of others stay."""
    path = archive_path(check_java())
    left, other = cache / f"{path.stem}-dead", cache / "spark-1-java-2-abc-dead"
    for directory in (left, other):
        directory.mkdir(parents=True)
        (directory / "new.jsa").write_bytes(b"half")
    trainings.free.set()
    assert build_archive() == path
    assert (left.exists(), other.exists()) == (False, True)


def test_a_cache_that_takes_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence from the command, no traceback; the same for a training that leaves nothing."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    command = [sys.executable, "-m", "freshline.spark.jvm_cds"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"the archive {tmp_path}")
    assert line.endswith("Not a directory: '" + str(tmp_path / "file" / "freshline") + "'; Spark works without it")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jvm_cds, "_run_training", lambda *_: None)
    with pytest.raises(EngineError, match=r"no archive was built in .*; Spark works without it"):
        build_archive()
