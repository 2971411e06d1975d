"""Has the class data archive made that lets Spark start faster, once and in the background, where there is none.

It promises nothing: whatever goes wrong is told in one line, and Spark starts as ever. Several workers do not hinder
each other, and one that is killed leaves nothing that the next would not remove (`freshline.spark.jvm_cds`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading

import structlog

from freshline.worker.process import child_environment

log = structlog.get_logger("freshline.runs")


class Archivist:
    """`begin` returns at once and does something only once; `stop` ends what is under way. Both by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = False
        self._process: subprocess.Popen[str] | None = None

    def begin(self) -> None:
        """A Spark has started without an archive."""
        with self._lock:
            if self._begun:
                return
            self._begun = True
            try:
                self._process = _start()
            except OSError as error:
                _tell(str(error))
                return
        threading.Thread(target=_follow, args=(self._process,), name="freshline-archivist", daemon=True).start()

    def stop(self) -> None:
        """End it, and begin no more."""
        with self._lock:
            self._begun = True
            if self._process is not None and self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "freshline.spark.jvm_cds", "background"],
        cwd="/",
        env=child_environment(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _follow(process: subprocess.Popen[str]) -> None:
    made, said = process.communicate()
    if process.returncode == 0:
        log.info("spark_archive_made", path=made.strip())
    elif process.returncode > 0:  # else it was ended with the worker
        _tell(next(iter(reversed(said.strip().splitlines())), f"exit code {process.returncode}"))


def _tell(why: str) -> None:
    log.warning("spark_archive_not_made", error=why)
