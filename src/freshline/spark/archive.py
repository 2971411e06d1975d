"""A class data archive lets Spark's JVM start in about half the time; `python -m freshline.spark.archive` makes it.

It lies in the user's cache and fits one Java and one PySpark. Without it, or with a damaged one, Spark starts as ever.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from freshline.errors import EngineError
from freshline.spark.java import check_java

MINUTES = 10


def archive_path(java: str) -> Path:
    """Where the archive of this version of Java and this PySpark is, or would be.

    The JVM compares the paths and times of all jars: the same PySpark installed elsewhere, or anew, needs another one.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jars = Path(pyspark.__file__).parent / "jars"
    installed = hashlib.sha256(f"{jars} {jars.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    return cache / "freshline" / f"spark-{pyspark.__version__}-java-{java}-{installed}.jsa"


def archive_options(java: str) -> str:
    """The JVM's options that use the archive, if there is one; a wrong one is ignored by the JVM."""
    path = archive_path(java)
    quiet = "-Xlog:cds=off -Xlog:cds+dynamic=off"
    return f"-XX:SharedArchiveFile={path} -Xshare:auto {quiet}" if path.exists() else ""


def make_archive() -> Path:
    """Make the archive if it is not there, by one small training run; it takes half a minute and about 180 MB."""
    path = archive_path(check_java())
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        made = Path(scratch, "new.jsa")
        command = [sys.executable, "-m", "freshline.spark.archive", "train", scratch, str(made)]
        # The JVM writes the archive as its last act; its end of the pipe says when that is done.
        subprocess.run(command, capture_output=True, check=False, timeout=MINUTES * 60)
        if not made.exists():
            raise EngineError(f"no archive was made by `{' '.join(command)}`; Spark works without it")
        made.replace(path)
    return path


def _train(scratch: Path, made: Path) -> None:
    """Load the classes that a step loads, and leave in good order."""
    from freshline.spark.engine import Engine  # noqa: PLC0415 - the engine's session uses this module

    Engine.open(master=None, remote=None, scratch=scratch, java=f"-XX:ArchiveClassesAtExit={made}").spark.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        _train(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        sys.stdout.write(f"{make_archive()}\n")
