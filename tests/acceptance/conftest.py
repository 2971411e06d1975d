"""Every acceptance test has its own deployment and its own database."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.acceptance.deployment import Deployment


@pytest.fixture
def deployment(tmp_path: Path, database_url: str, request: pytest.FixtureRequest) -> Iterator[Deployment]:
    """Real processes on a fresh project and database."""
    deployment = Deployment(tmp_path / "project", database_url)
    yield deployment
    deployment.stop_all()
    if request.node.stash.get(FAILED, False):
        print(deployment.logs())


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember a failure, so that the processes' logs are shown with it."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report
