"""The page beside the project of the demo: real processes and Spark, and a browser that looks at them."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest
from playwright.sync_api import expect

from freshline.settings import Settings
from freshline.store.db.opening import open_store
from tests.page.harness import Browsing
from tests.page.test_live import is_marked, mark, row
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.process]
EXAMPLE = Path(__file__).parents[2] / "examples" / "flights"
PROJECT = ("freshline.toml", "sources", "workflows", "external.py", "deliveries.py")
SPARK_MS = 240_000  # a session starts, and eleven jobs run on a machine that runs other tests too


@contextmanager
def dev(project: Path, database_url: str, log: Path) -> Iterator[str]:
    """Run `freshline dev` in a project; yield the address that it prints."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ = {**os.environ, "FRESHLINE_DATABASE_URL": database_url, "FRESHLINE_PROJECT": str(project)}
    command = [sys.executable, "-m", "freshline.cli.main", "dev", "--port", str(port)]
    with (
        log.open("w") as output,
        subprocess.Popen(command, cwd=project, env=environ, stdout=output, stderr=output) as process,
    ):
        try:
            link = re.compile(r"open (http://127\.0\.0\.1:\d+) in a browser")
            wait_until(lambda: link.search(log.read_text()) is not None, 120)
            found = link.search(log.read_text())
            assert found is not None
            yield found[1]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def deliver(project: Path, database_url: str) -> None:
    """Let a day of the example arrive, and report it."""
    spec = importlib.util.spec_from_file_location("demo_deliveries", project / "deliveries.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    outside = module.Deliveries(project)
    with open_store(Settings(project=project, database_url=database_url)) as store:
        for one in [*outside.reference(), *outside.arrive([date(2013, 2, 5)])]:
            store.operations.report(one.asset, version=one.version, payload=one.payload)


def test_the_wave_of_a_report_is_seen_on_the_project_of_the_demo(
    database_url: str, page_files: Path, browsing: Browsing, tmp_path: Path
) -> None:
    """`dev` prints a link; the page shows what runs, and then that everything is fresh, without a reload."""
    project = tmp_path / "flights"
    project.mkdir()
    for name in PROJECT:
        source = EXAMPLE / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, project / name)
    with dev(project, database_url, tmp_path / "dev.log") as url:
        screen = browsing.screen(url)
        screen.open("assets")
        screen.live()
        mark(screen)
        expect(row(screen, "flights.clean")).to_have_text("missing")
        deliver(project, database_url)
        expect(row(screen, "flights.clean")).to_have_text("running", timeout=SPARK_MS)
        expect(row(screen, "flights.clean")).to_have_text("fresh", timeout=SPARK_MS)
        screen.go("")
        expect(screen.page.get_by_role("heading", level=1)).to_have_text(
            re.compile(r"^(\d+) of \1 fresh"), timeout=SPARK_MS
        )
        assert is_marked(screen)
        screen.page.close()
