"""The archive is made once per worker, in the background; what goes wrong is told and nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest
from structlog.testing import capture_logs

from freshline.worker import cds_builder
from freshline.worker.cds_builder import Archivist
from tests.waiting import wait_until


class Makers:
    """Stands in for the process that makes the archive: runs a program of the test."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.started: list[subprocess.Popen[str]] = []

    def __call__(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", self.program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("print('/cache/a.jsa')", {"event": "spark_archive_made", "log_level": "info", "path": "/cache/a.jsa"}),
        (
            "import sys; sys.exit('the disk is full')",
            {"event": "spark_archive_not_made", "log_level": "warning", "error": "the disk is full"},
        ),
        (
            "raise SystemExit(7)",
            {"event": "spark_archive_not_made", "log_level": "warning", "error": "exit code 7"},
        ),
    ],
    ids=["made", "refused", "silent"],
)
def test_it_is_begun_and_told_once(monkeypatch: pytest.MonkeyPatch, program: str, told: dict[str, str]) -> None:
    """Every slot that finds no archive asks for it, again and again."""
    makers = Makers(program)
    monkeypatch.setattr(cds_builder, "_start", makers)
    worker = Archivist()
    with capture_logs() as logs:
        for _ in range(5):
            worker.begin()
        wait_until(lambda: logs, what="the end is told")
    assert logs == [told]
    assert len(makers.started) == 1
    worker.stop()


def test_a_process_that_cannot_be_started_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slot that asked goes on."""

    def no_processes() -> subprocess.Popen[str]:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(cds_builder, "_start", no_processes)
    with capture_logs() as logs:
        Archivist().begin()
    assert [one["error"] for one in logs] == ["no more processes"]


def test_it_ends_with_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, without a word; it may be stopped twice, and begins no more."""
    makers = Makers("import time; time.sleep(60)")
    monkeypatch.setattr(cds_builder, "_start", makers)
    worker = Archivist()
    with capture_logs() as logs:
        worker.begin()
        worker.stop()
        (process,) = makers.started
        wait_until(lambda: process.returncode is not None, 10, what="the end of the process")
        worker.stop()
        worker.begin()
    assert (logs, len(makers.started)) == ([], 1)
