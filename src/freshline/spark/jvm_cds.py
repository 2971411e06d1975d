"""A class data archive lets Spark's JVM start in about half the time; `python -m freshline.spark.jvm_cds` makes it.

It lies in the user's cache and fits one Java and one PySpark. Without it, or with a damaged one, Spark starts as ever.
A worker whose Spark has none makes it in the background (`freshline.worker.cds_builder`).
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
    """Make the archive if it is not there, by one small training run; it takes half a minute and about 180 MB.

    Of several who call it at once, one makes it and the others wait. `EngineError`: it cannot be made.
    """
    path = archive_path(check_java())
    if path.exists():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path):
            if not path.exists():
                _make(path)
    except OSError as error:
        raise EngineError(f"the archive {path} cannot be made: {error}; Spark works without it") from None
    return path


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """The lock ends with its process, however that ends, and its file stays: to remove it would let two in."""
    with path.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(path: Path) -> None:
    for left in path.parent.glob(f"{path.stem}-*"):  # by one that was killed: we hold the lock
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{path.stem}-", dir=path.parent) as scratch:
        made = Path(scratch, "new.jsa")
        _run_training(Path(scratch), made)
        if not made.exists():
            raise EngineError(f"no archive was made in {path.parent}; Spark works without it")
        made.replace(path)


def _run_training(scratch: Path, made: Path) -> None:
    command = [sys.executable, "-m", "freshline.spark.jvm_cds", "train", str(scratch), str(made)]
    with contextlib.suppress(subprocess.TimeoutExpired):
        # The JVM writes the archive as its last act; its end of the pipe says when that is done.
        subprocess.run(command, capture_output=True, check=False, timeout=MINUTES * 60)


def _train(scratch: Path, made: Path) -> None:
    """Load the classes that a step loads, and leave in good order."""
    from freshline.spark.engine import Engine  # noqa: PLC0415 - the engine's session uses this module

    Engine.open(master=None, remote=None, scratch=scratch, java=f"-XX:ArchiveClassesAtExit={made}").spark.stop()


def _step_back() -> None:
    """Runs come first: they get the cores, and if memory runs out, the system takes it from here."""
    os.nice(19)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def main(arguments: Sequence[str]) -> None:
    """Make the archive and say where it is, or why it cannot be made; `background`: without haste."""
    if arguments[:1] == ["train"]:
        _train(Path(arguments[1]), Path(arguments[2]))
        return
    if arguments == ["background"]:
        _step_back()
    try:
        sys.stdout.write(f"{make_archive()}\n")
    except FreshlineError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
