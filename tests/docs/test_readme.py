"""The example of the README: its files, its commands and their output."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.deployment import Deployment
from tests.docs.pages import README, session

TIMES = re.compile(r"\d\d:\d\d:\d\d|\b\d+(?:\.\d)? (?:s|min|h)\b(?: ago)?|run [0-9a-f]{8}")


@pytest.fixture
def deployment(tmp_path: Path, database_url: str) -> Iterator[Deployment]:
    """Yield the project of the README with a materializer and a worker, each in its own process."""
    deployment = Deployment(tmp_path / "shop", database_url)
    (deployment.root / "sources").mkdir()
    (deployment.root / "sources" / "orders.yaml").write_text(README.blocks("yaml")[0], encoding="utf-8")
    (deployment.root / "workflows" / "shop.py").write_text(README.blocks("python")[0], encoding="utf-8")
    deployment.apply()
    deployment.start_all()
    yield deployment
    deployment.stop_all()


@pytest.mark.process
def test_the_example_prints_what_it_shows(deployment: Deployment) -> None:
    """Typed one after another, the commands print these lines; times, ages and ids aside."""
    (block,) = README.blocks("console")
    for command, shown in session(block):
        printed = typed(deployment, command)
        assert_prints(plain(printed.splitlines()), plain(shown))
        if "report" in command:
            deployment.wait_fresh("shop.total", "shop.alert")
    ran = [run["workflowSlug"] for run in deployment.runs()]
    assert ran == ["shop-total", "shop-alert", "shop-total", "shop-total", "shop-alert"]


def typed(deployment: Deployment, command: str) -> str:
    """Return the terminal output of the command."""
    program, *arguments = shlex.split(command)
    assert program == "freshline"
    return subprocess.run(
        [sys.executable, "-m", "freshline.cli.main", *arguments],
        env={**deployment.environ, "COLUMNS": "100"},
        cwd=deployment.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    ).stdout


def plain(lines: list[str]) -> list[str]:
    """Return the lines without parts that vary, and with single blanks."""
    return [" ".join(TIMES.sub("*", line).split()) for line in lines]


def assert_prints(printed: list[str], shown: list[str]) -> None:
    """Check that the printed lines are the lines shown; `...` stands for all that follow."""
    if shown[-1:] == ["..."]:
        shown = shown[:-1]
        printed = printed[: len(shown)]
    assert printed == shown
