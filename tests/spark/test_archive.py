"""The archive of classes makes Spark start faster, or does nothing at all."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from freshline.spark.archive import archive_options, archive_path


def test_the_archive_is_used_where_it_is_and_never_hurts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One per version of Java and installation of PySpark; the JVM ignores a damaged one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert archive_options("17.0.1") == ""
    archive_path("17.0.1").parent.mkdir()
    archive_path("17.0.1").write_bytes(b"damaged")
    options = archive_options("17.0.1")
    assert str(tmp_path) in options
    assert archive_options("21.0.1") == ""
    done = subprocess.run(["java", *options.split(), "-version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout == ""
