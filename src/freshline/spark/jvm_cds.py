"""The class data sharing (CDS) archive of Spark's JVM, which saves a third of its start (ADR 0019).

`python -m freshline.spark.jvm_cds` builds it in the user's cache, for one Java and one PySpark; `make setup` calls it.
Without it, or with a damaged one, Spark starts slower and works the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyspark

from freshline.errors import EngineError, FreshlineError
from freshline.spark.java import check_java

TIMEOUT_S = 600


def archive_path(java: str) -> Path:
    """Return the path of the archive for this version of Java and this installation of PySpark.

    The JVM compares the paths and times of all jars, so every installation needs its own archive.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jars = Path(pyspark.__file__).parent / "jars"
    installed = hashlib.sha256(f"{jars} {jars.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    return cache / "freshline" / f"spark-{pyspark.__version__}-java-{java}-{installed}.jsa"


def archive_options(java: str) -> str:
    """Return the JVM's options that use the archive if there is one; the JVM ignores one that does not fit."""
    path = archive_path(java)
    quiet = "-Xlog:cds=off -Xlog:cds+dynamic=off"
    return f"-XX:SharedArchiveFile={path} -Xshare:auto {quiet}" if path.exists() else ""


def build_archive() -> Path:
    """Build the archive if it is missing, by one small training run: half a minute, about 180 MB. Return its path.

    Of several concurrent calls one builds it and the others wait. Raise `EngineError` if it cannot be built.
    """
    path = archive_path(check_java())
    if path.exists():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(path):
            if not path.exists():
                _build(path)
    except OSError as error:
        raise EngineError(f"the archive {path} cannot be built: {error}; Spark works without it") from None
    return path


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold the build lock. Its file stays: with a removed one, two processes could hold a lock each."""
    with path.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(path: Path) -> None:
    for left in path.parent.glob(f"{path.stem}-*"):  # left by a build that was killed: we hold the lock
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{path.stem}-", dir=path.parent) as scratch:
        new = Path(scratch, "new.jsa")
        _run_training(Path(scratch), new)
        if not new.exists():
            raise EngineError(f"no archive was built in {path.parent}; Spark works without it")
        new.replace(path)


def _run_training(scratch: Path, new: Path) -> None:
    command = [sys.executable, "-m", "freshline.spark.jvm_cds", "train", str(scratch), str(new)]
    with contextlib.suppress(subprocess.TimeoutExpired):
        # The JVM writes the archive as it exits; the end of its pipe shows when that is done.
        subprocess.run(command, capture_output=True, check=False, timeout=TIMEOUT_S)


def _train(scratch: Path, new: Path) -> None:
    """Load the classes that a step loads, and stop Spark, so that its JVM writes the archive."""
    from freshline.spark.engine import Engine  # noqa: PLC0415 - the engine's session uses this module

    Engine.open(master=None, remote=None, scratch=scratch, java=f"-XX:ArchiveClassesAtExit={new}").spark.stop()


def main(arguments: Sequence[str]) -> None:
    """Build the archive and print its path, or why it cannot be built."""
    if arguments[:1] == ["train"]:
        _train(Path(arguments[1]), Path(arguments[2]))
        return
    try:
        sys.stdout.write(f"{build_archive()}\n")
    except FreshlineError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
